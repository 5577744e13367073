// Trees to values. Python's arithmetic on 64-bit ints and doubles; lists are bounded.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/interchange/python_node.h"

namespace tunefarm::interchange {
namespace {

using List = PythonValue::List;

absl::Status Overflow(int column) { return PythonError(column, "the result does not fit in 64 bits"); }

absl::StatusOr<PythonValue> Float(double value, int column) {
  if (!std::isfinite(value)) return PythonError(column, "the result is not a finite number");
  return PythonValue(value);
}

absl::StatusOr<PythonValue> IntPower(int64_t base, int64_t exponent, int column) {
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return Overflow(column);
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return Overflow(column);
  }
  return PythonValue(result);
}

absl::StatusOr<PythonValue> IntBinary(std::string_view op, int64_t a, int64_t b, int column) {
  int64_t result = 0;
  if (op == "+") {
    if (__builtin_add_overflow(a, b, &result)) return Overflow(column);
  } else if (op == "-") {
    if (__builtin_sub_overflow(a, b, &result)) return Overflow(column);
  } else if (op == "*") {
    if (__builtin_mul_overflow(a, b, &result)) return Overflow(column);
  } else if (op == "/" || op == "//" || op == "%") {
    if (b == 0) return PythonError(column, "division by zero");
    if (op == "/") return Float(static_cast<double>(a) / static_cast<double>(b), column);
    if (b == -1) {
      if (op == "%") return PythonValue(int64_t{0});
      if (__builtin_sub_overflow(int64_t{0}, a, &result)) return Overflow(column);
      return PythonValue(result);
    }
    int64_t quotient = a / b;
    int64_t rest = a % b;
    if (rest != 0 && (rest < 0) != (b < 0)) {
      --quotient;
      rest += b;
    }
    result = op == "//" ? quotient : rest;
  } else if (op == "**") {
    if (b < 0) {
      if (a == 0) return PythonError(column, "division by zero");
      return Float(std::pow(static_cast<double>(a), static_cast<double>(b)), column);
    }
    if (a == 0 || a == 1) return PythonValue(b == 0 ? int64_t{1} : a);
    if (a == -1) return PythonValue(b % 2 == 0 ? int64_t{1} : int64_t{-1});
    return IntPower(a, b, column);
  } else if (op == "<<" || op == ">>") {
    if (b < 0) return PythonError(column, "a shift by a negative number");
    if (op == ">>") return PythonValue(b > 63 ? (a < 0 ? int64_t{-1} : int64_t{0}) : a >> b);
    if (a == 0) return PythonValue(int64_t{0});
    if (b > 62) return Overflow(column);
    return IntBinary("*", a, int64_t{1} << b, column);
  } else if (op == "&") {
    result = a & b;
  } else if (op == "|") {
    result = a | b;
  } else if (op == "^") {
    result = a ^ b;
  } else {
    return PythonError(column, fmt::format("'{}' is not known", op));
  }
  return PythonValue(result);
}

absl::StatusOr<PythonValue> FloatBinary(std::string_view op, double a, double b, int column) {
  if (op == "+") return Float(a + b, column);
  if (op == "-") return Float(a - b, column);
  if (op == "*") return Float(a * b, column);
  if (op == "/" || op == "//" || op == "%") {
    if (b == 0) return PythonError(column, "division by zero");
    if (op == "/") return Float(a / b, column);
    double rest = std::fmod(a, b);
    if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
    if (op == "%") return Float(rest, column);
    return Float(std::floor((a - rest) / b + 0.5), column);
  }
  if (op == "**") {
    if (a < 0 && b != std::floor(b)) return PythonError(column, "a root of a negative number");
    if (a == 0 && b < 0) return PythonError(column, "division by zero");
    return Float(std::pow(a, b), column);
  }
  return PythonError(column, fmt::format("'{}' needs ints", op));
}

absl::StatusOr<PythonValue> Repeat(const PythonValue& list, const PythonValue& count, int column) {
  const int64_t times = std::max<int64_t>(0, count.integral());
  if (!list.list().empty() && times > kPythonListMax / static_cast<int64_t>(list.list().size())) {
    return PythonError(column, fmt::format("a list would have more than {} elements", kPythonListMax));
  }
  List result;
  for (int64_t i = 0; i < times; ++i) result.insert(result.end(), list.list().begin(), list.list().end());
  return PythonValue(std::move(result));
}

// -1, 0 or 1, exact also between ints and floats; nothing for values that have no order.
std::optional<int> Order(const PythonValue& a, const PythonValue& b) {
  if (a.is_string() && b.is_string()) return std::clamp(a.text().compare(b.text()), -1, 1);
  if (!a.is_number() || !b.is_number()) return std::nullopt;
  if (a.is_integral() && b.is_integral()) return a.integral() < b.integral() ? -1 : a.integral() > b.integral() ? 1 : 0;
  const long double x = a.is_float() ? static_cast<long double>(a.number()) : static_cast<long double>(a.integral());
  const long double y = b.is_float() ? static_cast<long double>(b.number()) : static_cast<long double>(b.integral());
  return x < y ? -1 : x > y ? 1 : 0;
}

bool Equal(const PythonValue& a, const PythonValue& b) {
  if (a.is_list() && b.is_list()) {
    return a.list().size() == b.list().size() && std::equal(a.list().begin(), a.list().end(), b.list().begin(), Equal);
  }
  return Order(a, b) == 0;
}

absl::StatusOr<PythonValue> Range(const std::vector<PythonValue>& arguments, int column) {
  for (const PythonValue& argument : arguments) {
    if (!argument.is_integral()) return PythonError(column, "range() needs ints");
  }
  if (arguments.empty() || arguments.size() > 3) return PythonError(column, "range() takes 1 to 3 arguments");
  const int64_t first = arguments.size() > 1 ? arguments[0].integral() : 0;
  const int64_t end = arguments[arguments.size() > 1 ? 1 : 0].integral();
  const int64_t step = arguments.size() > 2 ? arguments[2].integral() : 1;
  if (step == 0) return PythonError(column, "the step of range() is 0");
  List list;
  for (int64_t value = first; step > 0 ? value < end : value > end;) {
    if (list.size() >= static_cast<size_t>(kPythonListMax))
      return PythonError(column, fmt::format("range() has more than {} values", kPythonListMax));
    list.emplace_back(value);
    if (__builtin_add_overflow(value, step, &value)) break;
  }
  return PythonValue(std::move(list));
}

absl::StatusOr<PythonValue> ToInteger(const PythonValue& value, double rounded, int column) {
  if (value.is_integral()) return PythonValue(value.integral());
  if (!(rounded >= -9223372036854775808.0 && rounded < 9223372036854775808.0)) return Overflow(column);
  return PythonValue(static_cast<int64_t>(rounded));
}

// Of one number.
absl::StatusOr<PythonValue> NumberFunction(const std::string& name, const PythonValue& x, int column) {
  if (!x.is_number()) return PythonError(column, fmt::format("{}() needs a number, not a {}", name, x.KindName()));
  const double value = x.number();
  if (name == "abs") {
    if (x.is_float()) return PythonValue(std::fabs(value));
    if (x.integral() == std::numeric_limits<int64_t>::min()) return Overflow(column);
    return PythonValue(x.integral() < 0 ? -x.integral() : x.integral());
  }
  if (name == "int") return ToInteger(x, std::trunc(value), column);
  if (name == "round") return ToInteger(x, std::nearbyint(value), column);
  if (name == "ceil") return ToInteger(x, std::ceil(value), column);
  if (name == "floor") return ToInteger(x, std::floor(value), column);
  if (name == "float") return PythonValue(value);
  if ((name == "sqrt" && value < 0) || ((name == "log" || name == "log2") && value <= 0)) {
    return PythonError(column, fmt::format("{}() of {}", name, x.ToLiteral()));
  }
  const double result = name == "sqrt"   ? std::sqrt(value)
                        : name == "log"  ? std::log(value)
                        : name == "log2" ? std::log2(value)
                        : name == "exp"  ? std::exp(value)
                        : name == "sin"  ? std::sin(value)
                                         : std::cos(value);
  return Float(result, column);
}

absl::StatusOr<PythonValue> ListFunction(const std::string& name, const List& list, int column) {
  if (name == "any" || name == "all") {
    const auto truth = [](const PythonValue& value) { return value.Truth(); };
    return PythonValue(name == "any" ? std::any_of(list.begin(), list.end(), truth)
                                     : std::all_of(list.begin(), list.end(), truth));
  }
  if (name == "sum" || name == "prod") {
    PythonValue result(name == "sum" ? int64_t{0} : int64_t{1});
    for (const PythonValue& value : list) {
      ASSIGN_OR_RETURN(result, PythonBinary(name == "sum" ? "+" : "*", result, value, column));
    }
    return result;
  }
  if (name == "sorted" || name == "set") {
    for (size_t i = 1; i < list.size(); ++i) {
      if (!Order(list[0], list[i]).has_value()) return PythonError(column, "the elements have no order");
    }
    List sorted = list;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const PythonValue& a, const PythonValue& b) { return Order(a, b) == -1; });
    if (name == "set") sorted.erase(std::unique(sorted.begin(), sorted.end(), Equal), sorted.end());
    return PythonValue(std::move(sorted));
  }
  // min, max
  if (list.empty()) return PythonError(column, fmt::format("{}() of nothing", name));
  const PythonValue* best = &list[0];
  for (const PythonValue& value : list) {
    const std::optional<int> order = Order(value, *best);
    if (!order.has_value()) return PythonError(column, fmt::format("{}() of values without an order", name));
    if (*order == (name == "min" ? -1 : 1)) best = &value;
  }
  return *best;
}

}  // namespace

