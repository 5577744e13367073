#include <fmt/core.h>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/expression/expression_internal.h"

namespace tunefarm {
namespace expression {
namespace {

Cell LoadSlot(const Value* slots, int slot) { return CellOf(slots[slot]); }
Cell LoadSlot(const Value* const* slots, int slot) { return CellOf(*slots[slot]); }

template <typename Slots>
bool RunProgram(const Expression::Program& program, int begin, int end, Slots slots, Cell* result, Failure* failure) {
  return Run(
      program.code.data(), begin, end, program.constant_cells.data(),
      [slots](int slot) { return LoadSlot(slots, slot); }, result, failure);
}

std::string TypeName(const Cell& cell) { return std::string(ValueTypeName(cell.type)); }

std::string Describe(const Instruction& instruction, const Failure& failure) {
  const bool has_sub = instruction.op == Op::kChain || instruction.op == Op::kReduce;
  const Op op = has_sub ? instruction.sub : instruction.op;
  const std::string left = ValueOf(failure.left).ToLiteral();
  const std::string right = ValueOf(failure.right).ToLiteral();
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
  if (IsUnary(op)) return fmt::format("{} cannot be applied to {}", OpText(op), TypeName(failure.left));
  return fmt::format("{} cannot be applied to {} and {}", OpText(op), TypeName(failure.left), TypeName(failure.right));
}

template <typename Slots>
absl::StatusOr<Value> EvaluateProgram(const Expression::Program& program, Slots slots) {
  Cell result = Cell::Int(0);
  Failure failure;
  const int end = static_cast<int>(program.code.size());
  if (RunProgram(program, 0, end, slots, &result, &failure)) return ValueOf(result);
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
  return CellOf(*value).Truth();
}

}  // namespace

Cell CellOf(const Value& value) {
  switch (value.type()) {
    case ValueType::kBool:
      return Cell::Bool(value.bool_value());
    case ValueType::kInt:
      return Cell::Int(value.int_value());
    case ValueType::kFloat:
      return Cell::Float(value.float_value());
    case ValueType::kString:
      break;
  }
  return Cell::String(value.string_value().data(), static_cast<uint32_t>(value.string_value().size()));
}

Value ValueOf(const Cell& cell) {
  switch (cell.type) {
    case ValueType::kBool:
      return Value(cell.int_value != 0);
    case ValueType::kInt:
      return Value(cell.int_value);
    case ValueType::kFloat:
      return Value(cell.float_value);
    case ValueType::kString:
      break;
  }
  return Value(std::string(cell.string_value, cell.string_bytes));
}

bool RunConstant(const Expression::Program& program, int begin, int end, Cell* result) {
  Failure failure;
  return RunProgram(program, begin, end, static_cast<const Value*>(nullptr), result, &failure);
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
  if (!expression::RunProgram(*program_, 0, end, slots, &result, &failure)) return std::nullopt;
  if (result.type == ValueType::kString) return std::nullopt;
  return result.Truth();
}

absl::StatusOr<std::string> Expression::EvaluateString(const Value* slots) const {
  ASSIGN_OR_RETURN(const Value value, Evaluate(slots));
  if (value.is_string()) return value.string_value();
  return expression::WrongType(text(), "a string", value, "");
}

ExportedProgram Expression::Export() const {
  ExportedProgram exported;
  exported.code.reserve(program_->code.size());
  for (const expression::Instruction& instruction : program_->code) {
    exported.code.push_back(
        {static_cast<uint16_t>(instruction.op), static_cast<uint16_t>(instruction.sub), instruction.argument});
  }
  exported.constants.assign(program_->constants.begin(), program_->constants.end());
  return exported;
}

const std::vector<int>& Expression::Variables() const { return program_->variables; }
const std::string& Expression::text() const { return program_->text; }
std::optional<ValueType> Expression::result_type() const { return program_->result_type; }

}  // namespace tunefarm
