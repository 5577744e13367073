#include "server/definition/launch_digest.h"

#include <fmt/core.h>

#include <string>
#include <vector>

#include "server/base/status_macros.h"
#include "server/definition/canonical_digest.h"
#include "server/definition/plan_impl.h"

namespace tunefarm {
namespace {

using definition::Formula;
using definition::StepFormula;

// Everything that is put in has its length before it, so that no two sequences of parts read the same.
class LaunchDigester {
 public:
  LaunchDigester(const KernelPlanAccess::Impl& impl, std::vector<Value> slots)
      : impl_(impl), slots_(std::move(slots)) {}

  absl::Status Add(const Formula& formula) {
    Text(formula.path);
    if ((formula.uses & definition::kUsesKernel) != 0) {
      for (const int slot : formula.expression.Variables()) {
        const auto index = static_cast<size_t>(slot);
        if (index >= impl_.kernel_begin()) continue;
        Text(fmt::format("{}", slot));
        Add(slots_[index]);
      }
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const Value value, definition::Evaluate(formula, slots_));
    Add(value);
    return absl::OkStatus();
  }

  absl::Status Add(const std::vector<Formula>& formulas) {
    for (const Formula& formula : formulas) RETURN_IF_ERROR(Add(formula));
    return absl::OkStatus();
  }

  absl::Status Add(const std::optional<Formula>& formula) {
    return formula.has_value() ? Add(*formula) : absl::OkStatus();
  }

  absl::Status Add(const StepFormula& step) {
    if (step.when.has_value() && (step.when->uses & definition::kUsesKernel) == 0) {
      ASSIGN_OR_RETURN(const bool runs, definition::EvaluateBool(*step.when, slots_));
      if (!runs) return absl::OkStatus();
    }
    Text(step.path);
    RETURN_IF_ERROR(Add(step.when));
    for (const auto* extents : {&step.grid, &step.block, &step.cluster}) RETURN_IF_ERROR(Add(*extents));
    for (const auto* number : {&step.dynamic_shared_bytes, &step.m, &step.n, &step.k}) RETURN_IF_ERROR(Add(*number));
    if (step.kind != StepPlan::Kind::kKernel) return absl::OkStatus();
    for (const std::string& name : step.step.kernel().arguments()) RETURN_IF_ERROR(AddArgument(name));
    return absl::OkStatus();
  }

  void Add(const BufferPlan& buffer) {
    Text(buffer.name);
    Text(buffer.symbol);
    Text(fmt::format("{} {} {} {} {} {}", static_cast<int>(buffer.type), buffer.length, static_cast<int>(buffer.access),
                     static_cast<int>(buffer.init), static_cast<int>(buffer.restore), buffer.is_constant_symbol));
    std::string fill;
    definition::AppendCanonical(buffer.fill, &fill);
    Text(fill);
  }

  void AddSlots() {
    for (const Value& value : slots_) Add(value);
  }

  Digest Finish() { return stream_.Finish(); }

 private:
  void Text(std::string_view text) {
    stream_.Update(fmt::format("{}:", text.size()));
    stream_.Update(text);
  }

  // An int and a float of one spelling may be encoded differently.
  void Add(const Value& value) { Text(fmt::format("{} {}", static_cast<int>(value.type()), value.ToLiteral())); }

  absl::Status AddArgument(const std::string& name) {
    if (const auto scalar = impl_.scalars.find(name); scalar != impl_.scalars.end()) return Add(scalar->second.value);
    if (const auto descriptor = impl_.tensor_descriptors.find(name); descriptor != impl_.tensor_descriptors.end()) {
      const definition::TensorDescriptorFormula& own = descriptor->second;
      for (const auto* list : {&own.shape, &own.strides, &own.block_shape}) RETURN_IF_ERROR(Add(*list));
      return absl::OkStatus();
    }
    const auto found = impl_.tensor_maps.find(name);
    if (found == impl_.tensor_maps.end()) return absl::OkStatus();  // a buffer
    const definition::TensorMapFormula& map = found->second;
    for (const auto* list : {&map.dims, &map.byte_strides, &map.box, &map.element_strides}) {
      RETURN_IF_ERROR(Add(*list));
    }
    for (const auto* one : {&map.swizzle, &map.interleave, &map.l2_promotion, &map.base_offset_bytes}) {
      RETURN_IF_ERROR(Add(*one));
    }
    return absl::OkStatus();
  }

  const KernelPlanAccess::Impl& impl_;
  const std::vector<Value> slots_;
  Sha256Stream stream_;
};

}  // namespace

absl::StatusOr<Digest> LaunchDigest(const KernelPlan& plan, const ResolvedProblem& problem, const Config& config,
                                    const DeviceClass& device) {
  const KernelPlanAccess::Impl& impl = KernelPlanAccess::Of(plan);
  LaunchDigester digester(impl, impl.Slots(problem, &config, &device, nullptr));
  if (plan.language() == v1::LANGUAGE_PYTHON) digester.AddSlots();  // What a module makes of them only it knows.
  for (const Sequence sequence : {Sequence::kPreparePerConfig, Sequence::kLaunches}) {
    const auto formulas = impl.sequences.find(sequence);
    if (formulas == impl.sequences.end()) continue;
    for (const StepFormula& step : formulas->second) RETURN_IF_ERROR(digester.Add(step));
  }
  ASSIGN_OR_RETURN(const std::vector<BufferPlan> buffers, plan.Buffers(problem, config, device));
  for (const BufferPlan& buffer : buffers) digester.Add(buffer);
  return digester.Finish();
}

}  // namespace tunefarm