absl::StatusOr<PythonValue> PythonBinary(std::string_view op, const PythonValue& a, const PythonValue& b, int column) {
  if (a.is_integral() && b.is_integral()) return IntBinary(op, a.integral(), b.integral(), column);
  if (a.is_number() && b.is_number()) return FloatBinary(op, a.number(), b.number(), column);
  if (op == "+" && a.is_list() && b.is_list()) {
    if (a.list().size() + b.list().size() > static_cast<size_t>(kPythonListMax)) {
      return PythonError(column, fmt::format("a list would have more than {} elements", kPythonListMax));
    }
    List list = a.list();
    list.insert(list.end(), b.list().begin(), b.list().end());
    return PythonValue(std::move(list));
  }
  if (op == "*" && a.is_list() && b.is_integral()) return Repeat(a, b, column);
  if (op == "*" && a.is_integral() && b.is_list()) return Repeat(b, a, column);
  if (op == "+" && a.is_string() && b.is_string()) {
    if (a.text().size() + b.text().size() > kPythonStringMax) return PythonError(column, "the string is too long");
    return PythonValue(a.text() + b.text());
  }
  return PythonError(column, fmt::format("'{}' cannot take a {} and a {}", op, a.KindName(), b.KindName()));
}

absl::StatusOr<bool> PythonCompare(std::string_view op, const PythonValue& a, const PythonValue& b, int column) {
  if (op == "in" || op == "not in") {
    bool found = false;
    if (b.is_list()) {
      found = std::any_of(b.list().begin(), b.list().end(), [&](const PythonValue& value) { return Equal(a, value); });
    } else if (b.is_string() && a.is_string()) {
      found = b.text().find(a.text()) != std::string::npos;
    } else {
      return PythonError(column, fmt::format("'in' needs a list, not a {}", b.KindName()));
    }
    return found == (op == "in");
  }
  if (op == "==") return Equal(a, b);
  if (op == "!=") return !Equal(a, b);
  const std::optional<int> order = Order(a, b);
  if (!order.has_value())
    return PythonError(column, fmt::format("'{}' cannot compare a {} and a {}", op, a.KindName(), b.KindName()));
  if (op == "<") return *order < 0;
  if (op == "<=") return *order <= 0;
  if (op == ">") return *order > 0;
  return *order >= 0;
}

