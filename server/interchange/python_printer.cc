// Trees written again: in the expression language of definitions, or in C++ over doubles.
#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <set>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/expression/value.h"
#include "server/interchange/json_document.h"
#include "server/interchange/python_node.h"

namespace tunefarm::interchange {
namespace {

constexpr size_t kWrittenMax = 64 * 1024;

// How tightly a written text binds, loosest first.
enum Tightness { kLoosest = 0, kOr, kAnd, kNot, kCompared, kSum, kProduct, kSigned, kRaised, kAtom };

struct Written {
  std::string text;
  int tightness = kAtom;
};

std::string In(const Written& written, int needed) {
  return written.tightness >= needed ? written.text : "(" + written.text + ")";
}

absl::Status NoCounterpart(const PythonNode& node, std::string_view what) {
  return WithReason(PythonError(node.column, fmt::format("{} has no counterpart in the expression language", what)),
                    kNotMappable);
}

class Printer {
 public:
  Printer(const PythonTranslation& translation, bool is_cxx) : translation_(translation), is_cxx_(is_cxx) {}

  absl::StatusOr<Written> Print(const PythonNode& node, const PythonNames& bound) {
    if (--steps_ < 0) return PythonError(node.column, "this takes too many steps");
    // What no variable is in is a value, and written as one where the text could not be kept.
    if (IsConstant(node, bound)) {
      PythonNames names = translation_.constants;
      for (const auto& [name, value] : bound) names[name] = value;
      ASSIGN_OR_RETURN(const PythonValue value, EvaluatePython(node, names, &steps_));
      return Literal(node, value);
    }
    switch (node.kind) {
      case PythonNode::Kind::kLiteral:
        return Literal(node, node.value);
      case PythonNode::Kind::kName:
        return Name(node, bound);
      case PythonNode::Kind::kUnary:
        return Unary(node, bound);
      case PythonNode::Kind::kBinary:
        return Binary(node, bound);
      case PythonNode::Kind::kBool: {
        const int level = node.text == "or" ? kOr : kAnd;
        ASSIGN_OR_RETURN(const Written a, Print(*node.children[0], bound));
        ASSIGN_OR_RETURN(const Written b, Print(*node.children[1], bound));
        const std::string_view op = !is_cxx_ ? std::string_view(node.text) : node.text == "or" ? "||" : "&&";
        return Checked(node, {fmt::format("{} {} {}", In(a, level), op, In(b, level + 1)), level});
      }
      case PythonNode::Kind::kCompare:
        return Compare(node, bound);
      case PythonNode::Kind::kConditional: {
        ASSIGN_OR_RETURN(const Written value, Print(*node.children[0], bound));
        ASSIGN_OR_RETURN(const Written condition, Print(*node.children[1], bound));
        ASSIGN_OR_RETURN(const Written other, Print(*node.children[2], bound));
        if (is_cxx_)
          return Checked(node, {fmt::format("(({}) ? ({}) : ({}))", condition.text, value.text, other.text), kAtom});
        return Checked(
            node, {fmt::format("{} if {} else {}", In(value, kOr), In(condition, kOr), In(other, kLoosest)), kLoosest});
      }
      case PythonNode::Kind::kCall:
        return Call(node, bound);
      case PythonNode::Kind::kSubscript:
        return Subscript(node, bound);
      case PythonNode::Kind::kList:
      case PythonNode::Kind::kComprehension:
        return NoCounterpart(node,
                             "a list that is not the right side of 'in' nor handed to min, max, sum, prod, any or all");
    }
    return NoCounterpart(node, "this");
  }

 private:
  static absl::StatusOr<Written> Checked(const PythonNode& node, Written written) {
    if (written.text.size() > kWrittenMax) return PythonError(node.column, "written out, the expression is too long");
    return written;
  }

  bool IsVariable(const std::string& name) const {
    return translation_.variables.count(name) != 0 || translation_.elements.count(name) != 0;
  }

