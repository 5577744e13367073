// The expression language of constraints, launch formulas and work formulas: the subset of Python that kernel authors
// write.
//
//   literals      12  0x1f  1_000  2.5  1e-3  True  False  'text'  "text"
//   names         BLOCK_M  device.sm_count  kernel.registers
//   operators     or  and  not  < <= > >= == != in "not in" (chained as in Python)  |  ^  &  << >>  + -  * / // %
//                 unary + - ~  **
//   conditional   a if c else b
//   lists         (1, 2, y)   [16, 32]   range(1, 9)   [x * 2 for x in (a, b)], right of "in" and in the functions of
//                 lists; a string on the right of "in" means "substring of"
//   functions     min max abs ceil_div round_up int float bool log2 is_pow2 round
//   of lists      all any sum min max:  all(x % 2 == 0 for x in (a, b))   sum([a, b]) <= 64
//
// A comprehension has loops over lists, with one name each, and, in all, any and sum, conditions:
// any(a % x == 0 for x in range(2, 6) if x != b). It is put in place element by element when the text is parsed, so
// that range takes int literals and variables of other loops, and an element of a loop's list is evaluated where the
// variable is used. round, all, any, sum and range may be names, too.
//
// Values and results are Python's: // and % floor, / is always a float, ** of an int by a non-negative int is an int
// and by a negative one a float, "and" and "or" return an operand, a bool is an int in arithmetic, and ints compare
// with floats exactly. Differences, all of them errors instead of other answers: an int outside 64 bits (Python grows
// it), a complex power, arithmetic on strings, and an element of a generator right of "in" that fails behind the one
// found. & | ^ of two bools give a bool; round goes to the nearest even; sum adds from left to right. log2 returns a
// float and is exact for powers of two; ceil_div(a, b) is -(-a // b); round_up(a, b) is ceil_div(a, b) * b; is_pow2
// takes an int.
//
// Errors are InvalidArgument and read
//   expression error at column 7: unknown name 'BLOCK_X' (did you mean 'BLOCK_M'?)
//     BLOCK_N*BLOCK_X <= 1024
//             ^
// Columns count bytes from 1. Evaluation errors (division by zero, overflow, wrong types) have the same shape.
//
// Limits: 4,096 bytes of text, 64 levels of nesting, 4,096 nodes after derived names and comprehensions are put in.
// There are no loops, so the number of nodes bounds the steps of an evaluation; nothing is executed but arithmetic.
//
// Threads: a SymbolTable is built by one thread. A compiled Expression never changes; any number of threads may
// evaluate it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/expression/config.h"
#include "server/expression/value.h"

namespace tunefarm {

inline constexpr int kExpressionTextMax = 4096;
inline constexpr int kExpressionDepthMax = 64;
inline constexpr int kExpressionNodesMax = 4096;

// The names an expression may use. Every Add fails with InvalidArgument on a name that is not an identifier (or
// identifiers joined by dots), that is a word of the language, or that is taken.
class SymbolTable {
 public:
  // A variable gets the next slot, starting from 0. Without a type its values may have any type; with one, expressions
  // over ints and bools alone are compiled to a form without type tests. Returns the slot.
  absl::StatusOr<int> AddVariable(std::string_view name, std::optional<ValueType> type = std::nullopt);
  // A name whose value is known now; it is folded into the expressions.
  absl::Status AddConstant(std::string_view name, Value value);
  // A name for an expression over names added before it. It is put in place of the name at each use.
  absl::Status AddDerived(std::string_view name, std::string_view text);

  int slot_count() const { return static_cast<int>(slots_.size()); }
  // The name of a slot.
  const std::string& SlotName(int slot) const { return slots_[slot]; }
  // All names, for messages and completion.
  std::vector<std::string> Names() const;

 private:
  friend class ExpressionCompiler;
  friend class RuleLowering;
  struct Symbol {
    enum class Kind { kVariable, kConstant, kDerived } kind = Kind::kVariable;
    int slot = -1;
    std::optional<ValueType> type;
    Value value;
    std::string text;
  };
  absl::Status CheckNewName(std::string_view name) const;

  std::map<std::string, Symbol, std::less<>> symbols_;
  std::vector<std::string> slots_;
};

// A compiled expression as data, for files that are evaluated elsewhere: a program of the machine (machine.h), whose
// numbers never change.
struct ExportedProgram {
  struct Instruction {
    uint16_t operation = 0;  // expression::Op
    uint16_t sub = 0;        // expression::Op
    int32_t argument = 0;    // an index of `constants`, a slot, a count, or a jump's target in `code`
  };
  std::vector<Instruction> code;
  std::vector<Value> constants;
};

class Expression {
 public:
  // Parses and compiles. The SymbolTable is not needed afterwards.
  static absl::StatusOr<Expression> Compile(std::string_view text, const SymbolTable& symbols);

  // Evaluates with slots[i] as the value of slot i; only the slots in Variables() are read.
  absl::StatusOr<Value> Evaluate(const Value* slots) const;
  // As above with pointers, so that binding a variable copies nothing.
  absl::StatusOr<Value> Evaluate(const Value* const* slots) const;
  // For expressions without variables.
  absl::StatusOr<Value> Evaluate() const { return Evaluate(static_cast<const Value*>(nullptr)); }

  // The result as one type, an error in the usual shape for any other: an int (a bool counts as 0 or 1, a float is
  // refused, also a whole one: write // or int()); a float (ints are converted); the truth of a number as Python sees
  // it (a string is refused); a string.
  absl::StatusOr<int64_t> EvaluateInt(const Value* slots) const;
  absl::StatusOr<double> EvaluateFloat(const Value* slots) const;
  absl::StatusOr<bool> EvaluateBool(const Value* slots) const;
  absl::StatusOr<bool> EvaluateBool(const Value* const* slots) const;
  absl::StatusOr<std::string> EvaluateString(const Value* slots) const;

  // What EvaluateBool returns, without making a status: nullopt where it fails.
  std::optional<bool> Holds(const Value* const* slots) const;

  // The slots that the expression reads, ascending, without repeats. A name that constant folding removed is not among
  // them.
  const std::vector<int>& Variables() const;
  // The source text.
  const std::string& text() const;
  // The type of every result, where it is known without evaluating.
  std::optional<ValueType> result_type() const;

  // What Evaluate runs. Slots are the symbol table's.
  ExportedProgram Export() const;

  // The compiled form; defined and used inside this library only.
  struct Program;

 private:
  explicit Expression(std::shared_ptr<const Program> program) : program_(std::move(program)) {}

  std::shared_ptr<const Program> program_;
};

// True for a name that AddVariable would accept in an empty table: identifiers joined by dots, not a word of the
// language.
bool IsValidName(std::string_view name);

// The words and signs of the language, for its documentation: the functions that it knows, and what stands before and
// between operands ("//", "and", "if").
std::vector<std::string> ExpressionFunctions();
std::vector<std::string> ExpressionOperators();

}  // namespace tunefarm
