// The rules of a space as one graph of typed operations: equal parts of different rules are one node, every node knows
// the interval its value lies in, and nothing in it can fail. What a search runs is compiled from it
// (search_program.h).
//
// A rule enters the graph only where its intervals prove that no 64-bit operation overflows. Where it may divide by
// zero, a second node says for which values it does; the division itself then gives 0. All other rules stay outside and
// are judged by their Expression.
//
// Threads: built by one thread; const use from any.
#pragma once

#include <bitset>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "server/expression/expression_internal.h"
#include "server/space/space.h"

namespace tunefarm::space_internal {

using ParameterSet = std::bitset<kSpaceParametersMax>;

enum class GraphOp : uint8_t {
  kConstant,
  kVariable,
  kTable,  // 0 or 1 by the value index of one parameter
  // Ints; comparisons and logic give 0 or 1.
  kAdd,
  kMultiply,
  kNegate,
  kAbs,
  kFloorDivide,
  kModulo,
  kCeilDiv,
  kRoundUp,
  kPower,
  kMin,
  kMax,
  kIsPow2,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kAnd,
  kOr,
  kNot,
  kSelect,  // a ? b : c; also of floats
  // Of operands that are not negative, the right one positive.
  kPlainDivide,
  kPlainModulo,
  // Floats.
  kToFloat,
  kFloatAdd,
  kFloatSubtract,
  kFloatMultiply,
  kFloatDivide,
  kFloatFloorDivide,
  kFloatModulo,
  kFloatNegate,
  kFloatEqual,
  kFloatLess,
  kFloatLessEqual,
};

// Where an int or a float lies. A float is never NaN or infinite.
struct Interval {
  int64_t low = 0;
  int64_t high = 0;
  double float_low = 0;
  double float_high = 0;
};

struct GraphNode {
  GraphOp op = GraphOp::kConstant;
  bool is_float = false;
  int a = -1;
  int b = -1;
  int c = -1;
  int64_t value = 0;  // of a constant (the bits of a float), the parameter of a variable, the number of a table
  Interval range;
  bool is_never_zero = false;
  ParameterSet variables;
};

// One operation on values that are ints or the bits of floats.
int64_t Apply(GraphOp op, int64_t a, int64_t b, int64_t c);

class RuleGraph {
 public:
  // A node's number; -1 where there is none because an operation could fail or is not of the graph's kind. All
  // functions take such an operand and hand it on.
  using Id = int;

  // `domains` are the value indices that each parameter may take.
  RuleGraph(const std::vector<Parameter>& parameters, const std::vector<std::vector<uint16_t>>& domains);

  const GraphNode& At(Id id) const { return nodes_[id]; }
  int size() const { return static_cast<int>(nodes_.size()); }
  bool IsConstant(Id id) const { return nodes_[id].op == GraphOp::kConstant; }
  bool IsBoolean(Id id) const {
    return !nodes_[id].is_float && nodes_[id].range.low >= 0 && nodes_[id].range.high <= 1;
  }
  Id False() { return Int(0); }
  Id True() { return Int(1); }

  Id Int(int64_t value);
  Id Float(double value);
  // -1 where the parameter's values are neither all ints and bools nor all floats.
  Id Variable(int parameter);
  // is_true[i] for the value index i of a parameter.
  Id Table(int parameter, std::vector<bool> is_true);
  // Ints and floats as Python mixes them. kDivide and the like give 0 for a division by zero; ZeroOf says when.
  Id Arithmetic(expression::Op op, Id a, Id b);
  Id Negate(Id a);
  Id Abs(Id a);
  Id IsPow2(Id a);
  Id ToFloat(Id a);
  // kEqual to kGreaterEqual.
  Id Compare(expression::Op op, Id a, Id b);
  // The truth of a number, 0 or 1.
  Id Truth(Id a);
  Id Not(Id a);
  Id And(Id a, Id b);
  Id Or(Id a, Id b);
  // `condition` is 0 or 1.
  Id Select(Id condition, Id if_true, Id if_false);
  Id IsZero(Id a);

  // The same value with sums and products put in the order of their variables' depths, so that what is known at one
  // depth is one number.
  Id Reassociate(Id id, const std::vector<int>& depth_of);
  // An upper (lower) bound of `id` that needs the parameters in `bound` only.
  Id Bound(Id id, bool is_upper, const ParameterSet& bound);

  // The value that a parameter's value index stands for, as the graph holds it.
  int64_t ValueOf(int parameter, uint16_t index) const { return values_[parameter][index]; }
  bool TableAt(Id id, uint16_t index) const { return tables_[static_cast<size_t>(nodes_[id].value)][index]; }

 private:
  using Key = std::tuple<GraphOp, bool, int, int, int, int64_t>;
  enum class ParameterKind : uint8_t { kInt, kFloat, kOther };

  Id Add(GraphNode node);
  // Makes the node, or the constant that it always is.
  Id Operation(GraphOp op, Id a, Id b, Id c, bool is_float, const Interval& range);
  Id IntArithmetic(expression::Op op, Id a, Id b);
  Id FloatArithmetic(expression::Op op, Id a, Id b);
  Id Sum(Id a, Id b);
  Id Product(Id a, Id b);
  Id Divide(expression::Op op, Id a, Id b);
  Id Power(Id a, Id b);
  Id MinMax(bool is_min, Id a, Id b);
  // The terms of nested sums (or factors of products), if they may be taken in any order without overflow.
  bool Flatten(GraphOp op, Id id, std::vector<Id>* terms) const;
  Id ReassociateOnce(Id id, const std::vector<int>& depth_of, std::map<Id, Id>* done);
  Id BoundOnce(Id id, bool is_upper, const ParameterSet& bound, std::map<std::pair<Id, bool>, Id>* done);
  Id BoundOperation(Id id, bool is_upper, const ParameterSet& bound, std::map<std::pair<Id, bool>, Id>* done);
  Id RangeEnd(Id id, bool is_upper);

  std::vector<ParameterKind> kinds_;
  std::vector<std::vector<int64_t>> values_;
  std::vector<std::vector<uint16_t>> domains_;
  std::vector<GraphNode> nodes_;
  std::vector<std::vector<bool>> tables_;
  std::map<Key, Id> ids_;
};

// What a rule is in the graph.
struct LoweredRule {
  RuleGraph::Id value = -1;  // 1 where it holds, 0 where it rejects
  RuleGraph::Id fault = -1;  // 1 where it cannot be evaluated (`value` then means nothing)
};

// Puts a rule's text into the graph. Empty where some part of it has no place there. The text has compiled with the
// same symbols; slot i of the symbols is parameter i.
std::optional<LoweredRule> LowerRule(std::string_view text, const SymbolTable& symbols,
                                     const std::vector<Parameter>& parameters, RuleGraph* graph);

}  // namespace tunefarm::space_internal
