// The inside of a plan: its names, values of slots, and of the formulas that are not launches: buffers, tolerance.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/data_type.h"
#include "server/definition/field_error.h"
#include "server/definition/plan_impl.h"
#include "server/definition/value_proto.h"
#include "server/driver_step/buffer_limit.h"

namespace tunefarm {
namespace definition {
namespace {

constexpr int64_t kConstantBytesMax = 64 * 1024;

template <typename T>
absl::StatusOr<T> Located(const Formula& formula, absl::StatusOr<T> value) {
  if (!value.ok()) return ExpressionError(formula.path, value.status());
  return value;
}

}  // namespace

absl::StatusOr<int64_t> EvaluateInt(const Formula& formula, const std::vector<Value>& slots) {
  return Located(formula, formula.expression.EvaluateInt(slots.data()));
}
absl::StatusOr<double> EvaluateFloat(const Formula& formula, const std::vector<Value>& slots) {
  return Located(formula, formula.expression.EvaluateFloat(slots.data()));
}
absl::StatusOr<bool> EvaluateBool(const Formula& formula, const std::vector<Value>& slots) {
  return Located(formula, formula.expression.EvaluateBool(slots.data()));
}
absl::StatusOr<std::string> EvaluateString(const Formula& formula, const std::vector<Value>& slots) {
  return Located(formula, formula.expression.EvaluateString(slots.data()));
}
absl::StatusOr<Value> Evaluate(const Formula& formula, const std::vector<Value>& slots) {
  return Located(formula, formula.expression.Evaluate(slots.data()));
}

std::string DimPlan::WhyNot(const Value& value) const {
  if (!values.empty()) {
    if (std::find(values.begin(), values.end(), value) != values.end()) return {};
    std::string list;
    for (const Value& allowed : values) list += fmt::format("{}{}", list.empty() ? "" : ", ", allowed.ToLiteral());
    return fmt::format("{} is not one of {}", value.ToLiteral(), list);
  }
  if (type != ValueType::kInt || (value.int_value() >= min && value.int_value() <= max)) return {};
  return fmt::format("{} is not between {} and {}", value.int_value(), min, max);
}

}  // namespace definition

using definition::BufferFormula;

int KernelPlan::Impl::DimIndex(std::string_view name) const {
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

int KernelPlan::Impl::ParameterIndex(std::string_view name) const {
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].parameter.name == name) return static_cast<int>(i);
  }
  return -1;
}

const BufferFormula* KernelPlan::Impl::FindBuffer(std::string_view name) const {
  for (const BufferFormula& buffer : buffers) {
    if (buffer.name == name) return &buffer;
  }
  return nullptr;
}

absl::Status KernelPlan::Impl::WhyNoConfig(const v1::Config& config) const {
  // A map has no order; the first error must not depend on it.
  std::vector<std::string> given;
  for (const auto& [name, value] : config.values()) given.push_back(name);
  std::sort(given.begin(), given.end());
  std::vector<std::string> names;
  for (const definition::ParameterPlan& parameter : parameters) names.push_back(parameter.parameter.name);
  for (const std::string& name : given) {
    const std::string path = fmt::format("values[\"{}\"]", name.substr(0, 64));
    const int index = ParameterIndex(name);
    if (index < 0) {
      return definition::FieldError(path, definition::kUnknownParameter, "kernel '{}' has no parameter '{}'{}",
                                    kernel.display_name(), name.substr(0, 64), definition::DidYouMean(name, names));
    }
    const definition::ParameterPlan& parameter = parameters[static_cast<size_t>(index)];
    auto value = definition::FromWritten(config.values().at(name), parameter.type);
    if (!value.ok()) return definition::FieldError(path, definition::kTypeMismatch, "{}", MessageOf(value.status()));
    if (parameter.texts.count(value->ToText()) == 0) {
      return definition::FieldError(path, definition::kValueOutOfRange, "{} is not one of the values of parameter '{}'",
                                    value->ToLiteral(), name);
    }
  }
  for (const std::string& name : names) {
    if (config.values().count(name) > 0) continue;
    return definition::FieldError("values", definition::kMissingField, "the config gives parameter '{}' no value",
                                  name);
  }
  return Internal("the config of kernel '{}' is refused for no reason", kernel.display_name());
}

bool KernelPlan::Impl::KeepsConstraints(const ResolvedProblem& problem, const Config& config) const {
  const std::vector<Value> slots = Slots(problem, &config, nullptr, nullptr);
  return std::all_of(constraints.begin(), constraints.end(), [&](const definition::Formula& constraint) {
    if ((constraint.uses & definition::kUsesDevice) != 0) return true;
    const absl::StatusOr<bool> holds = definition::EvaluateBool(constraint, slots);
    return holds.ok() && *holds;
  });
}

std::vector<Value> KernelPlan::Impl::DimSlots(const ResolvedProblem& problem) const {
  std::vector<Value> slots;
  slots.reserve(dims.size());
  for (const definition::DimPlan& dim : dims) {
    const Value* value = problem.dims.Find(dim.name);
    slots.push_back(value != nullptr ? *value : dim.default_value.value_or(Value()));
  }
  return slots;
}

