#include "server/worker/cuda/yardstick.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "server/base/status.h"

namespace tunefarm::cuda {
namespace {

bool MayBeWritten(const BufferPlan& plan) { return !plan.is_constant_symbol && plan.access != v1::ACCESS_IN; }

}  // namespace

bool Yardstick::Is(const YardstickInput& input, uint64_t input_seed) const {
  return input_seed_ == input_seed && config_ == input.config.ToText() && artifact_ == input.artifact;
}

Failure Yardstick::Make(const RunTools& tools, CudaProblem* problem, const YardstickInput& input, uint64_t input_seed,
                        std::unique_ptr<Yardstick>* made, std::string* why_not) {
  *made = nullptr;
  if (problem->has_restores()) {
    *why_not = "buffers are restored before each sample";
    return {};
  }
  const PreparedKernel& kernel = problem->kernel();
  const absl::StatusOr<std::vector<BufferPlan>> plans =
      kernel.plan->Buffers(kernel.problem, input.config, kernel.device_class);
  if (!plans.ok()) return {v1::OUTCOME_INFEASIBLE_LAUNCH, std::string(MessageOf(plans.status())) + "."};
  std::unique_ptr<Yardstick> yardstick(new Yardstick);
  yardstick->config_ = input.config.ToText();
  yardstick->artifact_ = input.artifact;
  yardstick->input_seed_ = input_seed;
  const auto room = [&](Failure failure) {
    if (failure.outcome == v1::OUTCOME_OUT_OF_MEMORY && !failure.sticky) {
      *why_not = failure.message;
      failure = {};
    }
    return failure;
  };
  if (Failure failure = problem->ResizeScratch(*plans)) return room(std::move(failure));
  TUNEFARM_RETURN_IF_FAILED(
      LoadedModule::Load(tools.gpu, *kernel.plan, input.artifact, input.lowered_names, &yardstick->module_));
  TUNEFARM_RETURN_IF_FAILED(problem->WriteSymbols(yardstick->module_.get()));
  TUNEFARM_RETURN_IF_FAILED(problem->Reset(PoisonPattern::kFirst));
  DeviceViews views = problem->Views();
  const Driver& driver = tools.gpu.driver();
  for (const BufferPlan& plan : *plans) {
    if (!MayBeWritten(plan)) continue;
    DeviceView& view = views.at(plan.name);
    if (view.bytes == 0) continue;
    GuardedBuffer own;
    if (Failure failure = GuardedBuffer::Allocate(tools.gpu, view.bytes, &own)) return room(std::move(failure));
    TUNEFARM_RETURN_IF_FAILED(tools.harness.FillGuards(own));
    TUNEFARM_RETURN_IF_FAILED(
        driver.Check(driver.cuMemcpyDtoDAsync(own.data(), view.data, view.bytes, tools.gpu.stream()),
                     "A copy on the device failed"));
    view.data = own.data();
    yardstick->memory_.push_back(std::move(own));
  }
  LoadedModule* const module = yardstick->module_.get();
  std::vector<StepPlan> steps;
  if (kernel.plan->HasSequence(Sequence::kPreparePerConfig)) {
    TUNEFARM_RETURN_IF_FAILED(
        EvaluateSteps(tools.gpu, kernel, Sequence::kPreparePerConfig, input.config, module, &steps));
    LaunchSequence prepare(tools.gpu);
    TUNEFARM_RETURN_IF_FAILED(prepare.Build(steps, views, module, &tools.cublas));
    TUNEFARM_RETURN_IF_FAILED(prepare.Enqueue());
    TUNEFARM_RETURN_IF_FAILED(tools.gpu.Synchronize("The yardstick's prepare steps crashed"));
    steps.clear();
  }
  TUNEFARM_RETURN_IF_FAILED(EvaluateSteps(tools.gpu, kernel, Sequence::kLaunches, input.config, module, &steps));
  yardstick->launches_ = std::make_unique<LaunchSequence>(tools.gpu);
  TUNEFARM_RETURN_IF_FAILED(yardstick->launches_->Build(steps, views, module, &tools.cublas));
  *made = std::move(yardstick);
  return {};
}

Failure Yardstick::FindDamage(const RunTools& tools) const {
  std::vector<CUdeviceptr> zones;
  for (const GuardedBuffer& memory : memory_) {
    zones.push_back(memory.guard_before());
    zones.push_back(memory.guard_after());
  }
  std::vector<std::optional<GuardDamage>> damages;
  TUNEFARM_RETURN_IF_FAILED(tools.harness.CheckGuards(zones, &damages));
  const bool is_damaged = std::ranges::any_of(damages, [](const auto& damage) { return damage.has_value(); });
  if (!is_damaged) return {};
  return {v1::OUTCOME_OUT_OF_BOUNDS,
          "Memory around a buffer of the yardstick, another config of the final, was written."};
}

}  // namespace tunefarm::cuda
