// The machine that runs compiled expressions: operations, cells, arithmetic with Python's rules, and the loop over a
// program. It needs the C library and nothing of this project, throws nothing and allocates nothing: it is compiled
// into the expression library, and again into libtunefarm-launch, which runs programs that package files hold
// (client/launch/package_format.h).
//
// A program works on a stack of cells and is trusted: there are operands for every operation, jumps go forward and end
// in it or at its end, constants and slots exist, and it leaves one cell. The compiler makes such programs; the reader
// of package files checks that it has one.
//
// Threads: any; there is no state.
#pragma once

#include <cstddef>
#include <cstdint>

#include "server/expression/value_type.h"

namespace tunefarm::expression {

// Operators and functions; their order matters to tables and ranges in the .cc files. Package files hold these numbers:
// they never change, and new operations get new ones at the end.
enum class Op : uint8_t {
  // Binary arithmetic.
  kAdd = 0,
  kSubtract = 1,
  kMultiply = 2,
  kDivide = 3,
  kFloorDivide = 4,
  kModulo = 5,
  kPower = 6,
  // Of the bits of ints.
  kBitAnd = 7,
  kBitOr = 8,
  kBitXor = 9,
  kShiftLeft = 10,
  kShiftRight = 11,
  // Comparisons.
  kEqual = 12,
  kNotEqual = 13,
  kLess = 14,
  kLessEqual = 15,
  kGreater = 16,
  kGreaterEqual = 17,
  kIn = 18,
  kNotIn = 19,
  // Unary.
  kNegate = 20,
  kPlus = 21,
  kInvert = 22,
  kNot = 23,
  // Functions.
  kMin = 24,
  kMax = 25,
  kAbs = 26,
  kCeilDiv = 27,
  kRoundUp = 28,
  kToInt = 29,
  kToFloat = 30,
  kToBool = 31,
  kLog2 = 32,
  kIsPow2 = 33,
  kRound = 34,
  kRoundDigits = 35,  // round(x, digits)
  // Functions of lists, which the parser writes as other operations.
  kAll = 36,
  kAny = 37,
  kSum = 38,
  // Only in programs.
  kConstant = 39,            // push constants[argument]
  kLoad = 40,                // push slot argument
  kJump = 41,                // to argument
  kJumpIfFalseElsePop = 42,  // `and`: keep a false operand and jump, else drop it
  kJumpIfTrueElsePop = 43,   // `or`
  kPopJumpIfFalse = 44,      // conditional expression
  kChain = 45,               // a comparison (sub) inside a chain: [a b] becomes [b], or [False] and a jump
  kReduce = 46,              // min or max (sub) of the upper `argument` operands, all evaluated before any is compared
  kInBegin = 47,             // push the "found" mark
  kInElement = 48,           // [x found element] becomes [x found']
  kInEnd = 49,               // [x found] becomes [found], or [not found] where sub is kNotIn
};
inline constexpr int kOps = 50;
static_assert(static_cast<int>(Op::kInEnd) + 1 == kOps && static_cast<int>(Op::kConstant) == 39);

// Whether an operation takes one operand off the stack.
inline bool IsUnary(Op op) {
  return (op >= Op::kNegate && op <= Op::kNot) || op == Op::kAbs || (op >= Op::kToInt && op <= Op::kRound);
}

// Strings are never made at run time, so a cell points to one that a constant or a slot owns.
struct Cell {
  ValueType type;         // not initialised: an evaluation starts with a stack of cells
  uint32_t string_bytes;  // of a string
  union {
    int64_t int_value;  // also 0 or 1 of a bool
    double float_value;
    const char* string_value;  // not ended by a zero byte
  };

  static Cell Int(int64_t value) { return Cell{ValueType::kInt, 0, {.int_value = value}}; }
  static Cell Bool(bool value) { return Cell{ValueType::kBool, 0, {.int_value = value ? 1 : 0}}; }
  static Cell Float(double value) { return Cell{ValueType::kFloat, 0, {.float_value = value}}; }
  // Valid while the bytes are.
  static Cell String(const char* text, uint32_t bytes) {
    return Cell{ValueType::kString, bytes, {.string_value = text}};
  }

