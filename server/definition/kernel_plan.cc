#include "server/definition/kernel_plan.h"

#include <fmt/core.h>

#include <algorithm>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/checker.h"
#include "server/definition/field_error.h"
#include "server/definition/macro_rules.h"
#include "server/definition/plan_impl.h"
#include "server/definition/value_proto.h"

namespace tunefarm {
namespace {

constexpr int64_t kGuardBytes = 2 * 64 * 1024;

}  // namespace

KernelPlan::KernelPlan(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

absl::StatusOr<std::shared_ptr<const KernelPlan>> KernelPlan::Compile(const v1::Kernel& kernel) {
  ASSIGN_OR_RETURN(std::shared_ptr<const Impl> impl, definition::CheckDefinition(kernel));
  return KernelPlanAccess::Make(std::move(impl));
}

DeviceKind DeviceKindOf(const v1::Kernel& kernel) {
  switch (kernel.language()) {
    case v1::LANGUAGE_HOST_CXX:
      return DeviceKind::kHost;
    case v1::LANGUAGE_PYTHON:
      return kernel.python().device() == v1::DEVICE_KIND_HOST ? DeviceKind::kHost : DeviceKind::kCuda;
    default:
      return DeviceKind::kCuda;
  }
}

const v1::Kernel& KernelPlan::kernel() const { return impl_->kernel; }
const std::string& KernelPlan::kernel_id() const { return impl_->kernel_id; }
const std::string& KernelPlan::program_digest() const { return impl_->program_digest; }
const std::string& KernelPlan::display_name() const { return impl_->kernel.display_name(); }
v1::Language KernelPlan::language() const { return impl_->kernel.language(); }
DeviceKind KernelPlan::device_kind() const { return DeviceKindOf(impl_->kernel); }

absl::StatusOr<ResolvedProblem> KernelPlan::ResolveProblem(const v1::Problem& problem) const {
  return definition::ResolveProblem(*impl_, problem);
}

absl::StatusOr<Space> KernelPlan::BuildSpace(const ResolvedProblem& problem, const DeviceClass& device,
                                             const SpaceOptions& options) const {
  if (device.kind != device_kind()) {
    return WithReason(InvalidArgument("kernel '{}' is written in {}, which {} does not run", display_name(),
                                      language() == v1::LANGUAGE_CUDA     ? "CUDA"
                                      : language() == v1::LANGUAGE_PYTHON ? "Python"
                                      : language() == v1::LANGUAGE_TRITON ? "Triton"
                                                                          : "C++ for the host",
                                      device.display_name.empty() ? "the device" : device.display_name),
                      definition::kDeviceMismatch);
  }
  SpaceDefinition space;
  for (const definition::ParameterPlan& plan : impl_->parameters) {
    Parameter parameter = plan.parameter;
    if (const Value* pinned = problem.pinned.Find(parameter.name); pinned != nullptr) {
      parameter.values = {*pinned};
      parameter.default_value = *pinned;
    }
    space.parameters.push_back(std::move(parameter));
  }
  for (const v1::Constraint& constraint : impl_->kernel.constraints()) {
    space.constraints.push_back(Rule{constraint.expression(), constraint.reason()});
  }
  for (const definition::DeviceRule& rule : impl_->device_rules) {
    space.device_rules.push_back(Rule{rule.text, definition::ReasonOf(rule, device)});
  }
  for (Config config : impl_->starting_configs) {
    for (const auto& [name, value] : problem.pinned) config.Set(name, value);
    space.starting_configs.push_back(std::move(config));
  }
  space.constants = device.Constants();
  for (const auto& [name, value] : problem.dims) space.constants.insert_or_assign(name, value);
  for (const definition::DerivedPlan& derived : impl_->derived) space.derived.emplace_back(derived.name, derived.text);
  return Space::Build(std::move(space), options);
}

Config KernelPlan::DefaultConfig(const ResolvedProblem& problem) const {
  Config declared;
  for (const definition::ParameterPlan& parameter : impl_->parameters) {
    declared.Set(parameter.parameter.name, *parameter.parameter.default_value);
  }
  if (problem.pinned.empty()) return declared;
  Config pinned = declared;
  for (const auto& [name, value] : problem.pinned) pinned.Set(name, value);
  return impl_->KeepsConstraints(problem, pinned) ? pinned : declared;
}

absl::StatusOr<Config> KernelPlan::ParseConfig(const v1::Config& config) const {
  Config parsed;
  // In most calls nothing is wrong: no text is made for an error that does not happen.
  for (const definition::ParameterPlan& parameter : impl_->parameters) {
    const std::string& name = parameter.parameter.name;
    const auto given = config.values().find(name);
    if (given == config.values().end()) return impl_->WhyNoConfig(config);
    auto value = definition::FromWritten(given->second, parameter.type);
    if (!value.ok() || parameter.texts.count(value->ToText()) == 0) return impl_->WhyNoConfig(config);
    parsed.Set(name, *std::move(value));
  }
  if (config.values().size() != impl_->parameters.size()) return impl_->WhyNoConfig(config);
  return parsed;
}

v1::Config KernelPlan::ToProto(const Config& config) const {
  v1::Config proto;
  for (const auto& [name, value] : config) (*proto.mutable_values())[name] = definition::ToProto(value);
  return proto;
}

absl::StatusOr<Config> KernelPlan::ConfigFromText(std::string_view text) const {
  ASSIGN_OR_RETURN(Config config, Config::FromText(text, impl_->parameter_types));
  const bool is_whole = std::all_of(impl_->parameters.begin(), impl_->parameters.end(), [&](const auto& parameter) {
    const Value* const value = config.Find(parameter.parameter.name);
    return value != nullptr && parameter.texts.count(value->ToText()) > 0;
  });
  if (!is_whole) return impl_->WhyNoConfig(ToProto(config));
  return config;
}

absl::StatusOr<std::vector<std::pair<std::string, std::string>>> KernelPlan::Constants(
    const ResolvedProblem& problem, const Config& config, const DeviceClass& device) const {
  const std::vector<Value> slots = impl_->Slots(problem, &config, &device, nullptr);
  std::map<std::string, std::string> macros;
  const bool literal = language() == v1::LANGUAGE_TRITON;
  const auto add = [&](const std::string& name, const Value& value) {
    if (literal) {
      macros[name] = value.ToLiteral();
      return;
    }
    if (value.is_bool()) {
      macros[name] = value.bool_value() ? "1" : "0";
      return;
    }
    macros[name] = value.ToText();
    if (value.is_string()) macros[definition::TokenMacro(name, value.string_value())] = "1";
  };
  for (size_t i = 0; i < impl_->dims.size(); ++i) {
    if (impl_->dims[i].compile) add(impl_->dims[i].name, slots[i]);
  }
  for (size_t i = 0; i < impl_->parameters.size(); ++i) {
    if (impl_->parameters[i].compile) add(impl_->parameters[i].parameter.name, slots[impl_->parameters_begin() + i]);
  }
  for (const definition::DerivedPlan& derived : impl_->derived) {
    if (!derived.compile) continue;
    ASSIGN_OR_RETURN(const Value value, definition::Evaluate(derived.formula, slots));
    if (value.is_string() && !definition::IsToken(value.string_value())) {
      return definition::FieldError(derived.formula.path, definition::kInvalidField,
                                    "{} is not 1 to 64 characters of [A-Za-z0-9_.+-], which a constant needs",
                                    value.ToLiteral());
    }
    if (value.is_string() && HasMacros(language())) {
      if (const std::string why = definition::WhyNoMacroValue(value.string_value()); !why.empty()) {
        return definition::FieldError(derived.formula.path, definition::kInvalidField, "{}", why);
      }
    }
    if (value.is_string() && !literal && macros.count(definition::TokenMacro(derived.name, value.string_value())) > 0) {
      return definition::FieldError(derived.formula.path, definition::kDuplicateName, "the macro '{}' is defined twice",
                                    definition::TokenMacro(derived.name, value.string_value()));
    }
    if (value.is_float() && value.ToText().find_first_of("n") != std::string::npos) {
      return definition::FieldError(derived.formula.path, definition::kValueOutOfRange, "{} is not a finite number",
                                    value.ToText());
    }
    add(derived.name, value);
  }
  return std::vector<std::pair<std::string, std::string>>(macros.begin(), macros.end());
}

absl::StatusOr<std::vector<std::pair<std::string, Value>>> KernelPlan::DerivedValues(const ResolvedProblem& problem,
                                                                                     const Config& config,
                                                                                     const DeviceClass& device) const {
  const std::vector<Value> slots = impl_->Slots(problem, &config, &device, nullptr);
  std::vector<std::pair<std::string, Value>> values;
  for (const definition::DerivedPlan& derived : impl_->derived) {
    ASSIGN_OR_RETURN(Value value, definition::Evaluate(derived.formula, slots));
    values.emplace_back(derived.name, std::move(value));
  }
  return values;
}

absl::StatusOr<std::vector<BufferPlan>> KernelPlan::Buffers(const ResolvedProblem& problem, const Config& config,
                                                            const DeviceClass& device) const {
  const std::vector<Value> slots = impl_->Slots(problem, &config, &device, nullptr);
  std::vector<BufferPlan> buffers;
  for (const definition::BufferFormula& formula : impl_->buffers) {
    ASSIGN_OR_RETURN(BufferPlan buffer, impl_->EvaluateBuffer(formula, problem, slots));
    buffers.push_back(std::move(buffer));
  }
  return buffers;
}

absl::StatusOr<int64_t> KernelPlan::FootprintBytes(const ResolvedProblem& problem, const Config& config,
                                                   const DeviceClass& device) const {
  ASSIGN_OR_RETURN(const std::vector<BufferPlan> buffers, Buffers(problem, config, device));
  int64_t total = 0;
  for (const BufferPlan& buffer : buffers) {
    int64_t copies = 1;
    if (buffer.access == v1::ACCESS_OUT || buffer.access == v1::ACCESS_INOUT) ++copies;  // What the reference wrote.
    if (buffer.access == v1::ACCESS_INOUT) ++copies;                                     // The pristine content.
    // At most 3 * (2^44 + 2^17) for each of 64 buffers: no overflow.
    total += copies * (buffer.bytes() + (buffer.is_constant_symbol ? 0 : kGuardBytes));
  }
  return total;
}

absl::StatusOr<std::vector<StepPlan>> KernelPlan::Steps(Sequence sequence, const ResolvedProblem& problem,
                                                        const Config& config, const DeviceClass& device,
                                                        const std::map<std::string, LoadedEntry>* loaded,
                                                        const ActiveBlocks& active_blocks) const {
  return definition::EvaluateSteps(*impl_, sequence, problem, config, device, loaded, active_blocks);
}

std::vector<std::string> KernelPlan::Entries(Sequence sequence) const {
  std::vector<std::string> entries;
  const auto formulas = impl_->sequences.find(sequence);
  if (formulas == impl_->sequences.end()) return entries;
  for (const definition::StepFormula& formula : formulas->second) {
    if (formula.kind != StepPlan::Kind::kKernel) continue;
    const std::string& entry = formula.step.kernel().entry();
    if (std::find(entries.begin(), entries.end(), entry) == entries.end()) entries.push_back(entry);
  }
  return entries;
}

bool KernelPlan::HasSequence(Sequence sequence) const {
  const auto formulas = impl_->sequences.find(sequence);
  return formulas != impl_->sequences.end() && !formulas->second.empty();
}

absl::Status KernelPlan::CheckProblem(const ResolvedProblem& problem, const DeviceClass& device) const {
  return definition::CheckProblem(*impl_, problem, DefaultConfig(problem), device);
}

absl::Status KernelPlan::CheckDataFiles(const ResolvedProblem& problem) const {
  return definition::CheckDataFiles(*impl_, problem);
}

absl::StatusOr<std::string> KernelPlan::FirstBrokenDeviceLimit(const ResolvedProblem& problem, const Config& config,
                                                               const DeviceClass& device) const {
  return definition::FirstBrokenDeviceLimit(*impl_, problem, config, device);
}

TolerancePlan KernelPlan::Tolerance(const ResolvedProblem& problem) const {
  // ResolveProblem has evaluated it once, so that this cannot fail for its problems.
  return impl_->EvaluateTolerance(impl_->Slots(problem, nullptr, nullptr, nullptr)).value_or(TolerancePlan());
}

double KernelPlan::Flops(const ResolvedProblem& problem, const Config& config, const DeviceClass& device) const {
  if (!impl_->flops.has_value()) return 0;
  return definition::EvaluateFloat(*impl_->flops, impl_->Slots(problem, &config, &device, nullptr)).value_or(0);
}

std::string KernelPlan::FlopsUnit(const ResolvedProblem& problem) const {
  if (!impl_->flops_unit.has_value()) return "fp32";
  return definition::EvaluateString(*impl_->flops_unit, impl_->Slots(problem, nullptr, nullptr, nullptr))
      .value_or("fp32");
}

double KernelPlan::Bytes(const ResolvedProblem& problem, const Config& config, const DeviceClass& device) const {
  if (!impl_->bytes.has_value()) return 0;
  return definition::EvaluateFloat(*impl_->bytes, impl_->Slots(problem, &config, &device, nullptr)).value_or(0);
}

}  // namespace tunefarm
