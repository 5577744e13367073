// Launches for one problem and config: every expression evaluated.
#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/data_type.h"
#include "server/definition/field_error.h"
#include "server/definition/plan_impl.h"
#include "server/driver_step/tensor_map.h"

namespace tunefarm::definition {
namespace {

using driver_step::kTensorBoxMax;
using driver_step::kTensorElementStrideMax;
using driver_step::kTensorExtentMax;
using driver_step::kTensorStrideMax;
using Slots = std::vector<Value>;

absl::StatusOr<ScalarPlan> EvaluateScalar(std::string_view name, const ScalarFormula& formula, const Slots& slots) {
  ASSIGN_OR_RETURN(const Value value, Evaluate(*formula.value, slots));
  auto encoded = EncodeScalar(formula.type, value);
  if (encoded.ok()) {
    encoded->is_specialised = formula.is_specialised;
    return encoded;
  }
  return FieldError(formula.value->path, kValueOutOfRange, "argument '{}': {}", name, MessageOf(encoded.status()));
}

// A sequence being evaluated.
class Evaluation {
 public:
  Evaluation(const KernelPlanAccess::Impl& impl, const ResolvedProblem& problem,
             const std::map<std::string, LoadedEntry>* loaded, Slots slots)
      : impl_(impl), problem_(problem), loaded_(loaded), slots_(std::move(slots)) {}

  // nullopt when the step's `when` is false.
  absl::StatusOr<std::optional<StepPlan>> Step(const StepFormula& formula) {
    entry_ = formula.kind == StepPlan::Kind::kKernel ? formula.step.kernel().entry() : std::string();
    SetLoaded();
    if (formula.when.has_value()) {
      RETURN_IF_ERROR(CheckLoaded(*formula.when));
      ASSIGN_OR_RETURN(const bool runs, EvaluateBool(*formula.when, slots_));
      if (!runs) return std::optional<StepPlan>();
    }
    StepPlan plan;
    plan.kind = formula.kind;
    plan.name = formula.step.name();
    plan.timed = !formula.step.untimed();
    switch (formula.kind) {
      case StepPlan::Kind::kKernel:
        RETURN_IF_ERROR(Launch(formula, &plan));
        // Only Triton's may be empty.
        if (std::find(plan.grid.begin(), plan.grid.end(), 0) != plan.grid.end()) return std::optional<StepPlan>();
        break;
      case StepPlan::Kind::kMemset:
        plan.memset_buffer = formula.step.memset().buffer();
        plan.memset_byte = static_cast<uint8_t>(formula.step.memset().byte());
        break;
      case StepPlan::Kind::kLibraryOp:
        RETURN_IF_ERROR(LibraryOp(formula, &plan));
        break;
    }
    return std::optional<StepPlan>(std::move(plan));
  }

 private:
  void SetLoaded() {
    LoadedEntry entry;
    has_loaded_ = false;
    if (loaded_ != nullptr) {
      const auto found = loaded_->find(entry_);
      has_loaded_ = found != loaded_->end();
      if (has_loaded_) entry = found->second;
    }
    slots_[impl_.kernel_begin()] = Value(entry.max_active_blocks);
    slots_[impl_.kernel_begin() + 1] = Value(entry.registers);
    slots_[impl_.kernel_begin() + 2] = Value(entry.static_shared_bytes);
  }

  absl::Status CheckLoaded(const Formula& formula) const {
    if ((formula.uses & kUsesKernel) == 0 || has_loaded_) return absl::OkStatus();
    return FailedPrecondition("{}: kernel.* is known only after '{}' is loaded", formula.path, entry_);
  }

  absl::StatusOr<int64_t> Int(const Formula& formula) const {
    RETURN_IF_ERROR(CheckLoaded(formula));
    return EvaluateInt(formula, slots_);
  }

  absl::StatusOr<int64_t> IntWithin(const Formula& formula, int64_t lowest, int64_t highest) const {
    ASSIGN_OR_RETURN(const int64_t value, Int(formula));
    if (value < lowest || value > highest) {
      return FieldError(formula.path, kValueOutOfRange, "{} is not between {} and {}", value, lowest, highest);
    }
    return value;
  }