  // No variable inside. A name that is unknown is not constant: it is reported where it stands.
  bool IsConstant(const PythonNode& node, const PythonNames& bound) const {
    if (node.kind == PythonNode::Kind::kName) {
      if (bound.count(node.text) != 0) return true;
      if (substitutions_.count(node.text) != 0) return false;
      return !IsVariable(node.text) && translation_.constants.count(node.text) != 0;
    }
    PythonNames inner;
    const PythonNames* scope = &bound;
    if (!node.clauses.empty()) {
      inner = bound;
      scope = &inner;
    }
    for (const PythonNode::Clause& clause : node.clauses) {
      if (!IsConstant(*clause.iterable, *scope)) return false;
      for (const std::string& target : clause.targets) inner[target] = PythonValue();
      for (const auto& condition : clause.conditions) {
        if (!IsConstant(*condition, *scope)) return false;
      }
    }
    return std::all_of(node.children.begin(), node.children.end(),
                       [&](const auto& child) { return IsConstant(*child, *scope); });
  }

  absl::StatusOr<Written> Literal(const PythonNode& node, const PythonValue& value) const {
    if (value.is_list()) return NoCounterpart(node, "a list here");
    if (is_cxx_ && value.is_string()) return NoCounterpart(node, "a string");
    if (is_cxx_) {
      const std::string text = Value(value.number()).ToText();
      return Written{value.number() < 0 ? "(" + text + ")" : text, kAtom};
    }
    const bool is_negative = value.is_number() && value.number() < 0;
    return Written{value.ToLiteral(), is_negative ? kSigned : kAtom};
  }

  absl::StatusOr<Written> Name(const PythonNode& node, const PythonNames& /*bound*/) const {
    const auto substitution = substitutions_.find(node.text);
    if (substitution != substitutions_.end()) return substitution->second;
    const auto variable = translation_.variables.find(node.text);
    if (variable != translation_.variables.end()) return Written{variable->second, kAtom};
    if (translation_.elements.count(node.text) != 0)
      return NoCounterpart(node, fmt::format("the list '{}' as a whole", node.text));
    return PythonError(node.column, fmt::format("unknown name '{}'", node.text.substr(0, 64)));
  }

  absl::StatusOr<Written> Unary(const PythonNode& node, const PythonNames& bound) {
    if (node.text == "~") return NoCounterpart(node, "'~'");
    ASSIGN_OR_RETURN(const Written operand, Print(*node.children[0], bound));
    if (node.text == "not")
      return Checked(node, {(is_cxx_ ? "!" : "not ") + In(operand, is_cxx_ ? kAtom : kNot), is_cxx_ ? kSigned : kNot});
    return Checked(node, {node.text + In(operand, is_cxx_ ? kAtom : kSigned), kSigned});
  }

  absl::StatusOr<Written> Binary(const PythonNode& node, const PythonNames& bound) {
    const std::string& op = node.text;
    if (op == "<<" || op == ">>" || op == "&" || op == "|" || op == "^") return NoCounterpart(node, "'" + op + "'");
    ASSIGN_OR_RETURN(const Written a, Print(*node.children[0], bound));
    ASSIGN_OR_RETURN(const Written b, Print(*node.children[1], bound));
    if (is_cxx_ && op == "//")
      return Checked(node, {fmt::format("floor({} / {})", In(a, kProduct), In(b, kSigned)), kAtom});
    if (is_cxx_ && op == "%") {
      return Checked(node, {fmt::format("({0} - {1} * floor({0} / {1}))", In(a, kSigned), In(b, kSigned)), kAtom});
    }
    if (is_cxx_ && op == "**") return Checked(node, {fmt::format("pow({}, {})", a.text, b.text), kAtom});
    if (op == "**") return Checked(node, {fmt::format("{} ** {}", In(a, kAtom), In(b, kSigned)), kRaised});
    const int level = op == "+" || op == "-" ? kSum : kProduct;
    return Checked(node, {fmt::format("{} {} {}", In(a, level), op, In(b, level + 1)), level});
  }

