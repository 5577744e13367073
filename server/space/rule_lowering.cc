// From the tree of a rule's text to nodes of the graph.
#include "server/expression/expression_internal.h"
#include "server/space/rule_graph.h"

namespace tunefarm {

using expression::Node;
using expression::NodeKind;
using expression::Op;
using expression::Tree;
using space_internal::LoweredRule;
using space_internal::RuleGraph;

// One use puts one rule into the graph. A part without a place there has a value of -1, and so has all that holds it.
class RuleLowering {
 public:
  RuleLowering(const SymbolTable& symbols, const std::vector<Parameter>& parameters, RuleGraph* graph)
      : symbols_(symbols), parameters_(parameters), graph_(*graph) {}

  std::optional<LoweredRule> Run(std::string_view text) {
    const auto tree = expression::Parse(text);
    if (!tree.ok()) return std::nullopt;
    LoweredRule rule = Lower(*tree, tree->root);
    rule.value = graph_.Truth(rule.value);
    if (rule.value < 0 || rule.fault < 0) return std::nullopt;
    return rule;
  }

 private:
  LoweredRule None() const { return {}; }
  LoweredRule Sure(RuleGraph::Id value) { return {value, graph_.False()}; }

  LoweredRule Lower(const Tree& tree, int index) {
    const Node& node = tree.nodes[index];
    switch (node.kind) {
      case NodeKind::kLiteral:
        return Constant(node.literal);
      case NodeKind::kIntMinMagnitude:
      case NodeKind::kList:
        return None();
      case NodeKind::kName:
        return Name(node.name);
      case NodeKind::kUnary:
        return Unary(tree, node);
      case NodeKind::kBinary:
        return Binary(tree, node);
      case NodeKind::kAnd:
      case NodeKind::kOr:
        return ShortCircuit(tree, node);
      case NodeKind::kCompare:
        return Compare(tree, node);
      case NodeKind::kConditional:
        return Conditional(tree, node);
      case NodeKind::kCall:
        if (node.children.size() == 1) return Unary(tree, node);
        return node.children.size() == 2 ? Binary(tree, node) : Reduce(tree, node);
    }
    return None();
  }

  LoweredRule Constant(const Value& value) {
    switch (value.type()) {
      case ValueType::kBool:
        return Sure(graph_.Int(value.bool_value() ? 1 : 0));
      case ValueType::kInt:
        return Sure(graph_.Int(value.int_value()));
      case ValueType::kFloat:
        return Sure(graph_.Float(value.float_value()));
      case ValueType::kString:
        break;
    }
    return None();
  }

  LoweredRule Name(const std::string& name) {
    const auto it = symbols_.symbols_.find(name);
    if (it == symbols_.symbols_.end()) return None();
    const SymbolTable::Symbol& symbol = it->second;
    if (symbol.kind == SymbolTable::Symbol::Kind::kConstant) return Constant(symbol.value);
    if (symbol.kind == SymbolTable::Symbol::Kind::kVariable) return Sure(graph_.Variable(symbol.slot));
    const auto known = derived_.find(name);
    if (known != derived_.end()) return known->second;
    const auto tree = expression::Parse(symbol.text);
    const LoweredRule lowered = tree.ok() ? Lower(*tree, tree->root) : None();
    derived_.emplace(name, lowered);
    return lowered;
  }

  // Where either of two parts fails; both are evaluated.
  RuleGraph::Id EitherFault(const LoweredRule& a, const LoweredRule& b) { return graph_.Or(a.fault, b.fault); }

  LoweredRule Unary(const Tree& tree, const Node& node) {
    const LoweredRule operand = Lower(tree, node.children[0]);
    if (operand.value < 0) return None();
    switch (node.op) {
      case Op::kNegate:
        return {graph_.Negate(operand.value), operand.fault};
      case Op::kPlus:
        return operand;
      case Op::kNot:
        return {graph_.Not(graph_.Truth(operand.value)), operand.fault};
      case Op::kToBool:
        return {graph_.Truth(operand.value), operand.fault};
      case Op::kAbs:
        return {graph_.Abs(operand.value), operand.fault};
      case Op::kToFloat:
        return {graph_.ToFloat(operand.value), operand.fault};
      case Op::kToInt:
        return graph_.At(operand.value).is_float ? None() : operand;
      case Op::kIsPow2:
        return {graph_.IsPow2(operand.value), operand.fault};
      default:
        return None();
    }
  }

