#include <fmt/core.h>

#include <algorithm>

#include "server/base/edit_distance.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/expression/expression_internal.h"

namespace tunefarm {

using expression::Cell;
using expression::ErrorAt;
using expression::Instruction;
using expression::Node;
using expression::NodeKind;
using expression::Op;
using expression::Tree;

namespace {

// What is known of an operand before evaluation.
enum class Type { kBool, kInt, kBoolOrInt, kFloat, kString, kUnknown };

bool IsIntegralType(Type type) { return type == Type::kBool || type == Type::kInt || type == Type::kBoolOrInt; }

Type TypeOf(ValueType type) {
  switch (type) {
    case ValueType::kBool:
      return Type::kBool;
    case ValueType::kInt:
      return Type::kInt;
    case ValueType::kFloat:
      return Type::kFloat;
    case ValueType::kString:
      break;
  }
  return Type::kString;
}

// The type of the result, where it is only one.
std::optional<ValueType> ResultType(Type type) {
  for (const ValueType one : {ValueType::kBool, ValueType::kInt, ValueType::kFloat, ValueType::kString}) {
    if (TypeOf(one) == type) return one;
  }
  return std::nullopt;
}

// The type of a value that is one of two.
Type Join(Type a, Type b) {
  if (a == b) return a;
  return IsIntegralType(a) && IsIntegralType(b) ? Type::kBoolOrInt : Type::kUnknown;
}

Type UnaryType(Op op, Type operand) {
  switch (op) {
    case Op::kNot:
    case Op::kToBool:
    case Op::kIsPow2:
      return Type::kBool;
    case Op::kToInt:
    case Op::kRound:
    case Op::kInvert:
      return Type::kInt;
    case Op::kToFloat:
    case Op::kLog2:
      return Type::kFloat;
    default:
      return IsIntegralType(operand) ? Type::kInt : (operand == Type::kFloat ? Type::kFloat : Type::kUnknown);
  }
}

Type BinaryType(Op op, Type a, Type b, bool natural_exponent) {
  if (op == Op::kMin || op == Op::kMax) return Join(a, b);
  if (op == Op::kBitAnd || op == Op::kBitOr || op == Op::kBitXor) {
    // Of two bools they give a bool.
    if (a == Type::kBool && b == Type::kBool) return Type::kBool;
    const bool is_int = a == Type::kInt || b == Type::kInt || a == Type::kFloat || b == Type::kFloat;
    if (is_int) return Type::kInt;
    return IsIntegralType(a) && IsIntegralType(b) ? Type::kBoolOrInt : Type::kUnknown;
  }
  if (op == Op::kShiftLeft || op == Op::kShiftRight) return Type::kInt;
  // What a is, or an int in the place of a bool.
  if (op == Op::kRoundDigits) return IsIntegralType(a) ? Type::kInt : (a == Type::kFloat ? a : Type::kUnknown);
  const bool integral = IsIntegralType(a) && IsIntegralType(b);
  if (op == Op::kDivide) return integral || a == Type::kFloat || b == Type::kFloat ? Type::kFloat : Type::kUnknown;
  if (op == Op::kPower && integral) return natural_exponent ? Type::kInt : Type::kUnknown;
  if (integral) return Type::kInt;
  return a == Type::kFloat || b == Type::kFloat ? Type::kFloat : Type::kUnknown;
}

}  // namespace

// Turns a tree into a program. Names are resolved, derived names put in place and constant parts folded on the way.
class ExpressionCompiler {
 public:
  ExpressionCompiler(std::string_view text, const SymbolTable& symbols)
      : symbols_(symbols), program_(std::make_shared<Expression::Program>()) {
    program_->text = std::string(text);
  }

  absl::StatusOr<std::shared_ptr<const Expression::Program>> Run() {
    ASSIGN_OR_RETURN(const Tree tree, expression::Parse(program_->text));
    ASSIGN_OR_RETURN(const Type type, GenerateTree(tree));
    FindVariables();
    program_->result_type = ResultType(type);
    // The jump targets and the evaluator's stack have fixed bounds.
    if (stack_max_ > expression::kStackMax) {
      return ErrorAt(program_->text, 1,
                     fmt::format("the expression needs more than {} operands at once", expression::kStackMax));
    }
    return program_;
  }

 private:
  // ---- Emitting ----

  int Here() const { return static_cast<int>(program_->code.size()); }