  absl::StatusOr<Written> Compare(const PythonNode& node, const PythonNames& bound) {
    std::vector<std::string> parts;
    for (size_t i = 0; i < node.children.size(); ++i) {
      const bool is_list = i > 0 && (node.operators[i - 1] == "in" || node.operators[i - 1] == "not in");
      if (is_list) {
        ASSIGN_OR_RETURN(const std::vector<Written> elements, Elements(*node.children[i], bound));
        std::string text;
        for (const Written& element : elements) text += (text.empty() ? "" : ", ") + element.text;
        parts.push_back("[" + text + "]");
        if (is_cxx_ || elements.empty()) return NoCounterpart(node, "this 'in'");
        continue;
      }
      ASSIGN_OR_RETURN(const Written operand, Print(*node.children[i], bound));
      parts.push_back(In(operand, is_cxx_ ? kAtom : kSum));
    }
    std::string text = is_cxx_ ? "" : parts[0];
    for (size_t i = 0; i < node.operators.size(); ++i) {
      text += is_cxx_ ? fmt::format("{}{} {} {}", i == 0 ? "" : " && ", parts[i], node.operators[i], parts[i + 1])
                      : fmt::format(" {} {}", node.operators[i], parts[i + 1]);
    }
    return Checked(node, {text, is_cxx_ ? static_cast<int>(kAnd) : static_cast<int>(kCompared)});
  }

  // The elements of a list, each written for itself.
  absl::StatusOr<std::vector<Written>> Elements(const PythonNode& node, const PythonNames& bound) {
    std::vector<Written> elements;
    if (IsConstant(node, bound)) {
      PythonNames names = translation_.constants;
      for (const auto& [name, value] : bound) names[name] = value;
      ASSIGN_OR_RETURN(const PythonValue value, EvaluatePython(node, names, &steps_));
      if (!value.is_list())
        return PythonError(node.column, fmt::format("a list is needed here, not a {}", value.KindName()));
      for (const PythonValue& element : value.list()) {
        ASSIGN_OR_RETURN(Written written, Literal(node, element));
        elements.push_back(std::move(written));
      }
      return elements;
    }
    if (node.kind == PythonNode::Kind::kList) {
      for (const auto& child : node.children) {
        ASSIGN_OR_RETURN(Written written, Print(*child, bound));
        elements.push_back(std::move(written));
      }
      return elements;
    }
    if (node.kind == PythonNode::Kind::kComprehension && IsOverAList(node)) return Substituted(node, bound);
    if (node.kind == PythonNode::Kind::kComprehension) {
      for (const PythonNode::Clause& clause : node.clauses) {
        for (const std::string& name : NamesIn(clause)) {
          if (IsVariable(name)) return NoCounterpart(node, "a comprehension whose list depends on parameters");
        }
      }
      PythonNames names = translation_.constants;
      for (const auto& [name, value] : bound) names[name] = value;
      RETURN_IF_ERROR(ForEachTurn(node, 0, names, &steps_, [&](const PythonNames& scope) -> absl::Status {
        ASSIGN_OR_RETURN(Written written, Print(*node.children[0], scope));
        elements.push_back(std::move(written));
        return absl::OkStatus();
      }));
      return elements;
    }
    if (node.kind == PythonNode::Kind::kCall && (node.text == "list" || node.text == "tuple") &&
        node.children.size() == 1) {
      return Elements(*node.children[0], bound);
    }
    return NoCounterpart(node, "this list");
  }

  // [e for x in [a, b]] with variables in a and b.
  bool IsOverAList(const PythonNode& node) const {
    const PythonNode::Clause& clause = node.clauses[0];
    return node.clauses.size() == 1 && clause.conditions.empty() && clause.targets.size() == 1 &&
           clause.iterable->kind == PythonNode::Kind::kList;
  }

  // The element once for each text that stands for the loop's name.
  absl::StatusOr<std::vector<Written>> Substituted(const PythonNode& node, const PythonNames& bound) {
    const std::string& target = node.clauses[0].targets[0];
    PythonNames inner = bound;
    inner.erase(target);
    std::vector<Written> elements;
    for (const auto& child : node.clauses[0].iterable->children) {
      ASSIGN_OR_RETURN(Written text, Print(*child, bound));
      const auto outer = substitutions_.find(target);
      const std::optional<Written> hidden = outer == substitutions_.end() ? std::nullopt : std::optional(outer->second);
      substitutions_[target] = std::move(text);
      absl::StatusOr<Written> element = Print(*node.children[0], inner);
      if (hidden.has_value()) {
        substitutions_[target] = *hidden;
      } else {
        substitutions_.erase(target);
      }
      if (!element.ok()) return element.status();
      elements.push_back(*std::move(element));
    }
    return elements;
  }