  LoweredRule Binary(const Tree& tree, const Node& node) {
    const LoweredRule a = Lower(tree, node.children[0]);
    const LoweredRule b = Lower(tree, node.children[1]);
    return Combine(node.op, a, b);
  }

  LoweredRule Combine(Op op, const LoweredRule& a, const LoweredRule& b) {
    if (a.value < 0 || b.value < 0) return None();
    const bool divides =
        op == Op::kDivide || op == Op::kFloorDivide || op == Op::kModulo || op == Op::kCeilDiv || op == Op::kRoundUp;
    RuleGraph::Id fault = EitherFault(a, b);
    if ((op == Op::kBitAnd || op == Op::kBitOr) && graph_.IsBoolean(a.value) && graph_.IsBoolean(b.value)) {
      return {op == Op::kBitAnd ? graph_.And(a.value, b.value) : graph_.Or(a.value, b.value), fault};
    }
    if (divides) fault = graph_.Or(fault, graph_.IsZero(b.value));
    return {graph_.Arithmetic(op, a.value, b.value), fault};
  }

  LoweredRule Reduce(const Tree& tree, const Node& node) {
    LoweredRule result = Lower(tree, node.children[0]);
    for (size_t i = 1; i < node.children.size(); ++i) result = Combine(node.op, result, Lower(tree, node.children[i]));
    return result;
  }

  // Python's `and` and `or` give an operand. The right one fails only where the left one does not decide.
  LoweredRule ShortCircuit(const Tree& tree, const Node& node) {
    const LoweredRule a = Lower(tree, node.children[0]);
    const LoweredRule b = Lower(tree, node.children[1]);
    if (a.value < 0 || b.value < 0) return None();
    const bool is_and = node.kind == NodeKind::kAnd;
    const RuleGraph::Id truth = graph_.Truth(a.value);
    const RuleGraph::Id goes_on = is_and ? truth : graph_.Not(truth);
    const RuleGraph::Id fault = graph_.Or(a.fault, graph_.And(goes_on, b.fault));
    if (graph_.IsBoolean(a.value) && graph_.IsBoolean(b.value)) {
      return {is_and ? graph_.And(a.value, b.value) : graph_.Or(a.value, b.value), fault};
    }
    return {graph_.Select(goes_on, b.value, a.value), fault};
  }

  LoweredRule Conditional(const Tree& tree, const Node& node) {
    const LoweredRule condition = Lower(tree, node.children[1]);
    const LoweredRule if_true = Lower(tree, node.children[0]);
    const LoweredRule if_false = Lower(tree, node.children[2]);
    if (condition.value < 0 || if_true.value < 0 || if_false.value < 0) return None();
    const RuleGraph::Id truth = graph_.Truth(condition.value);
    return {graph_.Select(truth, if_true.value, if_false.value),
            graph_.Or(condition.fault, graph_.Select(truth, if_true.fault, if_false.fault))};
  }

  // A chain a < b < c: what stands right of a link that does not hold is not evaluated.
  LoweredRule Compare(const Tree& tree, const Node& node) {
    if (const auto strings = CompareStrings(tree, node)) return *strings;
    LoweredRule left = Lower(tree, node.children[0]);
    LoweredRule chain = Sure(graph_.True());
    for (size_t i = 0; i < node.ops.size(); ++i) {
      const Node& operand = tree.nodes[node.children[i + 1]];
      const bool is_membership = node.ops[i] == Op::kIn || node.ops[i] == Op::kNotIn;
      if (is_membership && operand.kind != NodeKind::kList) return None();
      LoweredRule link;
      LoweredRule right;
      if (is_membership) {
        link = Membership(tree, operand, left, node.ops[i]);
      } else {
        right = Lower(tree, node.children[i + 1]);
        link = {graph_.Compare(node.ops[i], left.value, right.value), EitherFault(left, right)};
      }
      if (link.value < 0 || link.fault < 0) return None();
      chain.fault = graph_.Or(chain.fault, graph_.And(chain.value, link.fault));
      chain.value = graph_.And(chain.value, link.value);
      left = right;
    }
    return chain;
  }