  void Emit(Op op, int column, int stack_change, int32_t argument = 0, Op sub = Op::kAdd) {
    Instruction instruction;
    instruction.op = op;
    instruction.sub = sub;
    instruction.column = static_cast<uint16_t>(derived_column_ != 0 ? derived_column_ : column);
    instruction.derived = derived_;
    instruction.argument = argument;
    program_->code.push_back(instruction);
    stack_ += stack_change;
    stack_max_ = std::max(stack_max_, stack_);
  }

  void EmitConstant(const Value& value, int column) {
    program_->constants.push_back(value);
    program_->constant_cells.push_back(expression::CellOf(program_->constants.back()));
    Emit(Op::kConstant, column, 1, static_cast<int32_t>(program_->constants.size()) - 1);
  }

  void PatchJump(int at) { program_->code[at].argument = Here(); }

  bool IsConstantFrom(int begin) const { return Here() == begin + 1 && program_->code[begin].op == Op::kConstant; }
  const Cell& ConstantAt(int at) const { return program_->constant_cells[program_->code[at].argument]; }

  // Replaces the code from `begin` on, which leaves one value, by that value if it is constant and can be computed. An
  // error stays in the code: it counts only where evaluation reaches it, as in Python.
  Type Fold(int begin, int column, Type type) {
    for (int i = begin; i < Here(); ++i) {
      if (program_->code[i].op == Op::kLoad) return type;
    }
    if (stack_max_ > expression::kStackMax) return type;  // refused at the end
    Cell result = Cell::Int(0);
    if (!expression::RunConstant(*program_, begin, Here(), &result)) return type;
    const Value value = expression::ValueOf(result);
    program_->code.resize(begin);
    --stack_;
    EmitConstant(value, column);
    return TypeOf(value.type());
  }

  // ---- One function per kind of node; each leaves one value on the stack ----

  absl::StatusOr<Type> GenerateTree(const Tree& tree) {
    node_count_ += static_cast<int>(tree.nodes.size());
    if (node_count_ > kExpressionNodesMax) {
      return ErrorAt(
          program_->text, std::max(derived_column_, 1),
          fmt::format("more than {} operators and operands with the derived names put in", kExpressionNodesMax));
    }
    return Generate(tree, tree.root);
  }

  absl::StatusOr<Type> Generate(const Tree& tree, int index) {
    const Node& node = tree.nodes[index];
    switch (node.kind) {
      case NodeKind::kLiteral:
        EmitConstant(node.literal, node.column);
        return TypeOf(node.literal.type());
      case NodeKind::kIntMinMagnitude:
        return ErrorAt(program_->text, node.column, "int literal does not fit in 64 bits");
      case NodeKind::kName:
        return GenerateName(node);
      case NodeKind::kUnary:
        return GenerateUnary(tree, node);
      case NodeKind::kBinary:
        return GenerateBinary(tree, node);
      case NodeKind::kAnd:
      case NodeKind::kOr:
        return GenerateShortCircuit(tree, node);
      case NodeKind::kCompare:
        return GenerateCompare(tree, node);
      case NodeKind::kConditional:
        return GenerateConditional(tree, node);
      case NodeKind::kCall:
        if (node.children.size() == 1) return GenerateUnary(tree, node);
        return node.children.size() == 2 ? GenerateBinary(tree, node) : GenerateReduce(tree, node);
      case NodeKind::kList:
        break;  // a child of kCompare only
    }
    return ErrorAt(program_->text, node.column, "a list can stand only after 'in'");
  }

  absl::StatusOr<Type> GenerateName(const Node& node) {
    const auto it = symbols_.symbols_.find(node.name);
    if (it == symbols_.symbols_.end()) return UnknownName(node);
    const SymbolTable::Symbol& symbol = it->second;
    switch (symbol.kind) {
      case SymbolTable::Symbol::Kind::kConstant:
        EmitConstant(symbol.value, node.column);
        return TypeOf(symbol.value.type());
      case SymbolTable::Symbol::Kind::kVariable:
        Emit(Op::kLoad, node.column, 1, symbol.slot);
        return symbol.type.has_value() ? TypeOf(*symbol.type) : Type::kUnknown;
      case SymbolTable::Symbol::Kind::kDerived:
        break;
    }
    // AddDerived compiled this text, so that it cannot fail here but for the limit on nodes.
    ASSIGN_OR_RETURN(const Tree tree, expression::Parse(symbol.text));
    const int outer_column = derived_column_;
    const uint16_t outer = derived_;
    if (derived_column_ == 0) derived_column_ = node.column;
    program_->derived_names.push_back(node.name);
    derived_ = static_cast<uint16_t>(program_->derived_names.size());
    const auto type = GenerateTree(tree);
    derived_column_ = outer_column;
    derived_ = outer;
    return type;
  }