  static void CollectNames(const PythonNode& node, std::set<std::string>* names) {
    if (node.kind == PythonNode::Kind::kName) names->insert(node.text);
    for (const auto& child : node.children) CollectNames(*child, names);
    for (const PythonNode::Clause& clause : node.clauses) CollectNames(*clause.iterable, names);
  }
  static std::set<std::string> NamesIn(const PythonNode::Clause& clause) {
    std::set<std::string> names;
    CollectNames(*clause.iterable, &names);
    for (const auto& condition : clause.conditions) CollectNames(*condition, &names);
    return names;
  }

  // Elements joined by an operator, or handed to a function of several arguments.
  absl::StatusOr<Written> Folded(const PythonNode& node, const std::vector<Written>& elements) const {
    const std::string& name = node.text;
    if (name == "min" || name == "max") {
      if (elements.empty()) return PythonError(node.column, fmt::format("{}() of nothing", name));
      if (elements.size() == 1) return elements[0];
      std::string text;
      for (const Written& element : elements) text += (text.empty() ? "" : ", ") + element.text;
      if (!is_cxx_) return Checked(node, {fmt::format("{}({})", name, text), kAtom});
      text = elements[0].text;
      for (size_t i = 1; i < elements.size(); ++i) text = fmt::format("f{}({}, {})", name, text, elements[i].text);
      return Checked(node, {text, kAtom});
    }
    const bool is_truth = name == "any" || name == "all";
    const int level = name == "any" ? kOr : name == "all" ? kAnd : name == "sum" ? kSum : kProduct;
    const std::string_view op = name == "any"   ? (is_cxx_ ? " || " : " or ")
                                : name == "all" ? (is_cxx_ ? " && " : " and ")
                                : name == "sum" ? " + "
                                                : " * ";
    if (elements.empty()) {
      if (is_truth) return Literal(node, PythonValue(name == "all"));
      return Literal(node, PythonValue(int64_t{name == "sum" ? 0 : 1}));
    }
    std::string text;
    for (const Written& element : elements)
      text += (text.empty() ? "" : std::string(op)) + In(element, text.empty() ? level : level + 1);
    if (is_truth && !is_cxx_) return Checked(node, {fmt::format("bool({})", text), kAtom});
    return Checked(node, {text, elements.size() == 1 ? std::min<int>(level, elements[0].tightness) : level});
  }

  absl::StatusOr<Written> Call(const PythonNode& node, const PythonNames& bound) {
    static const std::set<std::string, std::less<>> kFolds = {"min", "max", "sum", "prod", "any", "all"};
    const std::string& name = node.text;
    const size_t count = node.children.size();
    if (kFolds.count(name) != 0) {
      if (count == 1) {
        ASSIGN_OR_RETURN(const std::vector<Written> elements, Elements(*node.children[0], bound));
        return Folded(node, elements);
      }
      if (name != "min" && name != "max")
        return PythonError(node.column, fmt::format("{}() takes one argument here", name));
    }
    if (name == "len" && count == 1) {
      ASSIGN_OR_RETURN(const std::vector<Written> elements, Elements(*node.children[0], bound));
      return Literal(node, PythonValue(static_cast<int64_t>(elements.size())));
    }
    // ceil(a / b) is exact where a float may not be.
    if (name == "ceil" && count == 1 && !is_cxx_ && node.children[0]->kind == PythonNode::Kind::kBinary &&
        node.children[0]->text == "/") {
      ASSIGN_OR_RETURN(const Written a, Print(*node.children[0]->children[0], bound));
      ASSIGN_OR_RETURN(const Written b, Print(*node.children[0]->children[1], bound));
      return Checked(node, {fmt::format("int(ceil_div({}, {}))", a.text, b.text), kAtom});
    }
    std::vector<Written> arguments;
    for (const auto& child : node.children) {
      ASSIGN_OR_RETURN(Written argument, Print(*child, bound));
      arguments.push_back(std::move(argument));
    }
    if (name == "min" || name == "max") return Folded(node, arguments);
    if (name == "pow" && count == 2) {
      if (is_cxx_) return Checked(node, {fmt::format("pow({}, {})", arguments[0].text, arguments[1].text), kAtom});
      return Checked(node, {fmt::format("{} ** {}", In(arguments[0], kAtom), In(arguments[1], kSigned)), kRaised});
    }
    if (count != 1) return NoCounterpart(node, fmt::format("{}() with {} arguments", name.substr(0, 64), count));
    const std::string& argument = arguments[0].text;
    if (is_cxx_) {
      static const std::map<std::string, std::string, std::less<>> kFunctions = {
          {"abs", "fabs"},  {"int", "trunc"},   {"float", ""},    {"round", "nearbyint"},
          {"ceil", "ceil"}, {"floor", "floor"}, {"sqrt", "sqrt"}, {"log", "log"},
          {"log2", "log2"}, {"exp", "exp"},     {"sin", "sin"},   {"cos", "cos"}};
      const auto function = kFunctions.find(name);
      if (function == kFunctions.end())
        return PythonError(node.column, fmt::format("the function {}() is not known", name.substr(0, 64)));
      return Checked(node, {fmt::format("{}({})", function->second, argument), kAtom});
    }
    if (name == "abs" || name == "int" || name == "float" || name == "bool" || name == "log2") {
      return Checked(node, {fmt::format("{}({})", name, argument), kAtom});
    }
    if (name == "floor") return Checked(node, {fmt::format("int({} // 1)", In(arguments[0], kProduct)), kAtom});
    if (name == "ceil") return Checked(node, {fmt::format("-int(-{} // 1)", In(arguments[0], kSigned)), kSigned});
    if (name == "sqrt") return Checked(node, {fmt::format("{} ** 0.5", In(arguments[0], kAtom)), kRaised});
    return NoCounterpart(node, fmt::format("the function {}()", name.substr(0, 64)));
  }