absl::StatusOr<PythonValue> PythonCall(const std::string& name, const std::vector<PythonValue>& arguments, int column) {
  if (name == "range") return Range(arguments, column);
  if (name == "pow") {
    if (arguments.size() != 2) return PythonError(column, "pow() takes 2 arguments");
    return PythonBinary("**", arguments[0], arguments[1], column);
  }
  if ((name == "min" || name == "max") && arguments.size() > 1) return ListFunction(name, arguments, column);
  static constexpr std::string_view kOfNumber[] = {"abs",  "int", "float", "round", "ceil", "floor",
                                                   "sqrt", "log", "log2",  "exp",   "sin",  "cos"};
  static constexpr std::string_view kOfList[] = {"list", "tuple", "len", "min",    "max", "sum",
                                                 "prod", "all",   "any", "sorted", "set"};
  const bool of_number = std::find(std::begin(kOfNumber), std::end(kOfNumber), name) != std::end(kOfNumber);
  const bool of_list = std::find(std::begin(kOfList), std::end(kOfList), name) != std::end(kOfList);
  if (!of_number && !of_list && name != "bool")
    return PythonError(column, fmt::format("the function {}() is not known", name.substr(0, 64)));
  if (arguments.size() != 1) return PythonError(column, fmt::format("{}() takes one argument here", name));
  if (name == "bool") return PythonValue(arguments[0].Truth());
  if (of_number) return NumberFunction(name, arguments[0], column);
  if (name == "len" && arguments[0].is_string()) return PythonValue(static_cast<int64_t>(arguments[0].text().size()));
  if (!arguments[0].is_list())
    return PythonError(column, fmt::format("{}() needs a list, not a {}", name, arguments[0].KindName()));
  if (name == "list" || name == "tuple") return arguments[0];
  if (name == "len") return PythonValue(static_cast<int64_t>(arguments[0].list().size()));
  return ListFunction(name, arguments[0].list(), column);
}