  LoweredRule Membership(const Tree& tree, const Node& list, const LoweredRule& sought, Op op) {
    LoweredRule found = {graph_.False(), sought.fault};
    for (const int child : list.children) {
      const LoweredRule element = Lower(tree, child);
      found.value = graph_.Or(found.value, graph_.Compare(Op::kEqual, sought.value, element.value));
      found.fault = graph_.Or(found.fault, element.fault);
    }
    if (op == Op::kNotIn) found.value = graph_.Not(found.value);
    return found;
  }

  // A parameter compared with strings alone is known value by value: dtype == 'bf16', dtype in ('bf16', 'fp16').
  std::optional<LoweredRule> CompareStrings(const Tree& tree, const Node& node) {
    if (node.ops.size() != 1) return std::nullopt;
    const Op op = node.ops[0];
    int left = node.children[0];
    int right = node.children[1];
    const bool is_membership = op == Op::kIn || op == Op::kNotIn;
    if (!is_membership && op != Op::kEqual && op != Op::kNotEqual) return std::nullopt;
    if (is_membership != (tree.nodes[right].kind == NodeKind::kList)) return std::nullopt;
    if (!is_membership && SlotOf(tree.nodes[left]) < 0) std::swap(left, right);
    const int slot = SlotOf(tree.nodes[left]);
    if (slot < 0) return std::nullopt;
    std::vector<const Value*> strings;
    if (is_membership) {
      for (const int child : tree.nodes[right].children) strings.push_back(StringOf(tree.nodes[child]));
    } else {
      strings.push_back(StringOf(tree.nodes[right]));
    }
    std::vector<bool> holds;
    for (const Value& value : parameters_[static_cast<size_t>(slot)].values) {
      bool is_found = false;
      for (const Value* string : strings) {
        if (string == nullptr) return std::nullopt;
        is_found = is_found || *string == value;
      }
      holds.push_back(is_found == (op == Op::kEqual || op == Op::kIn));
    }
    return Sure(graph_.Table(slot, std::move(holds)));
  }

  // The slot of a parameter's name, else -1.
  int SlotOf(const Node& node) const {
    if (node.kind != NodeKind::kName) return -1;
    const auto it = symbols_.symbols_.find(node.name);
    const bool is_variable = it != symbols_.symbols_.end() && it->second.kind == SymbolTable::Symbol::Kind::kVariable;
    return is_variable ? it->second.slot : -1;
  }

  // The string that a literal or a constant's name stands for, else nullptr.
  const Value* StringOf(const Node& node) const {
    if (node.kind == NodeKind::kLiteral) return node.literal.is_string() ? &node.literal : nullptr;
    if (node.kind != NodeKind::kName) return nullptr;
    const auto it = symbols_.symbols_.find(node.name);
    if (it == symbols_.symbols_.end() || it->second.kind != SymbolTable::Symbol::Kind::kConstant) return nullptr;
    return it->second.value.is_string() ? &it->second.value : nullptr;
  }

  const SymbolTable& symbols_;
  const std::vector<Parameter>& parameters_;
  RuleGraph& graph_;
  std::map<std::string, LoweredRule> derived_;
};

namespace space_internal {

std::optional<LoweredRule> LowerRule(std::string_view text, const SymbolTable& symbols,
                                     const std::vector<Parameter>& parameters, RuleGraph* graph) {
  return RuleLowering(symbols, parameters, graph).Run(text);
}

}  // namespace space_internal
}  // namespace tunefarm