  absl::StatusOr<Written> Subscript(const PythonNode& node, const PythonNames& bound) {
    const PythonNode& list = *node.children[0];
    if (!IsConstant(*node.children[1], bound)) return NoCounterpart(node, "an index that is not known beforehand");
    PythonNames names = translation_.constants;
    for (const auto& [name, value] : bound) names[name] = value;
    ASSIGN_OR_RETURN(const PythonValue index, EvaluatePython(*node.children[1], names, &steps_));
    // params["block_size_x"]: how Kernel Tuner's lambdas name a parameter.
    if (list.kind == PythonNode::Kind::kName && index.is_string() &&
        (list.text == "p" || list.text == "params" || list.text == "config")) {
      const auto variable = translation_.variables.find(index.text());
      if (variable == translation_.variables.end())
        return PythonError(node.column, fmt::format("unknown name '{}'", index.text().substr(0, 64)));
      return Written{variable->second, kAtom};
    }
    if (list.kind == PythonNode::Kind::kName && index.is_integral()) {
      const auto elements = translation_.elements.find(list.text);
      if (elements != translation_.elements.end()) {
        const auto size = static_cast<int64_t>(elements->second.size());
        const int64_t at = index.integral() < 0 ? index.integral() + size : index.integral();
        if (at < 0 || at >= size)
          return PythonError(node.column, fmt::format("there is no element {} of {}", index.integral(), size));
        return Written{elements->second[static_cast<size_t>(at)], kAtom};
      }
    }
    return NoCounterpart(node, "this index");
  }

  const PythonTranslation& translation_;
  const bool is_cxx_;
  int64_t steps_ = kPythonStepsMax;
  std::map<std::string, Written, std::less<>> substitutions_;  // of loop names, while an element is written
};

}  // namespace

absl::StatusOr<std::string> PythonText::ToExpression(const PythonTranslation& translation) const {
  ASSIGN_OR_RETURN(Written written, Printer(translation, /*is_cxx=*/false).Print(*root_, {}));
  return std::move(written.text);
}

absl::StatusOr<std::string> PythonText::ToCxx(const PythonTranslation& translation) const {
  ASSIGN_OR_RETURN(Written written, Printer(translation, /*is_cxx=*/true).Print(*root_, {}));
  return std::move(written.text);
}

std::string PythonValue::ToLiteral() const {
  switch (kind()) {
    case Kind::kBool:
      return Value(integral() != 0).ToLiteral();
    case Kind::kInt:
      return Value(integral()).ToLiteral();
    case Kind::kFloat:
      return Value(number()).ToLiteral();
    case Kind::kString:
      return Value(text()).ToLiteral();
    case Kind::kList:
      break;
  }
  std::string text;
  for (const PythonValue& value : list()) text += (text.empty() ? "" : ", ") + value.ToLiteral();
  return "[" + text + "]";
}

}  // namespace tunefarm::interchange
