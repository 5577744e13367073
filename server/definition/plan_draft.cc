#include "server/definition/plan_draft.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "server/base/status_macros.h"
#include "server/definition/field_error.h"

namespace tunefarm::definition {

PlanDraft::PlanDraft(const v1::Kernel& definition) : plan(std::make_shared<KernelPlanAccess::Impl>()) {
  plan->kernel = definition;
  plan->kernel.clear_name();
  plan->kernel.clear_program_digest();
  // Fields of a newer client mean nothing to this build and must not be stored as if they did.
  plan->kernel.DiscardUnknownFields();
}

bool PlanDraft::Note(const absl::Status& status) {
  if (status.ok()) return true;
  const std::string reason = tunefarm::ReasonOf(status);
  if (reason == kUnknownName || reason == kUnknownDim || reason == kUnknownParameter) {
    // The name is the first word in quotes of all these messages.
    const std::string_view message = MessageOf(status);
    const size_t open = message.find('\'');
    const size_t close = open == std::string_view::npos ? open : message.find('\'', open + 1);
    if (close != std::string_view::npos && broken.count(message.substr(open + 1, close - open - 1)) > 0) return false;
  }
  errors.push_back(status);
  return false;
}

Uses PlanDraft::UseOf(int slot) const {
  const auto index = static_cast<size_t>(slot);
  if (index < plan->parameters_begin()) return plan->dims[index].inputs_only ? kUsesInputs : kUsesDims;
  if (index < plan->device_begin()) return kUsesParameters;
  return index < plan->kernel_begin() ? kUsesDevice : kUsesKernel;
}

absl::Status PlanDraft::CheckUses(const std::string& path, const Formula& formula, const Context& context) const {
  const Uses forbidden = formula.uses & ~context.allowed;
  if (forbidden == 0) return absl::OkStatus();
  const std::string& text = formula.expression.text();
  std::string name;
  std::string_view kind, rule = context.rule;
  for (const int slot : formula.expression.Variables()) {
    const Uses use = UseOf(slot);
    if ((use & forbidden) == 0) continue;
    name = symbols.SlotName(slot);
    kind = use == kUsesParameters ? "a parameter"
           : use == kUsesDevice   ? "a property of the device"
           : use == kUsesInputs   ? "a dim with inputs_only"
                                  : "of the loaded kernel";
    if (use == kUsesInputs) rule = kInputsRule;
    break;
  }
  // The name itself, or else it came in through a derived value and the whole expression is shown.
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.'; };
  int column = 0;
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    const bool starts = at == 0 || !is_word(text[at - 1]);
    const bool ends = at + name.size() == text.size() || !is_word(text[at + name.size()]);
    if (starts && ends) {
      column = static_cast<int>(at) + 1;
      break;
    }
  }
  const std::string_view through = column == 0 ? ", and a derived value here uses it" : "";
  return ExpressionErrorAt(path, text, std::max(column, 1), kExpressionError,
                           fmt::format("'{}' is {}{}; {}", name, kind, through, rule));
}

absl::StatusOr<Formula> PlanDraft::CompileFormula(const std::string& path, const std::string& text,
                                                  const Context& context, Result result) const {
  if (text.empty()) return FieldError(path, kMissingField, "an expression is missing");
  auto expression = Expression::Compile(text, symbols);
  if (!expression.ok()) return ExpressionError(path, expression.status());
  Formula formula{path, *std::move(expression), 0};
  for (const int slot : formula.expression.Variables()) formula.uses |= UseOf(slot);
  RETURN_IF_ERROR(CheckUses(path, formula, context));
  const auto type = formula.expression.result_type();
  if (!type.has_value() || result == Result::kAny) return formula;
  const auto error = [&](std::string_view message) { return ExpressionErrorAt(path, text, 1, kTypeMismatch, message); };
  if (result == Result::kString) {
    if (*type != ValueType::kString)
      return error(fmt::format("the result is of type {}, not string", ValueTypeName(*type)));
    return formula;
  }
  if (*type == ValueType::kString) return error("the result is a string, not a number");
  if (result == Result::kInt && *type == ValueType::kFloat) {
    return error("the result is a float, not an int; write // instead of /, or int()");
  }
  return formula;
}

absl::StatusOr<std::optional<Formula>> PlanDraft::CompileOptional(const std::string& path, const std::string& text,
                                                                  const Context& context, Result result) const {
  if (text.empty()) return std::optional<Formula>();
  ASSIGN_OR_RETURN(Formula formula, CompileFormula(path, text, context, result));
  return std::optional<Formula>(std::move(formula));
}

std::string PlanDraft::InputsDimOf(const Formula& formula) const {
  if ((formula.uses & kUsesInputs) == 0) return {};
  for (const int slot : formula.expression.Variables()) {
    if (UseOf(slot) == kUsesInputs) return std::string(symbols.SlotName(slot));
  }
  return {};
}

absl::StatusOr<const BufferFormula*> PlanDraft::FindBuffer(const std::string& path, const std::string& name) const {
  if (name.empty()) return FieldError(path, kMissingField, "the name of a buffer is missing");
  std::vector<std::string> candidates;
  for (const BufferFormula& buffer : plan->buffers) {
    if (buffer.is_constant_symbol) continue;
    if (buffer.name == name) return &buffer;
    candidates.push_back(buffer.name);
  }
  return FieldError(path, kUnknownName, "there is no buffer '{}'{}", name, DidYouMean(name, candidates));
}

}  // namespace tunefarm::definition