  bool is_integral() const { return type == ValueType::kInt || type == ValueType::kBool; }
  bool Truth() const {
    if (type == ValueType::kFloat) return float_value != 0;
    if (type == ValueType::kString) return string_bytes != 0;
    return int_value != 0;
  }
};
static_assert(sizeof(Cell) == 16);

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

struct Instruction {
  Op op = Op::kConstant;
  Op sub = Op::kAdd;     // the comparison of kChain, kIn or kNotIn of kInEnd
  uint16_t column = 1;   // where an error is shown
  uint16_t derived = 0;  // 1 + index into derived_names when the instruction stems from a derived name
  int32_t argument = 0;  // constant index, slot or jump target
};

// Cells that a program may have on its stack.
inline constexpr int kStackMax = 512;

// Where and why an evaluation stopped.
struct Failure {
  Fault fault = Fault::kNone;
  int at = 0;                // index of the instruction
  Cell left = Cell::Int(0);  // the operands; `right` of a unary operation is unused
  Cell right = Cell::Int(0);
};

// Runs code[pc, end); the one value left is the result. `load(slot)` gives the cell of a slot.
template <typename Load>
bool Run(const Instruction* code, int pc, int end, const Cell* constants, const Load& load, Cell* result,
         Failure* failure) {
  Cell stack[kStackMax];
  int top = -1;
  while (pc < end) {
    const Instruction& instruction = code[pc];
    int next = pc + 1;
    switch (instruction.op) {
      case Op::kConstant:
        stack[++top] = constants[instruction.argument];
        break;
      case Op::kLoad:
        stack[++top] = load(instruction.argument);
        break;
      case Op::kJump:
        next = instruction.argument;
        break;
      case Op::kJumpIfFalseElsePop:
      case Op::kJumpIfTrueElsePop:
        if (stack[top].Truth() == (instruction.op == Op::kJumpIfTrueElsePop)) {
          next = instruction.argument;
        } else {
          --top;
        }
        break;
      case Op::kPopJumpIfFalse:
        if (!stack[top--].Truth()) next = instruction.argument;
        break;
      case Op::kInBegin:
        stack[++top] = Cell::Bool(false);
        break;
      case Op::kInElement: {
        Cell equal = Cell::Bool(false);
        Binary(Op::kEqual, stack[top - 2], stack[top], &equal);  // never fails
        --top;
        if (equal.int_value != 0) stack[top] = Cell::Bool(true);
        break;
      }
      case Op::kInEnd:
        stack[top - 1] = Cell::Bool((stack[top].int_value != 0) == (instruction.sub == Op::kIn));
        --top;
        break;
      case Op::kChain: {
        Cell holds = Cell::Bool(false);
        const Fault fault = Binary(instruction.sub, stack[top - 1], stack[top], &holds);
        if (fault != Fault::kNone) {
          *failure = {fault, pc, stack[top - 1], stack[top]};
          return false;
        }
        --top;
        if (holds.int_value == 0) {
          stack[top] = holds;
          next = instruction.argument;
        } else {
          stack[top] = stack[top + 1];
        }
        break;
      }
      case Op::kReduce: {
        top -= instruction.argument - 1;
        for (int i = 1; i < instruction.argument; ++i) {
          const Fault fault = Binary(instruction.sub, Cell(stack[top]), stack[top + i], &stack[top]);
          if (fault == Fault::kNone) continue;
          *failure = {fault, pc, stack[top], stack[top + i]};
          return false;
        }
        break;
      }
      default: {
        const bool is_unary = IsUnary(instruction.op);
        if (!is_unary) --top;
        const Fault fault = is_unary ? Unary(instruction.op, stack[top], &stack[top])
                                     : Binary(instruction.op, Cell(stack[top]), stack[top + 1], &stack[top]);
        if (fault != Fault::kNone) {
          *failure = {fault, pc, stack[top], is_unary ? stack[top] : stack[top + 1]};
          return false;
        }
        break;
      }
    }
    pc = next;
  }
  *result = stack[0];
  return true;
}

}  // namespace tunefarm::expression