absl::Status ForEachTurn(const PythonNode& comprehension, size_t clause_index, const PythonNames& names, int64_t* steps,
                         const std::function<absl::Status(const PythonNames&)>& visit) {
  if (clause_index == comprehension.clauses.size()) return visit(names);
  const PythonNode::Clause& clause = comprehension.clauses[clause_index];
  ASSIGN_OR_RETURN(const PythonValue iterable, EvaluatePython(*clause.iterable, names, steps));
  if (!iterable.is_list()) {
    return PythonError(clause.iterable->column,
                       fmt::format("'for ... in' needs a list, not a {}", iterable.KindName()));
  }
  PythonNames inner = names;
  for (const PythonValue& value : iterable.list()) {
    // Each turn copies the names for the clauses inside.
    *steps -= 1 + static_cast<int64_t>(names.size());
    if (*steps < 0) return PythonError(comprehension.column, "this takes too many steps");
    if (clause.targets.size() == 1) {
      inner[clause.targets[0]] = value;
    } else {
      if (!value.is_list() || value.list().size() != clause.targets.size()) {
        return PythonError(comprehension.column,
                           fmt::format("the elements are not lists of {}", clause.targets.size()));
      }
      for (size_t i = 0; i < clause.targets.size(); ++i) inner[clause.targets[i]] = value.list()[i];
    }
    bool is_wanted = true;
    for (const auto& condition : clause.conditions) {
      ASSIGN_OR_RETURN(const PythonValue truth, EvaluatePython(*condition, inner, steps));
      is_wanted = is_wanted && truth.Truth();
      if (!is_wanted) break;
    }
    if (is_wanted) RETURN_IF_ERROR(ForEachTurn(comprehension, clause_index + 1, inner, steps, visit));
  }
  return absl::OkStatus();
}

namespace {

absl::StatusOr<PythonValue> EvaluateList(const PythonNode& node, const PythonNames& names, int64_t* steps) {
  List list;
  const auto add = [&](const PythonNode& element, const PythonNames& scope) -> absl::Status {
    ASSIGN_OR_RETURN(PythonValue value, EvaluatePython(element, scope, steps));
    if (list.size() >= static_cast<size_t>(kPythonListMax)) {
      return PythonError(node.column, fmt::format("a list would have more than {} elements", kPythonListMax));
    }
    list.push_back(std::move(value));
    return absl::OkStatus();
  };
  if (node.kind == PythonNode::Kind::kComprehension) {
    RETURN_IF_ERROR(
        ForEachTurn(node, 0, names, steps, [&](const PythonNames& scope) { return add(*node.children[0], scope); }));
  } else {
    for (const auto& child : node.children) RETURN_IF_ERROR(add(*child, names));
  }
  PythonValue result(std::move(list));
  if (result.nesting() > kPythonNestingMax) {
    return PythonError(node.column, fmt::format("lists are nested more than {} deep", kPythonNestingMax));
  }
  return result;
}

absl::StatusOr<PythonValue> EvaluateUnary(const PythonNode& node, const PythonValue& value) {
  if (node.text == "not") return PythonValue(!value.Truth());
  if (!value.is_number())
    return PythonError(node.column, fmt::format("'{}' cannot take a {}", node.text, value.KindName()));
  if (node.text == "~") {
    if (!value.is_integral()) return PythonError(node.column, "'~' needs an int");
    return PythonValue(~value.integral());
  }
  if (value.is_float()) return PythonValue(node.text == "-" ? -value.number() : value.number());
  return IntBinary(node.text, 0, value.integral(), node.column);
}

absl::StatusOr<PythonValue> EvaluateSubscript(const PythonNode& node, const PythonValue& list,
                                              const PythonValue& index) {
  if (!list.is_list()) return PythonError(node.column, fmt::format("a {} has no elements", list.KindName()));
  if (!index.is_integral()) return PythonError(node.column, "an index is an int");
  const auto size = static_cast<int64_t>(list.list().size());
  const int64_t at = index.integral() < 0 && index.integral() >= -size ? index.integral() + size : index.integral();
  if (at < 0 || at >= size)
    return PythonError(node.column, fmt::format("there is no element {} of {}", index.integral(), size));
  return list.list()[static_cast<size_t>(at)];
}

}  // namespace

