// The inside of the expression language, shared by its own .cc files and by nothing else: tokens, the syntax tree, the
// compiled program and arithmetic with Python's rules.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/expression/expression.h"
#include "server/expression/value.h"

namespace tunefarm::expression {

// Operators and functions; their order matters to tables and ranges in the .cc files.
enum class Op : uint8_t {
  // Binary arithmetic.
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  // Of the bits of ints.
  kBitAnd,
  kBitOr,
  kBitXor,
  kShiftLeft,
  kShiftRight,
  // Comparisons.
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
  // Unary.
  kNegate,
  kPlus,
  kInvert,
  kNot,
  // Functions.
  kMin,
  kMax,
  kAbs,
  kCeilDiv,
  kRoundUp,
  kToInt,
  kToFloat,
  kToBool,
  kLog2,
  kIsPow2,
  kRound,
  kRoundDigits,  // round(x, digits)
  // Functions of lists, which the parser writes as other operations.
  kAll,
  kAny,
  kSum,
  // Only in programs.
  kConstant,            // push constants[argument]
  kLoad,                // push slot argument
  kJump,                // to argument
  kJumpIfFalseElsePop,  // `and`: keep a false operand and jump, else drop it
  kJumpIfTrueElsePop,   // `or`
  kPopJumpIfFalse,      // conditional expression
  kChain,               // a comparison (sub) inside a chain: [a b] becomes [b], or [False] and a jump
  kReduce,              // min or max (sub) of the upper `argument` operands, all evaluated before any is compared
  kInBegin,             // push the "found" mark
  kInElement,           // [x found element] becomes [x found']
  kInEnd,               // [x found] becomes [found], or [not found] where sub is kNotIn
};

// How messages spell it: "+", "not in", "ceil_div".
std::string_view OpText(Op op);

struct FunctionSpec {
  std::string_view name;
  Op op;
  int arguments_min;
  int arguments_max;  // -1: any number
  // Whether a parameter may have the same name: it is the function only before '('.
  bool is_name_too = false;
};
// nullptr when there is none of that name.
const FunctionSpec* FindFunction(std::string_view name);
// `and`, `in`, `if`, ...: words that cannot be names.
bool IsKeyword(std::string_view word);

// ---- Text to tree ----

// The message of every error of an expression, with the caret line. `column` counts bytes from 1.
absl::Status ErrorAt(std::string_view text, int column, std::string_view message);

enum class TokenKind : uint8_t { kEnd, kInt, kIntMinMagnitude, kFloat, kString, kName, kKeyword, kSymbol };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int column = 1;
  std::string text;  // the name, keyword, symbol, or the contents of a string
  int64_t int_value = 0;
  double float_value = 0;
};

// All tokens of `text`, the last one kEnd.
absl::StatusOr<std::vector<Token>> Tokenize(std::string_view text);

enum class NodeKind : uint8_t {
  kLiteral,
  kIntMinMagnitude,  // 9223372036854775808, which only a minus sign makes a 64-bit integer
  kName,
  kUnary,
  kBinary,
  kAnd,
  kOr,
  kCompare,      // operands children[0..n], operators ops[0..n-1]
  kConditional,  // children: value, condition, other value
  kCall,
  kList,  // only as the last operand of a kCompare
};

struct Node {
  NodeKind kind = NodeKind::kLiteral;
  Op op = Op::kAdd;
  int column = 1;
  Value literal;
  std::string name;
  std::vector<int> children;  // indices into Tree::nodes
  std::vector<Op> ops;
  std::vector<int> op_columns;
};

struct Tree {
  std::vector<Node> nodes;
  int root = -1;
};

absl::StatusOr<Tree> Parse(std::string_view text);

// ---- Values at run time ----

// Strings are never made at run time, so a cell points to one that a constant or a slot owns.
struct Cell {
  ValueType type;  // not initialised: an evaluation starts with a stack of cells
  union {
    int64_t int_value;  // also 0 or 1 of a bool
    double float_value;
    const std::string* string_value;
  };

  static Cell Int(int64_t value) { return Cell{ValueType::kInt, {.int_value = value}}; }
  static Cell Bool(bool value) { return Cell{ValueType::kBool, {.int_value = value ? 1 : 0}}; }
  static Cell Float(double value) { return Cell{ValueType::kFloat, {.float_value = value}}; }
  // The cell is valid while `value` lives.
  static Cell Of(const Value& value);

  bool is_integral() const { return type == ValueType::kInt || type == ValueType::kBool; }
  bool Truth() const;
  Value ToValue() const;
};

enum class Fault : uint8_t { kNone, kType, kDivisionByZero, kOverflow, kDomain, kNegativeShift };

// Python's meaning of a binary operator, a comparison or a function of two arguments. `*out` may be one of the
// operands.
Fault Binary(Op op, const Cell& a, const Cell& b, Cell* out);
// Of a unary operator or a function of one argument.
Fault Unary(Op op, const Cell& a, Cell* out);

// The same for operands that are both integers, where the result is one too. False on a fault. Inline: this is what
// counting the points of a space spends its time in.
bool IntegralBinary(Op op, int64_t a, int64_t b, int64_t* out);
bool IntegralUnary(Op op, int64_t a, int64_t* out);

// ---- Programs ----

struct Instruction {
  Op op = Op::kConstant;
  Op sub = Op::kAdd;     // the comparison of kChain, kIn or kNotIn of kInEnd
  uint16_t column = 1;   // where an error is shown
  uint16_t derived = 0;  // 1 + index into derived_names when the instruction stems from a derived name
  int32_t argument = 0;  // constant index, slot or jump target
};

inline constexpr int kStackMax = 512;

}  // namespace tunefarm::expression

namespace tunefarm {

struct Expression::Program {
  std::string text;
  std::vector<expression::Instruction> code;
  std::deque<Value> constants;  // a deque: cells point into it
  std::vector<expression::Cell> constant_cells;
  std::vector<std::string> derived_names;
  std::vector<int> variables;
  std::vector<std::string> variable_names;  // beside `variables`
  std::optional<ValueType> result_type;
};

namespace expression {

absl::StatusOr<std::shared_ptr<const Expression::Program>> CompileProgram(std::string_view text,
                                                                          const SymbolTable& symbols);

// Runs code[begin, end) with an empty stack; used to fold constants. False when it fails.
bool RunConstant(const Expression::Program& program, int begin, int end, Cell* result);

}  // namespace expression

}  // namespace tunefarm