  absl::Status UnknownName(const Node& node) const {
    if (expression::FindFunction(node.name) != nullptr) {
      return ErrorAt(program_->text, node.column, fmt::format("'{0}' is a function; call it: {0}(...)", node.name));
    }
    std::vector<std::string> candidates = symbols_.Names();
    candidates.emplace_back("True");
    candidates.emplace_back("False");
    const auto close = ClosestMatch(node.name, candidates);
    return ErrorAt(program_->text, node.column,
                   close ? fmt::format("unknown name '{}' (did you mean '{}'?)", node.name, *close)
                         : fmt::format("unknown name '{}'", node.name));
  }

  absl::StatusOr<Type> GenerateUnary(const Tree& tree, const Node& node) {
    const int begin = Here();
    ASSIGN_OR_RETURN(const Type operand, Generate(tree, node.children[0]));
    Emit(node.op, node.column, 0);
    return Fold(begin, node.column, UnaryType(node.op, operand));
  }

  // min and max of three or more arguments.
  absl::StatusOr<Type> GenerateReduce(const Tree& tree, const Node& node) {
    const int begin = Here();
    ASSIGN_OR_RETURN(Type type, Generate(tree, node.children[0]));
    for (size_t i = 1; i < node.children.size(); ++i) {
      ASSIGN_OR_RETURN(const Type next, Generate(tree, node.children[i]));
      type = Join(type, next);
    }
    const int count = static_cast<int>(node.children.size());
    Emit(Op::kReduce, node.column, 1 - count, count, node.op);
    return Fold(begin, node.column, type);
  }

  // Binary operators, and functions of two arguments.
  absl::StatusOr<Type> GenerateBinary(const Tree& tree, const Node& node) {
    const int begin = Here();
    ASSIGN_OR_RETURN(const Type left, Generate(tree, node.children[0]));
    const int right_begin = Here();
    ASSIGN_OR_RETURN(const Type right, Generate(tree, node.children[1]));
    const bool natural_exponent =
        IsConstantFrom(right_begin) && ConstantAt(right_begin).is_integral() && ConstantAt(right_begin).int_value >= 0;
    Emit(node.op, node.column, -1);
    return Fold(begin, node.column, BinaryType(node.op, left, right, natural_exponent));
  }

  absl::StatusOr<Type> GenerateShortCircuit(const Tree& tree, const Node& node) {
    const bool is_and = node.kind == NodeKind::kAnd;
    const int begin = Here();
    ASSIGN_OR_RETURN(const Type left, Generate(tree, node.children[0]));
    const bool left_is_constant = IsConstantFrom(begin);
    const bool left_decides = left_is_constant && ConstantAt(begin).Truth() != is_and;
    const int jump = Here();
    if (left_is_constant && !left_decides) {
      // The right operand is the result.
      program_->code.resize(begin);
      --stack_;
      return Generate(tree, node.children[1]);
    }
    Emit(is_and ? Op::kJumpIfFalseElsePop : Op::kJumpIfTrueElsePop, node.column, -1);
    ASSIGN_OR_RETURN(const Type right, Generate(tree, node.children[1]));
    if (left_decides) {
      // The right operand was compiled for its errors only.
      program_->code.resize(jump);
      return left;
    }
    PatchJump(jump);
    return Join(left, right);
  }

  absl::StatusOr<Type> GenerateConditional(const Tree& tree, const Node& node) {
    const int begin = Here();
    ASSIGN_OR_RETURN(const Type condition_type, Generate(tree, node.children[1]));
    (void)condition_type;
    if (IsConstantFrom(begin)) {
      const bool truth = ConstantAt(begin).Truth();
      program_->code.resize(begin);
      --stack_;
      // The other branch is compiled for its errors only, first, and dropped.
      ASSIGN_OR_RETURN(const Type dropped, Generate(tree, node.children[truth ? 2 : 0]));
      (void)dropped;
      program_->code.resize(begin);
      --stack_;
      return Generate(tree, node.children[truth ? 0 : 2]);
    }
    const int to_else = Here();
    Emit(Op::kPopJumpIfFalse, node.column, -1);
    ASSIGN_OR_RETURN(const Type value, Generate(tree, node.children[0]));
    const int to_end = Here();
    Emit(Op::kJump, node.column, -1);
    PatchJump(to_else);
    ASSIGN_OR_RETURN(const Type other, Generate(tree, node.children[2]));
    PatchJump(to_end);
    return Join(value, other);
  }

