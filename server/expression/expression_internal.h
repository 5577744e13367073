// The inside of the expression language, shared by its own .cc files and by nothing else: tokens, the syntax tree and
// the compiled program. What runs it is in machine.h.
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
#include "server/expression/machine.h"
#include "server/expression/value.h"

namespace tunefarm::expression {

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

// Valid while `value` lives.
Cell CellOf(const Value& value);
Value ValueOf(const Cell& cell);

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
