#include <fmt/core.h>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/expression/expression_internal.h"

namespace tunefarm {
namespace expression {
namespace {

// Where and why an evaluation stopped.
struct Failure {
  Fault fault = Fault::kNone;
  int at = 0;                // index of the instruction
  Cell left = Cell::Int(0);  // the operands; `right` of a unary operation is unused
  Cell right = Cell::Int(0);
};

bool IsUnary(Op op) {
  return (op >= Op::kNegate && op <= Op::kNot) || op == Op::kAbs || (op >= Op::kToInt && op <= Op::kRound);
}

Cell LoadSlot(const Value* slots, int slot) { return Cell::Of(slots[slot]); }
Cell LoadSlot(const Value* const* slots, int slot) { return Cell::Of(*slots[slot]); }

// Runs code[pc, end); the one value left is the result.
template <typename Slots>
bool Run(const Expression::Program& program, int pc, int end, Slots slots, Cell* result, Failure* failure) {
  Cell stack[kStackMax];
  int top = -1;
  const Instruction* const code = program.code.data();
  while (pc < end) {
    const Instruction& instruction = code[pc];
    int next = pc + 1;
    switch (instruction.op) {
      case Op::kConstant:
        stack[++top] = program.constant_cells[instruction.argument];
        break;
      case Op::kLoad:
        stack[++top] = LoadSlot(slots, instruction.argument);
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
        if (equal.int_value != 0) stack[top].int_value = 1;
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

std::string TypeName(const Cell& cell) { return std::string(ValueTypeName(cell.type)); }

std::string Describe(const Instruction& instruction, const Failure& failure) {
  const bool has_sub = instruction.op == Op::kChain || instruction.op == Op::kReduce;
  const Op op = has_sub ? instruction.sub : instruction.op;
  const std::string left = failure.left.ToValue().ToLiteral();
  const std::string right = failure.right.ToValue().ToLiteral();
  const bool is_function = FindFunction(OpText(op)) != nullptr;
  std::string operation;
  if (IsUnary(op)) {
    operation = is_function ? fmt::format("{}({})", OpText(op), left) : fmt::format("{}{}", OpText(op), left);
  } else {
    operation = is_function ? fmt::format("{}({}, {})", OpText(op), left, right)
                            : fmt::format("{} {} {}", left, OpText(op), right);
  }
  switch (failure.fault) {
    case Fault::kDivisionByZero:
      return fmt::format("division by zero in {}", operation);
    case Fault::kOverflow:
      return fmt::format("overflow: {} does not fit in {}", operation,
                         op == Op::kPower && !(failure.left.is_integral() && failure.right.is_integral() &&
                                               failure.right.int_value >= 0)
                             ? "a double"
                             : "64 bits");
    case Fault::kDomain:
      return fmt::format("{} has no real value", operation);
    case Fault::kNegativeShift:
      return fmt::format("negative shift count in {}", operation);
    case Fault::kType:
    case Fault::kNone:
      break;
  }
  if (IsUnary(op)) return fmt::format("{} cannot be applied to a {}", OpText(op), TypeName(failure.left));
  return fmt::format("{} cannot be applied to {} and {}", OpText(op), TypeName(failure.left), TypeName(failure.right));
}

template <typename Slots>
absl::StatusOr<Value> EvaluateProgram(const Expression::Program& program, Slots slots) {
  Cell result = Cell::Int(0);
  Failure failure;
  const int end = static_cast<int>(program.code.size());
  if (Run(program, 0, end, slots, &result, &failure)) return result.ToValue();
  const Instruction& instruction = program.code[failure.at];
  std::string message = Describe(instruction, failure);
  if (instruction.derived != 0) {
    message += fmt::format(" (in the derived name '{}')", program.derived_names[instruction.derived - 1]);
  }
  return ErrorAt(program.text, instruction.column, message);
}

absl::Status WrongType(const std::string& text, std::string_view wanted, const Value& value, std::string_view advice) {
  return ErrorAt(text, 1,
                 fmt::format("the result must be {}, but is the {} {}{}", wanted, ValueTypeName(value.type()),
                             value.ToLiteral(), advice));
}

absl::StatusOr<bool> ToBool(const std::string& text, absl::StatusOr<Value> value) {
  RETURN_IF_ERROR(value.status());
  if (value->is_string()) return WrongType(text, "a bool", *value, "");
  return Cell::Of(*value).Truth();
}

}  // namespace

bool RunConstant(const Expression::Program& program, int begin, int end, Cell* result) {
  Failure failure;
  return Run(program, begin, end, static_cast<const Value*>(nullptr), result, &failure);
}

std::string_view OpText(Op op) {
  static constexpr std::string_view kTexts[] = {
      "+",     "-",    "*",    "/",       "//",    "%",     "**",  "&",        "|",        "^",
      "<<",    ">>",   "==",   "!=",      "<",     "<=",    ">",   ">=",       "in",       "not in",
      "-",     "+",    "~",    "not ",    "min",   "max",   "abs", "ceil_div", "round_up", "int",
      "float", "bool", "log2", "is_pow2", "round", "round", "all", "any",      "sum"};
  const size_t index = static_cast<size_t>(op);
  return index < std::size(kTexts) ? kTexts[index] : "?";
}

}  // namespace expression

absl::StatusOr<Expression> Expression::Compile(std::string_view text, const SymbolTable& symbols) {
  ASSIGN_OR_RETURN(std::shared_ptr<const Program> program, expression::CompileProgram(text, symbols));
  return Expression(std::move(program));
}

absl::StatusOr<Value> Expression::Evaluate(const Value* slots) const {
  return expression::EvaluateProgram(*program_, slots);
}

absl::StatusOr<Value> Expression::Evaluate(const Value* const* slots) const {
  return expression::EvaluateProgram(*program_, slots);
}

absl::StatusOr<int64_t> Expression::EvaluateInt(const Value* slots) const {
  ASSIGN_OR_RETURN(const Value value, Evaluate(slots));
  if (value.is_int()) return value.int_value();
  if (value.is_bool()) return value.bool_value() ? 1 : 0;
  return expression::WrongType(text(), "an int", value, value.is_float() ? "; use // or int()" : "");
}

absl::StatusOr<double> Expression::EvaluateFloat(const Value* slots) const {
  ASSIGN_OR_RETURN(const Value value, Evaluate(slots));
  if (value.is_float()) return value.float_value();
  if (value.is_int()) return static_cast<double>(value.int_value());
  if (value.is_bool()) return value.bool_value() ? 1.0 : 0.0;
  return expression::WrongType(text(), "a number", value, "");
}

absl::StatusOr<bool> Expression::EvaluateBool(const Value* slots) const {
  return expression::ToBool(text(), Evaluate(slots));
}

absl::StatusOr<bool> Expression::EvaluateBool(const Value* const* slots) const {
  return expression::ToBool(text(), Evaluate(slots));
}

std::optional<bool> Expression::Holds(const Value* const* slots) const {
  expression::Cell result = expression::Cell::Int(0);
  expression::Failure failure;
  const int end = static_cast<int>(program_->code.size());
  if (!expression::Run(*program_, 0, end, slots, &result, &failure)) return std::nullopt;
  if (result.type == ValueType::kString) return std::nullopt;
  return result.Truth();
}

absl::StatusOr<std::string> Expression::EvaluateString(const Value* slots) const {
  ASSIGN_OR_RETURN(const Value value, Evaluate(slots));
  if (value.is_string()) return value.string_value();
  return expression::WrongType(text(), "a string", value, "");
}

const std::vector<int>& Expression::Variables() const { return program_->variables; }
const std::string& Expression::text() const { return program_->text; }
std::optional<ValueType> Expression::result_type() const { return program_->result_type; }

}  // namespace tunefarm