absl::StatusOr<PythonValue> EvaluatePython(const PythonNode& node, const PythonNames& names, int64_t* steps) {
  if (--*steps < 0) return PythonError(node.column, "this takes too many steps");
  switch (node.kind) {
    case PythonNode::Kind::kLiteral:
      return node.value;
    case PythonNode::Kind::kName: {
      const auto found = names.find(node.text);
      if (found == names.end())
        return PythonError(node.column, fmt::format("unknown name '{}'", node.text.substr(0, 64)));
      return found->second;
    }
    case PythonNode::Kind::kList:
    case PythonNode::Kind::kComprehension:
      return EvaluateList(node, names, steps);
    case PythonNode::Kind::kBool:
    case PythonNode::Kind::kConditional: {
      const bool is_conditional = node.kind == PythonNode::Kind::kConditional;
      ASSIGN_OR_RETURN(PythonValue value, EvaluatePython(*node.children[is_conditional ? 1 : 0], names, steps));
      if (is_conditional) return EvaluatePython(*node.children[value.Truth() ? 0 : 2], names, steps);
      if (value.Truth() == (node.text == "or")) return value;
      return EvaluatePython(*node.children[1], names, steps);
    }
    case PythonNode::Kind::kCompare: {
      ASSIGN_OR_RETURN(PythonValue left, EvaluatePython(*node.children[0], names, steps));
      for (size_t i = 0; i < node.operators.size(); ++i) {
        ASSIGN_OR_RETURN(PythonValue right, EvaluatePython(*node.children[i + 1], names, steps));
        if (right.is_list()) *steps -= static_cast<int64_t>(right.list().size());
        ASSIGN_OR_RETURN(const bool holds, PythonCompare(node.operators[i], left, right, node.column));
        if (!holds) return PythonValue(false);
        left = std::move(right);
      }
      return PythonValue(true);
    }
    case PythonNode::Kind::kUnary: {
      ASSIGN_OR_RETURN(const PythonValue value, EvaluatePython(*node.children[0], names, steps));
      return EvaluateUnary(node, value);
    }
    case PythonNode::Kind::kBinary:
    case PythonNode::Kind::kSubscript: {
      ASSIGN_OR_RETURN(const PythonValue a, EvaluatePython(*node.children[0], names, steps));
      ASSIGN_OR_RETURN(const PythonValue b, EvaluatePython(*node.children[1], names, steps));
      if (node.kind == PythonNode::Kind::kSubscript) return EvaluateSubscript(node, a, b);
      ASSIGN_OR_RETURN(PythonValue result, PythonBinary(node.text, a, b, node.column));
      if (result.is_list()) *steps -= static_cast<int64_t>(result.list().size());
      return result;
    }
    case PythonNode::Kind::kCall: {
      std::vector<PythonValue> arguments;
      for (const auto& child : node.children) {
        ASSIGN_OR_RETURN(PythonValue argument, EvaluatePython(*child, names, steps));
        if (argument.is_list()) *steps -= static_cast<int64_t>(argument.list().size());
        arguments.push_back(std::move(argument));
      }
      ASSIGN_OR_RETURN(PythonValue result, PythonCall(node.text, arguments, node.column));
      if (result.is_list()) *steps -= static_cast<int64_t>(result.list().size());
      return result;
    }
  }
  return PythonError(node.column, "not an expression");
}

absl::StatusOr<PythonValue> PythonText::Evaluate(const PythonNames& names) const {
  int64_t steps = kPythonStepsMax;
  return EvaluatePython(*root_, names, &steps);
}

bool PythonValue::Truth() const {
  if (is_list()) return !list().empty();
  if (is_string()) return !text().empty();
  return is_float() ? number() != 0 : integral() != 0;
}

std::string_view PythonValue::KindName() const {
  switch (kind()) {
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return "string";
    case Kind::kList:
      return "list";
  }
  return "value";
}

}  // namespace tunefarm::interchange