std::vector<Value> KernelPlan::Impl::Slots(const ResolvedProblem& problem, const Config* config,
                                           const DeviceClass* device, const LoadedEntry* loaded) const {
  std::vector<Value> slots = DimSlots(problem);
  slots.reserve(slot_count());
  for (const definition::ParameterPlan& parameter : parameters) {
    const Value* value = config == nullptr ? nullptr : config->Find(parameter.parameter.name);
    slots.push_back(value != nullptr ? *value : *parameter.parameter.default_value);
  }
  // In the order of device_names: both are sorted by name.
  if (device == nullptr) {
    slots.resize(kernel_begin());
  } else {
    for (Value& value : device->ConstantValues()) slots.push_back(std::move(value));
  }
  const LoadedEntry entry = loaded == nullptr ? LoadedEntry() : *loaded;
  slots.emplace_back(entry.max_active_blocks);
  slots.emplace_back(entry.registers);
  slots.emplace_back(entry.static_shared_bytes);
  return slots;
}

absl::StatusOr<TolerancePlan> KernelPlan::Impl::EvaluateTolerance(const std::vector<Value>& slots) const {
  for (const definition::ToleranceFormula& candidate : tolerances) {
    if (candidate.when.has_value()) {
      ASSIGN_OR_RETURN(const bool holds, definition::EvaluateBool(*candidate.when, slots));
      if (!holds) continue;
    }
    TolerancePlan tolerance = candidate.fixed;
    if (candidate.row_length.has_value()) {
      ASSIGN_OR_RETURN(tolerance.row_length, definition::EvaluateInt(*candidate.row_length, slots));
      if (tolerance.row_length < 1) {
        return definition::FieldError(candidate.row_length->path, definition::kValueOutOfRange,
                                      "{} elements per row; at least 1 is needed", tolerance.row_length);
      }
    }
    return tolerance;
  }
  return TolerancePlan();
}

absl::StatusOr<definition::BufferSize> KernelPlan::Impl::EvaluateBufferSize(const BufferFormula& buffer,
                                                                            const ResolvedProblem& problem,
                                                                            const std::vector<Value>& slots) const {
  definition::BufferSize size;
  size.type = buffer.type;
  if (!buffer.type_dim.empty()) {
    const Value* type = problem.dims.Find(buffer.type_dim);
    const auto named = type != nullptr && type->is_string() ? DataTypeOfDim(type->string_value()) : std::nullopt;
    if (!named.has_value()) {
      return definition::FieldError(buffer.path + ".data_type_dim", definition::kTypeMismatch,
                                    "the problem gives dim '{}' no data type", buffer.type_dim);
    }
    size.type = *named;
  }
  ASSIGN_OR_RETURN(size.length, definition::EvaluateInt(*buffer.length, slots));
  if (size.length < 1) {
    return definition::FieldError(buffer.length->path, definition::kValueOutOfRange,
                                  "buffer '{}' has {} elements; at least 1 is needed", buffer.name, size.length);
  }
  const int64_t bytes_max = buffer.is_constant_symbol ? definition::kConstantBytesMax : driver_step::kBufferBytesMax;
  if (size.length > bytes_max / static_cast<int64_t>(SizeOf(size.type))) {
    return definition::FieldError(buffer.length->path, definition::kLimitExceeded,
                                  "'{}' has {} elements of {}; at most {} bytes are allowed", buffer.name, size.length,
                                  NameOf(size.type), bytes_max);
  }
  if (buffer.fill.has_normal() && !IsFloatType(size.type)) {
    return definition::FieldError(buffer.path + ".fill.normal", definition::kTypeMismatch,
                                  "normal fills are for floats, but '{}' is {} in this problem", buffer.name,
                                  NameOf(size.type));
  }
  if (const std::optional<double> beyond = definition::BeyondF8E4M3(size.type, buffer.fill)) {
    return definition::FieldError(buffer.path + ".fill", definition::kValueOutOfRange,
                                  "'{}' is {} in this problem, whose values are from {} to {}, not {}", buffer.name,
                                  NameOf(size.type), -driver_step::kF8E4M3Largest, driver_step::kF8E4M3Largest,
                                  *beyond);
  }
  if (!buffer.index_limit.has_value()) return size;
  if (IsFloatType(size.type)) {
    return definition::FieldError(buffer.index_limit->path, definition::kTypeMismatch,
                                  "an index is an integer, and '{}' is {} in this problem", buffer.name,
                                  NameOf(size.type));
  }
  ASSIGN_OR_RETURN(size.index_limit, definition::EvaluateInt(*buffer.index_limit, slots));
  if (*size.index_limit < 1) {
    return definition::FieldError(buffer.index_limit->path, definition::kValueOutOfRange,
                                  "the limit of buffer '{}' is {}; no index is below it", buffer.name,
                                  *size.index_limit);
  }
  return size;
}

absl::StatusOr<BufferPlan> KernelPlan::Impl::EvaluateBuffer(const BufferFormula& buffer, const ResolvedProblem& problem,
                                                            const std::vector<Value>& slots) const {
  ASSIGN_OR_RETURN(const definition::BufferSize size, EvaluateBufferSize(buffer, problem, slots));
  BufferPlan plan;
  plan.name = buffer.name;
  plan.type = size.type;
  plan.length = size.length;
  plan.access = buffer.access;
  plan.init = buffer.init;
  plan.restore = buffer.restore;
  plan.fill = buffer.fill;
  if (plan.init == v1::INIT_FILL && plan.fill.kind_case() == v1::Fill::KIND_NOT_SET) {
    plan.fill = definition::DefaultFill(plan.type);
  }
  plan.index_limit = size.index_limit;
  plan.expected = buffer.expected;
  plan.is_constant_symbol = buffer.is_constant_symbol;
  plan.symbol = buffer.symbol;
  return plan;
}

}  // namespace tunefarm