  // a < b < c evaluates b once; a false link leaves False and skips the rest.
  absl::StatusOr<Type> GenerateCompare(const Tree& tree, const Node& node) {
    const int begin = Here();
    ASSIGN_OR_RETURN(Type type, Generate(tree, node.children[0]));
    (void)type;
    std::vector<int> exits;
    for (size_t i = 0; i < node.ops.size(); ++i) {
      const Op op = node.ops[i];
      const int column = node.op_columns[i];
      const Node& right = tree.nodes[node.children[i + 1]];
      const bool is_membership = op == Op::kIn || op == Op::kNotIn;
      if (is_membership && right.kind == NodeKind::kList) {
        // The parser lets a list only end a chain.
        RETURN_IF_ERROR(GenerateMembership(tree, right, op, column));
        break;
      }
      ASSIGN_OR_RETURN(type, Generate(tree, node.children[i + 1]));
      if (i + 1 == node.ops.size()) {
        Emit(op, column, -1);
      } else {
        exits.push_back(Here());
        Emit(Op::kChain, column, -1, 0, op);
      }
    }
    for (const int exit : exits) PatchJump(exit);
    return Fold(begin, node.column, Type::kBool);
  }

  absl::Status GenerateMembership(const Tree& tree, const Node& list, Op op, int column) {
    Emit(Op::kInBegin, column, 1);
    for (const int child : list.children) {
      ASSIGN_OR_RETURN(const Type element, Generate(tree, child));
      (void)element;
      Emit(Op::kInElement, column, -1);
    }
    Emit(Op::kInEnd, column, -1, 0, op);
    return absl::OkStatus();
  }

  // ---- Facts about the whole ----

  void FindVariables() {
    for (const Instruction& instruction : program_->code) {
      if (instruction.op == Op::kLoad) program_->variables.push_back(instruction.argument);
    }
    auto& variables = program_->variables;
    std::sort(variables.begin(), variables.end());
    variables.erase(std::unique(variables.begin(), variables.end()), variables.end());
    for (const int slot : variables) program_->variable_names.push_back(symbols_.slots_[slot]);
  }

  const SymbolTable& symbols_;
  std::shared_ptr<Expression::Program> program_;
  int node_count_ = 0;
  int stack_ = 0;
  int stack_max_ = 0;
  int derived_column_ = 0;  // of the outermost derived name being put in place; 0 outside
  uint16_t derived_ = 0;
};

absl::StatusOr<std::shared_ptr<const Expression::Program>> expression::CompileProgram(std::string_view text,
                                                                                      const SymbolTable& symbols) {
  return ExpressionCompiler(text, symbols).Run();
}

absl::Status SymbolTable::CheckNewName(std::string_view name) const {
  if (!IsValidName(name)) {
    return InvalidArgument(
        "'{}' cannot be a name: use letters, digits and '_' (and '.' between parts), at most 128 bytes, and no word of "
        "the expression language",
        name.substr(0, 128));
  }
  if (symbols_.find(name) != symbols_.end()) return InvalidArgument("the name '{}' is defined twice", name);
  return absl::OkStatus();
}

absl::StatusOr<int> SymbolTable::AddVariable(std::string_view name, std::optional<ValueType> type) {
  RETURN_IF_ERROR(CheckNewName(name));
  Symbol symbol;
  symbol.slot = static_cast<int>(slots_.size());
  symbol.type = type;
  slots_.emplace_back(name);
  symbols_.emplace(std::string(name), std::move(symbol));
  return static_cast<int>(slots_.size()) - 1;
}

absl::Status SymbolTable::AddConstant(std::string_view name, Value value) {
  RETURN_IF_ERROR(CheckNewName(name));
  Symbol symbol;
  symbol.kind = Symbol::Kind::kConstant;
  symbol.value = std::move(value);
  symbols_.emplace(std::string(name), std::move(symbol));
  return absl::OkStatus();
}

absl::Status SymbolTable::AddDerived(std::string_view name, std::string_view text) {
  RETURN_IF_ERROR(CheckNewName(name));
  RETURN_IF_ERROR(Expression::Compile(text, *this).status());
  Symbol symbol;
  symbol.kind = Symbol::Kind::kDerived;
  symbol.text = std::string(text);
  symbols_.emplace(std::string(name), std::move(symbol));
  return absl::OkStatus();
}

std::vector<std::string> SymbolTable::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, symbol] : symbols_) names.push_back(name);
  return names;
}

}  // namespace tunefarm