  absl::Status Extents(const std::vector<Formula>& formulas, std::array<int64_t, 3>* extents, int64_t least = 1) const {
    for (size_t i = 0; i < formulas.size(); ++i) {
      ASSIGN_OR_RETURN((*extents)[i], IntWithin(formulas[i], least, std::numeric_limits<int32_t>::max()));
    }
    return absl::OkStatus();
  }

  absl::Status Launch(const StepFormula& formula, StepPlan* plan) const {
    const v1::KernelLaunch& launch = formula.step.kernel();
    plan->entry = launch.entry();
    const int64_t grid_min = impl_.kernel.language() == v1::LANGUAGE_TRITON ? 0 : 1;
    RETURN_IF_ERROR(Extents(formula.grid, &plan->grid, grid_min));
    RETURN_IF_ERROR(Extents(formula.block, &plan->block));
    if (!formula.cluster.empty()) {
      std::array<int64_t, 3> cluster{1, 1, 1};
      RETURN_IF_ERROR(Extents(formula.cluster, &cluster));
      for (size_t axis = 0; axis < 3; ++axis) {
        if (plan->grid[axis] % cluster[axis] != 0) {
          return FieldError(formula.path + ".kernel.cluster", kValueOutOfRange,
                            "the grid of {} blocks is no multiple of the cluster's {}", plan->grid[axis],
                            cluster[axis]);
        }
      }
      plan->cluster = cluster;
    }
    if (formula.dynamic_shared_bytes.has_value()) {
      ASSIGN_OR_RETURN(plan->dynamic_shared_bytes,
                       IntWithin(*formula.dynamic_shared_bytes, 0, std::numeric_limits<int32_t>::max()));
    }
    plan->attributes = launch.attributes();
    plan->arguments.assign(launch.arguments().begin(), launch.arguments().end());
    for (const std::string& name : plan->arguments) {
      if (const auto scalar = impl_.scalars.find(name); scalar != impl_.scalars.end()) {
        RETURN_IF_ERROR(CheckLoaded(*scalar->second.value));
        ASSIGN_OR_RETURN(const ScalarPlan encoded, EvaluateScalar(name, scalar->second, slots_));
        plan->scalars.emplace(name, encoded);
      } else if (const auto map = impl_.tensor_maps.find(name); map != impl_.tensor_maps.end()) {
        ASSIGN_OR_RETURN(TensorMapPlan tensor_map, TensorMap(map->second));
        plan->tensor_maps.emplace(name, std::move(tensor_map));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Mode(const Formula& formula, std::string_view choices) const {
    ASSIGN_OR_RETURN(std::string mode, EvaluateString(formula, slots_));
    std::string_view rest = choices;
    while (!rest.empty()) {
      const size_t bar = rest.find('|');
      if (rest.substr(0, bar) == mode) return mode;
      rest.remove_prefix(bar == std::string_view::npos ? rest.size() : bar + 1);
    }
    return FieldError(formula.path, kValueOutOfRange, "'{}' is not one of {}", mode, choices);
  }

  absl::StatusOr<TensorMapPlan> TensorMap(const TensorMapFormula& formula) const {
    TensorMapPlan plan;
    plan.buffer = formula.buffer;
    plan.type = formula.type;
    if (plan.type == v1::DATA_TYPE_UNSPECIFIED) {
      const BufferFormula* buffer = impl_.FindBuffer(formula.buffer);
      ASSIGN_OR_RETURN(const BufferPlan buffer_plan, impl_.EvaluateBuffer(*buffer, problem_, slots_));
      plan.type = buffer_plan.type;
    }
    for (const Formula& dim : formula.dims) {
      ASSIGN_OR_RETURN(const int64_t value, IntWithin(dim, 1, kTensorExtentMax));
      plan.dims.push_back(static_cast<uint64_t>(value));
    }
    for (const Formula& stride : formula.byte_strides) {
      ASSIGN_OR_RETURN(const int64_t value, IntWithin(stride, 0, kTensorStrideMax));
      if (value % 16 != 0) return FieldError(stride.path, kValueOutOfRange, "{} bytes are no multiple of 16", value);
      plan.byte_strides.push_back(static_cast<uint64_t>(value));
    }
    for (const Formula& box : formula.box) {
      ASSIGN_OR_RETURN(const int64_t value, IntWithin(box, 1, kTensorBoxMax));
      plan.box.push_back(static_cast<uint32_t>(value));
    }
    for (const Formula& stride : formula.element_strides) {
      ASSIGN_OR_RETURN(const int64_t value, IntWithin(stride, 1, kTensorElementStrideMax));
      plan.element_strides.push_back(static_cast<uint32_t>(value));
    }
    ASSIGN_OR_RETURN(plan.swizzle, Mode(*formula.swizzle, "none|32B|64B|128B"));
    ASSIGN_OR_RETURN(plan.interleave, Mode(*formula.interleave, "none|16B|32B"));
    ASSIGN_OR_RETURN(plan.l2_promotion, Mode(*formula.l2_promotion, "none|64B|128B|256B"));
    ASSIGN_OR_RETURN(plan.base_offset_bytes, Int(*formula.base_offset_bytes));
    plan.oob_fill_nan = formula.oob_fill_nan;
    return plan;
  }

  absl::Status LibraryOp(const StepFormula& formula, StepPlan* plan) const {
    plan->library_op = formula.step.library_op();
    for (const auto& [extent, value] :
         {std::pair{&formula.m, &plan->m}, std::pair{&formula.n, &plan->n}, std::pair{&formula.k, &plan->k}}) {
      if (!extent->has_value()) continue;
      ASSIGN_OR_RETURN(*value, IntWithin(**extent, 1, std::numeric_limits<int64_t>::max()));
    }
    return absl::OkStatus();
  }

  const KernelPlanAccess::Impl& impl_;
  const ResolvedProblem& problem_;
  const std::map<std::string, LoadedEntry>* loaded_;
  Slots slots_;
  std::string entry_;
  bool has_loaded_ = false;
};

// The formula's value if it is known before loading and can be evaluated.
std::optional<int64_t> IfKnown(const Formula& formula, const Slots& slots) {
  if ((formula.uses & kUsesKernel) != 0) return std::nullopt;
  const auto value = formula.expression.EvaluateInt(slots.data());
  return value.ok() ? std::optional<int64_t>(*value) : std::nullopt;
}

absl::StatusOr<std::string> FirstBrokenGpuLimit(const KernelPlanAccess::Impl& impl, const Slots& slots,
                                                const DeviceClass& device) {
  for (const DeviceRule& rule : impl.device_rules) {
    using Kind = DeviceRule::Kind;
    const bool broken = (rule.kind == Kind::kMinimum && device.compute_capability < rule.number) ||
                        (rule.kind == Kind::kExact && device.compute_capability != rule.number);
    if (broken && rule.subject == "the kernel") return ReasonOf(rule, device);
  }
  LaunchShape common;
  if (impl.registers_per_thread.has_value()) {
    ASSIGN_OR_RETURN(common.registers_per_thread, EvaluateInt(*impl.registers_per_thread, slots));
  }
  if (impl.static_shared_bytes.has_value()) {
    ASSIGN_OR_RETURN(common.shared_bytes, EvaluateInt(*impl.static_shared_bytes, slots));
  }
  for (const Sequence sequence : {Sequence::kPreparePerConfig, Sequence::kLaunches}) {
    const auto formulas = impl.sequences.find(sequence);
    if (formulas == impl.sequences.end()) continue;
    for (const StepFormula& formula : formulas->second) {
      if (formula.kind != StepPlan::Kind::kKernel) continue;
      if (formula.when.has_value()) {
        if ((formula.when->uses & kUsesKernel) != 0) continue;
        ASSIGN_OR_RETURN(const bool runs, EvaluateBool(*formula.when, slots));
        if (!runs) continue;
      }
      LaunchShape shape = sequence == Sequence::kLaunches ? common : LaunchShape();
      for (size_t i = 0; i < formula.grid.size(); ++i) shape.grid[i] = IfKnown(formula.grid[i], slots).value_or(1);
      if (impl.kernel.language() == v1::LANGUAGE_TRITON &&
          std::find(shape.grid.begin(), shape.grid.end(), 0) != shape.grid.end()) {
        continue;  // It launches nothing.
      }
      for (size_t i = 0; i < formula.block.size(); ++i) shape.block[i] = IfKnown(formula.block[i], slots).value_or(1);
      if (formula.dynamic_shared_bytes.has_value()) {
        shape.shared_bytes += IfKnown(*formula.dynamic_shared_bytes, slots).value_or(0);
      }
      if (std::string broken = FirstBrokenLimit(device, shape); !broken.empty()) {
        return fmt::format("{}: {}", formula.path, broken);
      }
    }
  }
  return std::string();
}

// The scalars of a step that every config of the problem is given alike.
absl::Status CheckScalarsOfDims(const KernelPlanAccess::Impl& impl, const StepFormula& formula, const Slots& slots) {
  if (formula.kind != StepPlan::Kind::kKernel) return absl::OkStatus();
  if (formula.when.has_value()) {
    if (!IsOfProblem(formula.when->uses)) return absl::OkStatus();
    ASSIGN_OR_RETURN(const bool runs, EvaluateBool(*formula.when, slots));
    if (!runs) return absl::OkStatus();
  }
  for (const std::string& name : formula.step.kernel().arguments()) {
    const auto scalar = impl.scalars.find(name);
    if (scalar == impl.scalars.end() || !IsOfProblem(scalar->second.value->uses)) continue;
    RETURN_IF_ERROR(EvaluateScalar(name, scalar->second, slots).status());
  }
  return absl::OkStatus();
}

// What depends on kernel.* is known only after the binary is loaded.
absl::Status UnlessUnknown(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) ? absl::OkStatus() : status;
}

}  // namespace

absl::StatusOr<std::vector<StepPlan>> EvaluateSteps(const KernelPlanAccess::Impl& impl, Sequence sequence,
                                                    const ResolvedProblem& problem, const Config& config,
                                                    const DeviceClass& device,
                                                    const std::map<std::string, LoadedEntry>* loaded) {
  std::vector<StepPlan> steps;
  const auto formulas = impl.sequences.find(sequence);
  if (formulas == impl.sequences.end()) return steps;
  Evaluation evaluation(impl, problem, loaded, impl.Slots(problem, &config, &device, nullptr));
  for (const StepFormula& formula : formulas->second) {
    ASSIGN_OR_RETURN(std::optional<StepPlan> step, evaluation.Step(formula));
    if (step.has_value()) steps.push_back(*std::move(step));
  }
  return steps;
}

absl::Status CheckProblem(const KernelPlanAccess::Impl& impl, const ResolvedProblem& problem,
                          const Config& default_config, const DeviceClass& device) {
  const Slots slots = impl.Slots(problem, &default_config, &device, nullptr);
  for (const BufferFormula& formula : impl.buffers) {
    ASSIGN_OR_RETURN(const BufferPlan buffer, impl.EvaluateBuffer(formula, problem, slots));
    RETURN_IF_ERROR(CheckFilesOf(formula, buffer));
  }
  for (const Sequence sequence : {Sequence::kPreparePerConfig, Sequence::kLaunches}) {
    const auto formulas = impl.sequences.find(sequence);
    if (formulas == impl.sequences.end()) continue;
    for (const StepFormula& formula : formulas->second) RETURN_IF_ERROR(CheckScalarsOfDims(impl, formula, slots));
  }
  for (const Sequence sequence : {Sequence::kPreparePerProblem, Sequence::kReference, Sequence::kBaseline}) {
    RETURN_IF_ERROR(UnlessUnknown(EvaluateSteps(impl, sequence, problem, default_config, device, nullptr).status()));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> FirstBrokenDeviceLimit(const KernelPlanAccess::Impl& impl, const ResolvedProblem& problem,
                                                   const Config& config, const DeviceClass& device) {
  const Slots slots = impl.Slots(problem, &config, &device, nullptr);
  if (device.kind == DeviceKind::kCuda) {
    ASSIGN_OR_RETURN(std::string broken, FirstBrokenGpuLimit(impl, slots, device));
    if (!broken.empty()) return broken;
  }
  for (const BufferFormula& buffer : impl.buffers)
    RETURN_IF_ERROR(impl.EvaluateBuffer(buffer, problem, slots).status());
  for (const Sequence sequence : {Sequence::kPreparePerConfig, Sequence::kLaunches}) {
    RETURN_IF_ERROR(UnlessUnknown(EvaluateSteps(impl, sequence, problem, config, device, nullptr).status()));
  }
  return std::string();
}

}  // namespace tunefarm::definition
