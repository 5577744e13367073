// Launches for one problem and config: every expression evaluated.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/data_type.h"
#include "server/definition/field_error.h"
#include "server/definition/plan_impl.h"
#include "server/driver_step/step_evaluator.h"

namespace tunefarm::definition {
namespace {

using Slots = std::vector<Value>;

constexpr int64_t kDescriptorBlockMax = 1 << 20;  // elements of a block of Triton's

absl::StatusOr<ScalarPlan> EvaluateScalar(std::string_view name, const ScalarFormula& formula, const Slots& slots) {
  ASSIGN_OR_RETURN(const Value value, Evaluate(*formula.value, slots));
  auto encoded = EncodeScalar(formula.type, value);
  if (encoded.ok()) {
    encoded->is_specialised = formula.is_specialised;
    return encoded;
  }
  return FieldError(formula.value->path, kValueOutOfRange, "argument '{}': {}", name, MessageOf(encoded.status()));
}

// The formulas of a plan for the evaluator of steps, with kernel.* of the entry whose step is evaluated.
class PlanFormulas {
 public:
  PlanFormulas(const KernelPlanAccess::Impl& impl, const std::map<std::string, LoadedEntry>* loaded, Slots slots)
      : impl_(impl), loaded_(loaded), slots_(std::move(slots)) {}

  const Slots& slots() const { return slots_; }
  // Why a function has returned false.
  const absl::Status& error() const { return error_; }

