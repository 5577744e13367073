#include "server/space/rule_graph.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <tuple>

#include "server/expression/expression_internal.h"

namespace tunefarm::space_internal {

using expression::Op;
using Id = RuleGraph::Id;

namespace {

// Ints stay below this, so that a sum of two cannot overflow; floats below that, so that none becomes infinite.
constexpr int64_t kIntMax = int64_t{1} << 62;
constexpr double kFloatMax = 1e150;
constexpr int64_t kExactDouble = int64_t{1} << 53;

double AsFloat(int64_t bits) { return std::bit_cast<double>(bits); }
int64_t AsBits(double value) { return std::bit_cast<int64_t>(value); }

int64_t IntegralOrZero(Op op, int64_t a, int64_t b) {
  int64_t result = 0;
  return expression::IntegralBinary(op, a, b, &result) ? result : 0;
}

int64_t FloatOrZero(Op op, int64_t a, int64_t b) {
  expression::Cell result = expression::Cell::Float(0);
  const auto fault =
      expression::Binary(op, expression::Cell::Float(AsFloat(a)), expression::Cell::Float(AsFloat(b)), &result);
  return fault == expression::Fault::kNone ? AsBits(result.float_value) : 0;
}

// The interval between the smallest and the largest of some numbers; false where they are too large.
bool Hull(std::initializer_list<__int128> ends, Interval* range) {
  const __int128 low = *std::min_element(ends.begin(), ends.end());
  const __int128 high = *std::max_element(ends.begin(), ends.end());
  if (low < -kIntMax || high > kIntMax) return false;
  range->low = static_cast<int64_t>(low);
  range->high = static_cast<int64_t>(high);
  return true;
}

bool FloatHull(std::initializer_list<double> ends, Interval* range) {
  range->float_low = *std::min_element(ends.begin(), ends.end());
  range->float_high = *std::max_element(ends.begin(), ends.end());
  for (const double end : ends) {
    if (!(std::fabs(end) <= kFloatMax)) return false;
  }
  return true;
}

constexpr Interval kBoolean = {0, 1, 0, 0};

}  // namespace

int64_t Apply(GraphOp op, int64_t a, int64_t b, int64_t c) {
  switch (op) {
    case GraphOp::kConstant:
    case GraphOp::kVariable:
    case GraphOp::kTable:
      return a;
    case GraphOp::kAdd:
      return a + b;
    case GraphOp::kMultiply:
      return a * b;
    case GraphOp::kNegate:
      return -a;
    case GraphOp::kAbs:
      return a < 0 ? -a : a;
    case GraphOp::kFloorDivide:
      return IntegralOrZero(Op::kFloorDivide, a, b);
    case GraphOp::kModulo:
      return IntegralOrZero(Op::kModulo, a, b);
    case GraphOp::kCeilDiv:
      return IntegralOrZero(Op::kCeilDiv, a, b);
    case GraphOp::kRoundUp:
      return IntegralOrZero(Op::kRoundUp, a, b);
    case GraphOp::kPower:
      return IntegralOrZero(Op::kPower, a, b);
    case GraphOp::kMin:
      return b < a ? b : a;
    case GraphOp::kMax:
      return b > a ? b : a;
    case GraphOp::kIsPow2:
      return a > 0 && (a & (a - 1)) == 0;
    case GraphOp::kEqual:
      return a == b;
    case GraphOp::kNotEqual:
      return a != b;
    case GraphOp::kLess:
      return a < b;
    case GraphOp::kLessEqual:
      return a <= b;
    case GraphOp::kAnd:
      return a & b;
    case GraphOp::kOr:
      return a | b;
    case GraphOp::kNot:
      return a ^ 1;
    case GraphOp::kSelect:
      return a != 0 ? b : c;
    case GraphOp::kPlainDivide:
      return static_cast<int64_t>(static_cast<uint64_t>(a) / static_cast<uint64_t>(b));
    case GraphOp::kPlainModulo:
      return static_cast<int64_t>(static_cast<uint64_t>(a) % static_cast<uint64_t>(b));
    case GraphOp::kToFloat:
      return AsBits(static_cast<double>(a));
    case GraphOp::kFloatAdd:
      return AsBits(AsFloat(a) + AsFloat(b));
    case GraphOp::kFloatSubtract:
      return AsBits(AsFloat(a) - AsFloat(b));
    case GraphOp::kFloatMultiply:
      return AsBits(AsFloat(a) * AsFloat(b));
    case GraphOp::kFloatDivide:
      return FloatOrZero(Op::kDivide, a, b);
    case GraphOp::kFloatFloorDivide:
      return FloatOrZero(Op::kFloorDivide, a, b);
    case GraphOp::kFloatModulo:
      return FloatOrZero(Op::kModulo, a, b);
    case GraphOp::kFloatNegate:
      return AsBits(-AsFloat(a));
    case GraphOp::kFloatEqual:
      return AsFloat(a) == AsFloat(b);
    case GraphOp::kFloatLess:
      return AsFloat(a) < AsFloat(b);
    case GraphOp::kFloatLessEqual:
      return AsFloat(a) <= AsFloat(b);
  }
  return 0;
}

RuleGraph::RuleGraph(const std::vector<Parameter>& parameters, const std::vector<std::vector<uint16_t>>& domains)
    : domains_(domains) {
  for (const Parameter& parameter : parameters) {
    size_t floats = 0;
    size_t ints = 0;
    std::vector<int64_t> values;
    for (const Value& value : parameter.values) {
      int64_t held = 0;
      if (value.is_int()) held = value.int_value();
      if (value.is_bool()) held = value.bool_value() ? 1 : 0;
      if (value.is_float()) held = AsBits(value.float_value());
      ints += value.is_int() || value.is_bool() ? 1 : 0;
      floats += value.is_float() ? 1 : 0;
      values.push_back(held);
    }
    kinds_.push_back(ints == values.size()     ? ParameterKind::kInt
                     : floats == values.size() ? ParameterKind::kFloat
                                               : ParameterKind::kOther);
    values_.push_back(std::move(values));
  }
}

Id RuleGraph::Add(GraphNode node) {
  const Key key(node.op, node.is_float, node.a, node.b, node.c, node.value);
  const auto [it, is_new] = ids_.try_emplace(key, size());
  if (!is_new) return it->second;
  for (const Id operand : {node.a, node.b, node.c}) {
    if (operand >= 0) node.variables |= nodes_[operand].variables;
  }
  if (!node.is_float && (node.range.low > 0 || node.range.high < 0)) node.is_never_zero = true;
  if (node.is_float && (node.range.float_low > 0 || node.range.float_high < 0)) node.is_never_zero = true;
  nodes_.push_back(std::move(node));
  return it->second;
}

Id RuleGraph::Int(int64_t value) {
  if (value < -kIntMax || value > kIntMax) return -1;
  GraphNode node;
  node.value = value;
  node.range.low = node.range.high = value;
  return Add(std::move(node));
}

Id RuleGraph::Float(double value) {
  if (!(std::fabs(value) <= kFloatMax)) return -1;
  GraphNode node;
  node.is_float = true;
  node.value = AsBits(value);
  node.range.float_low = node.range.float_high = value;
  return Add(std::move(node));
}

Id RuleGraph::Variable(int parameter) {
  if (kinds_[parameter] == ParameterKind::kOther || domains_[parameter].empty()) return -1;
  GraphNode node;
  node.op = GraphOp::kVariable;
  node.value = parameter;
  node.is_float = kinds_[parameter] == ParameterKind::kFloat;
  node.variables.set(static_cast<size_t>(parameter));
  node.is_never_zero = true;
  bool is_first = true;
  for (const uint16_t index : domains_[parameter]) {
    const int64_t value = values_[parameter][index];
    const double as_float = node.is_float ? AsFloat(value) : 0;
    if (node.is_float ? !(std::fabs(as_float) <= kFloatMax) : value < -kIntMax || value > kIntMax) return -1;
    if (node.is_float ? as_float == 0 : value == 0) node.is_never_zero = false;
    Interval& range = node.range;
    range.low = is_first ? value : std::min(range.low, value);
    range.high = is_first ? value : std::max(range.high, value);
    range.float_low = is_first ? as_float : std::min(range.float_low, as_float);
    range.float_high = is_first ? as_float : std::max(range.float_high, as_float);
    is_first = false;
  }
  if (domains_[parameter].size() == 1) {
    const int64_t only = values_[parameter][domains_[parameter][0]];
    return node.is_float ? Float(AsFloat(only)) : Int(only);
  }
  return Add(std::move(node));
}

Id RuleGraph::Table(int parameter, std::vector<bool> is_true) {
  GraphNode node;
  node.op = GraphOp::kTable;
  node.a = -1;
  node.range = kBoolean;
  node.variables.set(static_cast<size_t>(parameter));
  node.value = static_cast<int64_t>(tables_.size());
  tables_.push_back(std::move(is_true));
  return Add(std::move(node));
}

Id RuleGraph::Operation(GraphOp op, Id a, Id b, Id c, bool is_float, const Interval& range) {
  bool is_constant = true;
  for (const Id operand : {a, b, c}) is_constant = is_constant && (operand < 0 || IsConstant(operand));
  if (is_constant) {
    const auto value = [this](Id id) { return id < 0 ? 0 : nodes_[id].value; };
    const int64_t result = Apply(op, value(a), value(b), value(c));
    return is_float ? Float(AsFloat(result)) : Int(result);
  }
  if (!is_float && range.low == range.high) return Int(range.low);
  GraphNode node;
  node.op = op;
  node.is_float = is_float;
  node.a = a;
  node.b = b;
  node.c = c;
  node.range = range;
  return Add(std::move(node));
}

Id RuleGraph::Arithmetic(Op op, Id a, Id b) {
  if (a < 0 || b < 0) return -1;
  if (op == Op::kMin || op == Op::kMax) return MinMax(op == Op::kMin, a, b);
  if (op == Op::kDivide || nodes_[a].is_float || nodes_[b].is_float) return FloatArithmetic(op, ToFloat(a), ToFloat(b));
  return IntArithmetic(op, a, b);
}

Id RuleGraph::IntArithmetic(Op op, Id a, Id b) {
  switch (op) {
    case Op::kAdd:
      return Sum(a, b);
    case Op::kSubtract:
      return Sum(a, Negate(b));
    case Op::kMultiply:
      return Product(a, b);
    case Op::kFloorDivide:
    case Op::kModulo:
    case Op::kCeilDiv:
    case Op::kRoundUp:
      return Divide(op, a, b);
    case Op::kPower:
      return Power(a, b);
    default:
      return -1;
  }
}

Id RuleGraph::Sum(Id a, Id b) {
  if (a < 0 || b < 0) return -1;
  if (IsConstant(a)) std::swap(a, b);
  if (IsConstant(b)) {
    if (nodes_[b].value == 0) return a;
    // (x + 2) + 3 is x + 5. Copied: a new constant moves the nodes.
    const auto [op, x, two] = std::tuple(nodes_[a].op, nodes_[a].a, nodes_[a].b);
    if (op == GraphOp::kAdd && IsConstant(two)) return Sum(x, Int(nodes_[two].value + nodes_[b].value));
  }
  Interval range;
  const Interval& x = nodes_[a].range;
  const Interval& y = nodes_[b].range;
  if (!Hull({__int128{x.low} + y.low, __int128{x.high} + y.high}, &range)) return -1;
  return Operation(GraphOp::kAdd, a, b, -1, false, range);
}

Id RuleGraph::Product(Id a, Id b) {
  if (a < 0 || b < 0) return -1;
  if (IsConstant(a)) std::swap(a, b);
  Interval range;
  const Interval& x = nodes_[a].range;
  const Interval& y = nodes_[b].range;
  if (!Hull({__int128{x.low} * y.low, __int128{x.low} * y.high, __int128{x.high} * y.low, __int128{x.high} * y.high},
            &range)) {
    return -1;
  }
  if (IsConstant(b)) {
    if (nodes_[b].value == 1) return a;
    const auto [op, inner, two] = std::tuple(nodes_[a].op, nodes_[a].a, nodes_[a].b);
    if (op == GraphOp::kMultiply && IsConstant(two)) {
      Interval factor;
      if (Hull({__int128{nodes_[two].value} * nodes_[b].value}, &factor)) return Product(inner, Int(factor.low));
    }
  }
  const Id id = Operation(GraphOp::kMultiply, a, b, -1, false, range);
  if (id >= 0 && nodes_[a].is_never_zero && nodes_[b].is_never_zero) nodes_[id].is_never_zero = true;
  return id;
}

Id RuleGraph::Divide(Op op, Id a, Id b) {
  const Interval x = nodes_[a].range;
  const Interval y = nodes_[b].range;
  Interval range;
  const __int128 widest = std::max(std::max<__int128>(-__int128{y.low}, y.high), __int128{1});
  if (op == Op::kModulo) {
    range.low = y.low < 0 ? static_cast<int64_t>(-(widest - 1)) : 0;
    range.high = y.high > 0 ? static_cast<int64_t>(widest - 1) : 0;
    if (x.low >= 0 && y.low >= 0) range.high = std::min(range.high, x.high);
  } else if (op == Op::kRoundUp) {
    if (!Hull({0, __int128{x.low} - widest, __int128{x.high} + widest}, &range)) return -1;
    if (x.low >= 0 && y.low >= 0) range.low = 0;
  } else {
    // For one divisor the quotient follows the dividend; for one dividend it is monotone on each side of zero.
    Interval divisors[2] = {{1, 0, 0, 0}, {1, 0, 0, 0}};
    if (y.low < 0) divisors[0] = {y.low, std::min<int64_t>(y.high, -1), 0, 0};
    if (y.high > 0) divisors[1] = {std::max<int64_t>(y.low, 1), y.high, 0, 0};
    range = {0, 0, 0, 0};
    bool is_first = nodes_[b].is_never_zero;
    for (const Interval& side : divisors) {
      if (side.low > side.high) continue;
      for (const int64_t dividend : {x.low, x.high}) {
        for (const int64_t divisor : {side.low, side.high}) {
          const int64_t quotient = IntegralOrZero(op, dividend, divisor);
          range.low = is_first ? quotient : std::min(range.low, quotient);
          range.high = is_first ? quotient : std::max(range.high, quotient);
          is_first = false;
        }
      }
    }
  }
  GraphOp graph_op = op == Op::kFloorDivide ? GraphOp::kFloorDivide
                     : op == Op::kModulo    ? GraphOp::kModulo
                     : op == Op::kCeilDiv   ? GraphOp::kCeilDiv
                                            : GraphOp::kRoundUp;
  if (x.low >= 0 && y.low > 0) {
    if (op == Op::kFloorDivide) graph_op = GraphOp::kPlainDivide;
    if (op == Op::kModulo) graph_op = GraphOp::kPlainModulo;
  }
  return Operation(graph_op, a, b, -1, false, range);
}

Id RuleGraph::Power(Id a, Id b) {
  const Interval& x = nodes_[a].range;
  const Interval& y = nodes_[b].range;
  if (x.low < 1 || y.low < 0) return -1;
  Interval range;
  if (!expression::IntegralBinary(Op::kPower, x.low, y.low, &range.low) ||
      !expression::IntegralBinary(Op::kPower, x.high, y.high, &range.high) || range.high > kIntMax) {
    return -1;
  }
  return Operation(GraphOp::kPower, a, b, -1, false, range);
}

Id RuleGraph::MinMax(bool is_min, Id a, Id b) {
  if (nodes_[a].is_float || nodes_[b].is_float) {
    // Only of two floats: of an int and a float, Python keeps the winner's type.
    if (!nodes_[a].is_float || !nodes_[b].is_float) return -1;
    return is_min ? Select(Compare(Op::kLess, b, a), b, a) : Select(Compare(Op::kGreater, b, a), b, a);
  }
  const Interval& x = nodes_[a].range;
  const Interval& y = nodes_[b].range;
  Interval range;
  range.low = is_min ? std::min(x.low, y.low) : std::max(x.low, y.low);
  range.high = is_min ? std::min(x.high, y.high) : std::max(x.high, y.high);
  const Id id = Operation(is_min ? GraphOp::kMin : GraphOp::kMax, a, b, -1, false, range);
  if (id >= 0 && nodes_[a].is_never_zero && nodes_[b].is_never_zero) nodes_[id].is_never_zero = true;
  return id;
}

Id RuleGraph::FloatArithmetic(Op op, Id a, Id b) {
  if (a < 0 || b < 0) return -1;
  const Interval x = nodes_[a].range;
  const Interval y = nodes_[b].range;
  Interval range;
  const auto corners = [&](auto apply) {
    return FloatHull({apply(x.float_low, y.float_low), apply(x.float_low, y.float_high),
                      apply(x.float_high, y.float_low), apply(x.float_high, y.float_high)},
                     &range);
  };
  // Away from zero by a margin: a quotient then cannot become infinite.
  const bool divides_safely = y.float_low >= 1e-150 || y.float_high <= -1e-150;
  switch (op) {
    case Op::kAdd:
      if (!corners([](double u, double v) { return u + v; })) return -1;
      return Operation(GraphOp::kFloatAdd, a, b, -1, true, range);
    case Op::kSubtract:
      if (!corners([](double u, double v) { return u - v; })) return -1;
      return Operation(GraphOp::kFloatSubtract, a, b, -1, true, range);
    case Op::kMultiply:
      if (!corners([](double u, double v) { return u * v; })) return -1;
      return Operation(GraphOp::kFloatMultiply, a, b, -1, true, range);
    case Op::kDivide:
      if (!divides_safely || !corners([](double u, double v) { return u / v; })) return -1;
      return Operation(GraphOp::kFloatDivide, a, b, -1, true, range);
    case Op::kFloorDivide:
      if (!divides_safely || !corners([](double u, double v) { return std::floor(u / v); })) return -1;
      // Python's quotient may differ from the floor of the rounded one by one.
      range.float_low -= 1;
      range.float_high += 1;
      return Operation(GraphOp::kFloatFloorDivide, a, b, -1, true, range);
    case Op::kModulo: {
      if (!divides_safely) return -1;
      const double widest = std::max(std::fabs(y.float_low), std::fabs(y.float_high));
      range.float_low = y.float_low < 0 ? -widest : 0;
      range.float_high = y.float_high > 0 ? widest : 0;
      return Operation(GraphOp::kFloatModulo, a, b, -1, true, range);
    }
    default:
      return -1;
  }
}

Id RuleGraph::Negate(Id a) {
  if (a < 0) return -1;
  const Interval& x = nodes_[a].range;
  if (nodes_[a].is_float) {
    return Operation(GraphOp::kFloatNegate, a, -1, -1, true, {0, 0, -x.float_high, -x.float_low});
  }
  const Id id = Operation(GraphOp::kNegate, a, -1, -1, false, {-x.high, -x.low, 0, 0});
  if (id >= 0 && nodes_[a].is_never_zero) nodes_[id].is_never_zero = true;
  return id;
}

Id RuleGraph::Abs(Id a) {
  if (a < 0 || nodes_[a].is_float) return -1;
  const Interval& x = nodes_[a].range;
  if (x.low >= 0) return a;
  return Operation(GraphOp::kAbs, a, -1, -1, false, {0, std::max(-x.low, x.high), 0, 0});
}

Id RuleGraph::IsPow2(Id a) {
  if (a < 0 || nodes_[a].is_float) return -1;
  return Operation(GraphOp::kIsPow2, a, -1, -1, false, kBoolean);
}

Id RuleGraph::ToFloat(Id a) {
  if (a < 0 || nodes_[a].is_float) return a;
  const Interval& x = nodes_[a].range;
  // Only where every int is a float without rounding: comparisons stay exact then.
  if (x.low < -kExactDouble || x.high > kExactDouble) return -1;
  return Operation(GraphOp::kToFloat, a, -1, -1, true, {0, 0, static_cast<double>(x.low), static_cast<double>(x.high)});
}

}  // namespace tunefarm::space_internal
