// The part of the graph that is about truth: comparisons, logic, and the two rewritings that make a search fast.
#include <algorithm>

#include "server/expression/expression_internal.h"
#include "server/space/rule_graph.h"

namespace tunefarm::space_internal {

using expression::Op;
using Id = RuleGraph::Id;

namespace {

constexpr Interval kBoolean = {0, 1, 0, 0};
constexpr int kTermsMax = 256;

}  // namespace

Id RuleGraph::Compare(Op op, Id a, Id b) {
  if (a < 0 || b < 0) return -1;
  if (op == Op::kGreater) return Compare(Op::kLess, b, a);
  if (op == Op::kGreaterEqual) return Compare(Op::kLessEqual, b, a);
  if (nodes_[a].is_float || nodes_[b].is_float) {
    a = ToFloat(a);
    b = ToFloat(b);
    if (a < 0 || b < 0) return -1;
    const Interval& x = nodes_[a].range;
    const Interval& y = nodes_[b].range;
    switch (op) {
      case Op::kEqual:
        return Operation(GraphOp::kFloatEqual, a, b, -1, false, kBoolean);
      case Op::kNotEqual:
        return Not(Operation(GraphOp::kFloatEqual, a, b, -1, false, kBoolean));
      case Op::kLess:
        if (x.float_high < y.float_low) return True();
        if (x.float_low >= y.float_high) return False();
        return Operation(GraphOp::kFloatLess, a, b, -1, false, kBoolean);
      case Op::kLessEqual:
        if (x.float_high <= y.float_low) return True();
        if (x.float_low > y.float_high) return False();
        return Operation(GraphOp::kFloatLessEqual, a, b, -1, false, kBoolean);
      default:
        return -1;
    }
  }
  const Interval& x = nodes_[a].range;
  const Interval& y = nodes_[b].range;
  const bool is_apart = x.high < y.low || y.high < x.low;
  switch (op) {
    case Op::kEqual:
      if (is_apart) return False();
      if (a == b) return True();
      return Operation(GraphOp::kEqual, a, b, -1, false, kBoolean);
    case Op::kNotEqual:
      if (is_apart) return True();
      if (a == b) return False();
      return Operation(GraphOp::kNotEqual, a, b, -1, false, kBoolean);
    case Op::kLess:
      if (x.high < y.low) return True();
      if (x.low >= y.high) return False();
      return Operation(GraphOp::kLess, a, b, -1, false, kBoolean);
    case Op::kLessEqual:
      if (x.high <= y.low) return True();
      if (x.low > y.high) return False();
      return Operation(GraphOp::kLessEqual, a, b, -1, false, kBoolean);
    default:
      return -1;
  }
}

Id RuleGraph::IsZero(Id a) {
  if (a < 0) return -1;
  if (nodes_[a].is_never_zero) return False();
  return nodes_[a].is_float ? Compare(Op::kEqual, a, Float(0)) : Compare(Op::kEqual, a, Int(0));
}

Id RuleGraph::Truth(Id a) {
  if (a < 0 || IsBoolean(a)) return a;
  return Not(IsZero(a));
}

Id RuleGraph::Not(Id a) {
  if (a < 0) return -1;
  const GraphNode node = nodes_[a];
  switch (node.op) {
    case GraphOp::kNot:
      return node.a;
    case GraphOp::kAnd:
      return Or(Not(node.a), Not(node.b));
    case GraphOp::kOr:
      return And(Not(node.a), Not(node.b));
    case GraphOp::kEqual:
      return Compare(Op::kNotEqual, node.a, node.b);
    case GraphOp::kNotEqual:
      return Compare(Op::kEqual, node.a, node.b);
    case GraphOp::kLess:
      return Compare(Op::kLessEqual, node.b, node.a);
    case GraphOp::kLessEqual:
      return Compare(Op::kLess, node.b, node.a);
    case GraphOp::kFloatLess:
      return Compare(Op::kLessEqual, node.b, node.a);
    case GraphOp::kFloatLessEqual:
      return Compare(Op::kLess, node.b, node.a);
    default:
      return Operation(GraphOp::kNot, a, -1, -1, false, kBoolean);
  }
}

Id RuleGraph::And(Id a, Id b) {
  if (a < 0 || b < 0) return -1;
  if (IsConstant(a)) std::swap(a, b);
  if (IsConstant(b)) return nodes_[b].value != 0 ? a : b;
  if (a == b) return a;
  return Operation(GraphOp::kAnd, a, b, -1, false, kBoolean);
}

Id RuleGraph::Or(Id a, Id b) {
  if (a < 0 || b < 0) return -1;
  if (IsConstant(a)) std::swap(a, b);
  if (IsConstant(b)) return nodes_[b].value != 0 ? b : a;
  if (a == b) return a;
  return Operation(GraphOp::kOr, a, b, -1, false, kBoolean);
}

Id RuleGraph::Select(Id condition, Id if_true, Id if_false) {
  if (condition < 0 || if_true < 0 || if_false < 0) return -1;
  if (IsConstant(condition)) return nodes_[condition].value != 0 ? if_true : if_false;
  if (if_true == if_false) return if_true;
  // An int or a float, depending on the condition, has no place here.
  if (nodes_[if_true].is_float != nodes_[if_false].is_float) return -1;
  const Interval& x = nodes_[if_true].range;
  const Interval& y = nodes_[if_false].range;
  const Interval range = {std::min(x.low, y.low), std::max(x.high, y.high), std::min(x.float_low, y.float_low),
                          std::max(x.float_high, y.float_high)};
  return Operation(GraphOp::kSelect, condition, if_true, if_false, nodes_[if_true].is_float, range);
}

// ---- Sums and products in the order of the search ----

bool RuleGraph::Flatten(GraphOp op, Id id, std::vector<Id>* terms) const {
  const GraphNode& node = nodes_[id];
  if (node.op != op) {
    if (terms->size() >= kTermsMax) return false;
    terms->push_back(id);
    return true;
  }
  return Flatten(op, node.a, terms) && Flatten(op, node.b, terms);
}

Id RuleGraph::ReassociateOnce(Id id, const std::vector<int>& depth_of, std::map<Id, Id>* done) {
  const auto known = done->find(id);
  if (known != done->end()) return known->second;
  const GraphNode node = nodes_[id];
  const auto depth = [&](Id term) {
    int deepest = -1;
    for (size_t p = 0; p < depth_of.size(); ++p) {
      if (nodes_[term].variables[p]) deepest = std::max(deepest, depth_of[p]);
    }
    return deepest;
  };
  Id result = id;
  if (node.op == GraphOp::kAdd || node.op == GraphOp::kMultiply) {
    std::vector<Id> terms;
    bool is_free = Flatten(node.op, id, &terms);
    // No partial sum or product, in whatever order, is larger than this.
    double largest = node.op == GraphOp::kAdd ? 0 : 1;
    for (Id& term : terms) {
      const double size = std::max(std::abs(static_cast<double>(nodes_[term].range.low)),
                                   std::abs(static_cast<double>(nodes_[term].range.high)));
      largest = node.op == GraphOp::kAdd ? largest + size : largest * std::max(size, 1.0);
      term = ReassociateOnce(term, depth_of, done);
    }
    if (is_free && largest < 4e18) {
      std::stable_sort(terms.begin(), terms.end(), [&](Id x, Id y) { return depth(x) < depth(y); });
      // Terms of one depth first come together, as they change together.
      std::vector<Id> by_depth;
      int last_depth = -2;
      for (const Id term : terms) {
        const int at = depth(term);
        if (at == last_depth) {
          by_depth.back() = node.op == GraphOp::kAdd ? Sum(by_depth.back(), term) : Product(by_depth.back(), term);
        } else {
          by_depth.push_back(term);
        }
        last_depth = at;
      }
      result = by_depth[0];
      for (size_t i = 1; i < by_depth.size(); ++i) {
        result = node.op == GraphOp::kAdd ? Sum(result, by_depth[i]) : Product(result, by_depth[i]);
      }
      if (result < 0) result = id;
    }
  } else if (node.a >= 0) {
    GraphNode copy = node;
    copy.a = ReassociateOnce(node.a, depth_of, done);
    if (node.b >= 0) copy.b = ReassociateOnce(node.b, depth_of, done);
    if (node.c >= 0) copy.c = ReassociateOnce(node.c, depth_of, done);
    copy.variables.reset();
    result = Add(std::move(copy));
  }
  done->emplace(id, result);
  return result;
}

Id RuleGraph::Reassociate(Id id, const std::vector<int>& depth_of) {
  std::map<Id, Id> done;
  return ReassociateOnce(id, depth_of, &done);
}

// ---- Bounds ----

Id RuleGraph::RangeEnd(Id id, bool is_upper) {
  const Interval range = nodes_[id].range;
  if (nodes_[id].is_float) return Float(is_upper ? range.float_high : range.float_low);
  return Int(is_upper ? range.high : range.low);
}

Id RuleGraph::BoundOperation(Id id, bool is_upper, const ParameterSet& bound, std::map<std::pair<Id, bool>, Id>* done) {
  const GraphNode node = nodes_[id];
  const auto same = [&](Id of) { return BoundOnce(of, is_upper, bound, done); };
  const auto opposite = [&](Id of) { return BoundOnce(of, !is_upper, bound, done); };
  const auto is_positive = [this](Id of) {
    return nodes_[of].is_float ? nodes_[of].range.float_low > 0 : nodes_[of].range.low > 0;
  };
  const auto is_not_negative = [this](Id of) {
    return nodes_[of].is_float ? nodes_[of].range.float_low >= 0 : nodes_[of].range.low >= 0;
  };
  switch (node.op) {
    case GraphOp::kAdd:
      return Sum(same(node.a), same(node.b));
    case GraphOp::kMultiply:
      if (is_not_negative(node.a) && is_not_negative(node.b)) return Product(same(node.a), same(node.b));
      // Constants stand on the right.
      if (IsConstant(node.b)) return Product(nodes_[node.b].value < 0 ? opposite(node.a) : same(node.a), node.b);
      return -1;
    case GraphOp::kNegate:
    case GraphOp::kFloatNegate:
      return Negate(opposite(node.a));
    case GraphOp::kMin:
      return Arithmetic(Op::kMin, same(node.a), same(node.b));
    case GraphOp::kMax:
      return Arithmetic(Op::kMax, same(node.a), same(node.b));
    case GraphOp::kPlainDivide:
      return Divide(Op::kFloorDivide, same(node.a), opposite(node.b));
    case GraphOp::kCeilDiv:
      if (!is_not_negative(node.a) || !is_positive(node.b)) return -1;
      return Divide(Op::kCeilDiv, same(node.a), opposite(node.b));
    case GraphOp::kFloatAdd:
      return FloatArithmetic(Op::kAdd, same(node.a), same(node.b));
    case GraphOp::kFloatSubtract:
      return FloatArithmetic(Op::kSubtract, same(node.a), opposite(node.b));
    case GraphOp::kFloatMultiply:
      if (!is_not_negative(node.a) || !is_not_negative(node.b)) return -1;
      return FloatArithmetic(Op::kMultiply, same(node.a), same(node.b));
    case GraphOp::kFloatDivide:
      if (!is_not_negative(node.a) || !is_positive(node.b)) return -1;
      return FloatArithmetic(Op::kDivide, same(node.a), opposite(node.b));
    case GraphOp::kToFloat:
      return ToFloat(same(node.a));
    case GraphOp::kAnd:
      return And(same(node.a), same(node.b));
    case GraphOp::kOr:
      return Or(same(node.a), same(node.b));
    case GraphOp::kNot:
      return Not(opposite(node.a));
    // Possibly less where the smallest left is less than the largest right; certainly, the other way round.
    case GraphOp::kLess:
    case GraphOp::kFloatLess:
      return Compare(Op::kLess, opposite(node.a), same(node.b));
    case GraphOp::kLessEqual:
    case GraphOp::kFloatLessEqual:
      return Compare(Op::kLessEqual, opposite(node.a), same(node.b));
    case GraphOp::kEqual:
    case GraphOp::kFloatEqual:
      return And(Compare(Op::kLessEqual, opposite(node.a), same(node.b)),
                 Compare(Op::kLessEqual, opposite(node.b), same(node.a)));
    case GraphOp::kSelect:
      if ((nodes_[node.a].variables & ~bound).any()) {
        return Arithmetic(is_upper ? Op::kMax : Op::kMin, same(node.b), same(node.c));
      }
      return Select(node.a, same(node.b), same(node.c));
    default:
      return -1;
  }
}

Id RuleGraph::BoundOnce(Id id, bool is_upper, const ParameterSet& bound, std::map<std::pair<Id, bool>, Id>* done) {
  if ((nodes_[id].variables & ~bound).none()) return id;
  const auto known = done->find({id, is_upper});
  if (known != done->end()) return known->second;
  Id result = -1;
  if ((nodes_[id].variables & bound).any()) result = BoundOperation(id, is_upper, bound, done);
  if (result < 0) result = RangeEnd(id, is_upper);
  done->emplace(std::pair(id, is_upper), result);
  return result;
}

Id RuleGraph::Bound(Id id, bool is_upper, const ParameterSet& bound) {
  std::map<std::pair<Id, bool>, Id> done;
  return BoundOnce(id, is_upper, bound, &done);
}

}  // namespace tunefarm::space_internal