  void SetEntry(const std::string& name) {
    entry_ = name;
    LoadedEntry entry;
    has_loaded_ = false;
    if (loaded_ != nullptr) {
      const auto found = loaded_->find(name);
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

  // What StepEvaluator asks for.
  const Formula* At(const std::optional<Formula>& field) const { return field.has_value() ? &*field : nullptr; }
  const Formula* At(const std::vector<Formula>& list, size_t number) const {
    return number < list.size() ? &list[number] : nullptr;
  }
  bool Int(const Formula& formula, const char*, int64_t* value) { return Take(formula, &EvaluateInt, value); }
  bool Truth(const Formula& formula, bool* value) { return Take(formula, &EvaluateBool, value); }
  bool Text(const Formula& formula, const char*, std::string_view* value) {
    if (!Take(formula, &EvaluateString, &text_)) return false;
    *value = text_;
    return true;
  }
  bool OutOfRange(const Formula& formula, const char*, int64_t value, int64_t lowest, int64_t highest) {
    return Refuse(FieldError(formula.path, kValueOutOfRange, "{} is not between {} and {}", value, lowest, highest));
  }
  bool NoMultiple(const Formula& formula, const char* what, int64_t value, int64_t divisor) {
    return Refuse(
        FieldError(formula.path, kValueOutOfRange, "{} would be {}, which is no multiple of {}", what, value, divisor));
  }
  bool NoMode(const Formula& formula, const char*, std::string_view text, std::span<const std::string_view> modes) {
    return Refuse(FieldError(formula.path, kValueOutOfRange, "'{}' is not one of {}", text,
                             fmt::join(modes.begin(), modes.end(), "|")));
  }

 private:
  template <typename T>
  bool Take(const Formula& formula, absl::StatusOr<T> (*evaluate)(const Formula&, const Slots&), T* value) {
    if (absl::Status unknown = CheckLoaded(formula); !unknown.ok()) return Refuse(std::move(unknown));
    absl::StatusOr<T> result = evaluate(formula, slots_);
    if (!result.ok()) return Refuse(result.status());
    *value = *std::move(result);
    return true;
  }

  bool Refuse(absl::Status error) {
    error_ = std::move(error);
    return false;
  }

  const KernelPlanAccess::Impl& impl_;
  const std::map<std::string, LoadedEntry>* loaded_;
  Slots slots_;
  std::string entry_;
  bool has_loaded_ = false;
  std::string text_;
  absl::Status error_;
};

// A sequence being evaluated.
class Evaluation {
 public:
  // `loaded` may change between two calls.
  Evaluation(const KernelPlanAccess::Impl& impl, const std::vector<StepFormula>& steps, const ResolvedProblem& problem,
             const std::map<std::string, LoadedEntry>* loaded, Slots slots)
      : impl_(impl), steps_(steps), problem_(problem), formulas_(impl, loaded, std::move(slots)) {}

  absl::StatusOr<std::vector<StepPlan>> Steps() {
    std::vector<StepPlan> plans;
    for (const StepFormula& formula : steps_) {
      ASSIGN_OR_RETURN(const bool runs, Runs(formula));
      if (!runs) continue;
      StepPlan& plan = plans.emplace_back();
      RETURN_IF_ERROR(Step(formula, &plan));
      // Only Triton's may be empty.
      if (std::find(plan.grid.begin(), plan.grid.end(), 0u) != plan.grid.end()) plans.pop_back();
    }
    return plans;
  }

  // The launches that run, with what decides how many blocks of each a multiprocessor holds.
  absl::StatusOr<std::vector<StepPlan>> Blocks() {
    std::vector<StepPlan> plans;
    for (const StepFormula& formula : steps_) {
      if (formula.kind != StepPlan::Kind::kKernel) continue;
      ASSIGN_OR_RETURN(const bool runs, Runs(formula));
      if (!runs) continue;
      StepPlan& plan = plans.emplace_back();
      plan.entry = formula.step.kernel().entry();
      plan.attributes = formula.step.kernel().attributes();
      if (!evaluator_.Block(formula, &plan)) return formulas_.error();
    }
    return plans;
  }

 private:
  // To be called first for each step.
  absl::StatusOr<bool> Runs(const StepFormula& formula) {
    formulas_.SetEntry(formula.kind == StepPlan::Kind::kKernel ? formula.step.kernel().entry() : std::string());
    bool runs = false;
    if (!evaluator_.Runs(formula, &runs)) return formulas_.error();
    return runs;
  }

  absl::Status Step(const StepFormula& formula, StepPlan* plan) {
    plan->kind = formula.kind;
    plan->name = formula.step.name();
    plan->timed = !formula.step.untimed();
    switch (formula.kind) {
      case StepPlan::Kind::kKernel:
        return Launch(formula, plan);
      case StepPlan::Kind::kMemset:
        plan->memset_buffer = formula.step.memset().buffer();
        plan->memset_byte = static_cast<uint8_t>(formula.step.memset().byte());
        break;
      case StepPlan::Kind::kLibraryOp:
        return LibraryOp(formula, plan);
    }
    return absl::OkStatus();
  }

  absl::Status Launch(const StepFormula& formula, StepPlan* plan) {
    const v1::KernelLaunch& launch = formula.step.kernel();
    plan->entry = launch.entry();
    const int grid_min = impl_.kernel.language() == v1::LANGUAGE_TRITON ? 0 : 1;
    if (!evaluator_.Launch(formula, plan, grid_min)) return formulas_.error();
    plan->attributes = launch.attributes();
    plan->arguments.assign(launch.arguments().begin(), launch.arguments().end());
    for (const std::string& name : plan->arguments) {
      if (const auto scalar = impl_.scalars.find(name); scalar != impl_.scalars.end()) {
        RETURN_IF_ERROR(formulas_.CheckLoaded(*scalar->second.value));
        ASSIGN_OR_RETURN(const ScalarPlan encoded, EvaluateScalar(name, scalar->second, formulas_.slots()));
        plan->scalars.emplace(name, encoded);
      } else if (const auto map = impl_.tensor_maps.find(name); map != impl_.tensor_maps.end()) {
        ASSIGN_OR_RETURN(TensorMapPlan tensor_map, TensorMap(map->second));
        plan->tensor_maps.emplace(name, std::move(tensor_map));
      } else if (const auto found = impl_.tensor_descriptors.find(name); found != impl_.tensor_descriptors.end()) {
        ASSIGN_OR_RETURN(TensorDescriptorPlan descriptor, TensorDescriptor(found->second));
        plan->tensor_descriptors.emplace(name, std::move(descriptor));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<TensorMapPlan> TensorMap(const TensorMapFormula& formula) {
    TensorMapPlan plan;
    plan.buffer = formula.buffer;
    v1::DataType type = formula.type;
    if (type == v1::DATA_TYPE_UNSPECIFIED) {
      ASSIGN_OR_RETURN(type, TypeOf(formula.buffer));
    }
    RETURN_IF_ERROR(CheckNanFill(formula.path, formula.oob_fill_nan, type));
    if (!evaluator_.TensorMap(formula, type, formula.dims.size(), &plan.values)) return formulas_.error();
    return plan;
  }

  absl::StatusOr<v1::DataType> TypeOf(const std::string& name) {
    const BufferFormula* buffer = impl_.FindBuffer(name);
    ASSIGN_OR_RETURN(const BufferPlan plan, impl_.EvaluateBuffer(*buffer, problem_, formulas_.slots()));
    return plan.type;
  }

  absl::StatusOr<TensorDescriptorPlan> TensorDescriptor(const TensorDescriptorFormula& formula) {
    TensorDescriptorPlan plan;
    plan.buffer = formula.buffer;
    plan.oob_fill_nan = formula.oob_fill_nan;
    ASSIGN_OR_RETURN(plan.type, TypeOf(formula.buffer));
    RETURN_IF_ERROR(CheckNanFill(formula.path, formula.oob_fill_nan, plan.type));
    const auto element_bytes = static_cast<int64_t>(SizeOf(plan.type));
    const int64_t stride_max = driver_step::kTensorStrideMax / element_bytes;
    if (!Ints(formula.shape, "an extent of a tensor descriptor", 1, std::numeric_limits<int32_t>::max(), &plan.shape) ||
        !Ints(formula.block_shape, "a block of a tensor descriptor", 1, kDescriptorBlockMax, &plan.block_shape) ||
        !Ints(formula.strides, "a stride of a tensor descriptor", 0, stride_max, &plan.strides)) {
      return formulas_.error();
    }
    plan.strides.resize(plan.shape.size(), 1);
    for (size_t i = plan.shape.size() - 1; i-- > 0;) {
      const Formula& decisive = formula.strides.empty() ? formula.shape[i + 1] : formula.strides[i];
      if (formula.strides.empty()) {
        if (plan.strides[i + 1] > stride_max / plan.shape[i + 1]) {
          (void)formulas_.OutOfRange(decisive, "", plan.shape[i + 1], 1, stride_max / plan.strides[i + 1]);
          return formulas_.error();
        }
        plan.strides[i] = plan.strides[i + 1] * plan.shape[i + 1];
      }
      if (const int64_t bytes = plan.strides[i] * element_bytes; bytes % 16 != 0) {
        (void)formulas_.NoMultiple(decisive, "a stride of a tensor descriptor in bytes", bytes, 16);
        return formulas_.error();
      }
    }
    return plan;
  }

  bool Ints(const std::vector<Formula>& list, const char* what, int64_t lowest, int64_t highest,
            std::vector<int64_t>* values) {
    values->reserve(list.size());
    for (const Formula& formula : list) {
      if (!evaluator_.Int(&formula, what, lowest, highest, &values->emplace_back())) return false;
    }
    return true;
  }

  absl::Status LibraryOp(const StepFormula& formula, StepPlan* plan) {
    plan->library_op = formula.step.library_op();
    for (const auto& [extent, value] :
         {std::pair{&formula.m, &plan->m}, std::pair{&formula.n, &plan->n}, std::pair{&formula.k, &plan->k}}) {
      if (!evaluator_.Int(formulas_.At(*extent), "an extent", 1, std::numeric_limits<int64_t>::max(), value)) {
        return formulas_.error();
      }
    }
    return absl::OkStatus();
  }

  const KernelPlanAccess::Impl& impl_;
  const std::vector<StepFormula>& steps_;
  const ResolvedProblem& problem_;
  PlanFormulas formulas_;
  driver_step::StepEvaluator<PlanFormulas> evaluator_{&formulas_};
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
                                                    const std::map<std::string, LoadedEntry>* loaded,
                                                    const KernelPlan::ActiveBlocks& active_blocks) {
  const auto steps = impl.sequences.find(sequence);
  if (steps == impl.sequences.end()) return std::vector<StepPlan>();
  Slots slots = impl.Slots(problem, &config, &device, nullptr);
  if (active_blocks == nullptr) return Evaluation(impl, steps->second, problem, loaded, std::move(slots)).Steps();
  // In two passes: how many blocks fit depends on the launch, and the launch may depend on how many blocks fit.
  std::map<std::string, LoadedEntry> found = *loaded;
  for (auto& [entry, known] : found) known.max_active_blocks = 1;
  Evaluation evaluation(impl, steps->second, problem, &found, std::move(slots));
  ASSIGN_OR_RETURN(const std::vector<StepPlan> launches, evaluation.Blocks());
  std::map<std::string, int64_t> least;
  for (const StepPlan& launch : launches) {
    ASSIGN_OR_RETURN(const int64_t blocks, active_blocks(launch));
    int64_t& known = least.emplace(launch.entry, blocks).first->second;
    known = std::min(known, blocks);
  }
  for (const auto& [entry, blocks] : least) found[entry].max_active_blocks = std::max<int64_t>(blocks, 1);
  return evaluation.Steps();
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
    RETURN_IF_ERROR(
        UnlessUnknown(EvaluateSteps(impl, sequence, problem, default_config, device, nullptr, nullptr).status()));
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
    RETURN_IF_ERROR(impl.EvaluateBufferSize(buffer, problem, slots).status());
  for (const Sequence sequence : {Sequence::kPreparePerConfig, Sequence::kLaunches}) {
    RETURN_IF_ERROR(UnlessUnknown(EvaluateSteps(impl, sequence, problem, config, device, nullptr, nullptr).status()));
  }
  return std::string();
}

}  // namespace tunefarm::definition
