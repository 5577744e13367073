#include "server/worker/cuda/launch_sequence.h"

#include <fmt/core.h>

#include <cstring>

#include "server/driver_step/launch_config.h"
#include "server/worker/cuda/tensor_map.h"

namespace tunefarm::cuda {
namespace {

// By the bytes, as launch_config.h writes them.
static_assert(driver_step::kCooperativeId == CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
static_assert(driver_step::kClusterDimensionId == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
static_assert(driver_step::kClusterSchedulingPolicyPreferenceId ==
              CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE);
static_assert(driver_step::kClusterSchedulingPolicySpread == CU_CLUSTER_SCHEDULING_POLICY_SPREAD);
static_assert(driver_step::kProgrammaticStreamSerializationId == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
using AttributeValue = decltype(CUlaunchAttribute::value);
static_assert(sizeof(AttributeValue::cooperative) == sizeof(int) && sizeof(AttributeValue::clusterDim) == 12);
static_assert(sizeof(AttributeValue::programmaticStreamSerializationAllowed) == sizeof(int));
static_assert(sizeof(AttributeValue::clusterSchedulingPolicyPreference) == sizeof(int));

Failure FindView(const DeviceViews& views, const std::string& name, DeviceView* view) {
  const auto found = views.find(name);
  if (found == views.end()) return {v1::OUTCOME_LOAD_ERROR, fmt::format("There is no buffer '{}'.", name)};
  *view = found->second;
  return {};
}

}  // namespace

Failure LaunchSequence::Build(const std::vector<StepPlan>& steps, const DeviceViews& views, LoadedModule* module,
                              Cublas* cublas) {
  cublas_ = cublas;
  bool timing = false;
  for (const StepPlan& plan : steps) {
    auto step = std::make_unique<Step>();
    step->plan = plan;
    switch (plan.kind) {
      case StepPlan::Kind::kKernel:
        TUNEFARM_RETURN_IF_FAILED(BuildKernel(views, module, step.get()));
        break;
      case StepPlan::Kind::kMemset:
        TUNEFARM_RETURN_IF_FAILED(FindView(views, plan.memset_buffer, &step->memset_view));
        break;
      case StepPlan::Kind::kLibraryOp:
        TUNEFARM_RETURN_IF_FAILED(BuildLibraryOp(views, step.get()));
        break;
    }
    if (plan.timed && !timing) ++timed_stretches_;
    timing = plan.timed;
    has_untimed_steps_ = has_untimed_steps_ || !plan.timed;
    steps_.push_back(std::move(step));
  }
  return {};
}

Failure LaunchSequence::BuildLibraryOp(const DeviceViews& views, Step* step) const {
  const StepPlan& plan = step->plan;
  TUNEFARM_RETURN_IF_FAILED(FindView(views, plan.library_op.a(), &step->a));
  TUNEFARM_RETURN_IF_FAILED(FindView(views, plan.library_op.b(), &step->b));
  TUNEFARM_RETURN_IF_FAILED(FindView(views, plan.library_op.c(), &step->c));
  if (plan.library_op.op() == v1::LIBRARY_OP_KIND_GEMM) return cublas_->Ready(plan, step->a, step->b, step->c);
  DeviceView sizes;
  TUNEFARM_RETURN_IF_FAILED(FindView(views, plan.library_op.group_sizes(), &sizes));
  return cublas_->ReadyGroups(plan, step->a, step->b, step->c, sizes, &step->grouped);
}

Failure LaunchSequence::BuildKernel(const DeviceViews& views, LoadedModule* module, Step* step) const {
  const StepPlan& plan = step->plan;
  TUNEFARM_RETURN_IF_FAILED(module->Function(plan.entry, &step->function));
  step->arguments.resize(plan.arguments.size());  // never again: the parameters point into it
  for (size_t i = 0; i < plan.arguments.size(); ++i) {
    TUNEFARM_RETURN_IF_FAILED(BuildArgument(views, plan, plan.arguments[i], &step->arguments[i]));
    step->parameters.push_back(step->arguments[i].bytes);
  }
  driver_step::WriteConfig(
      plan, {plan.attributes.cooperative(), plan.attributes.programmatic_stream_serialization(), plan.spread_clusters},
      gpu_.stream(), step->attributes.data(), &step->config);
  return {};
}

Failure LaunchSequence::BuildArgument(const DeviceViews& views, const StepPlan& plan, const std::string& name,
                                      Argument* argument) const {
  if (const auto scalar = plan.scalars.find(name); scalar != plan.scalars.end()) {
    std::memcpy(argument->bytes, scalar->second.bytes.data(), scalar->second.bytes.size());
    return {};
  }
  if (const auto map = plan.tensor_maps.find(name); map != plan.tensor_maps.end()) {
    static_assert(sizeof(CUtensorMap) <= sizeof(argument->bytes) && alignof(Argument) >= 64);
    DeviceView view;
    TUNEFARM_RETURN_IF_FAILED(FindView(views, map->second.buffer, &view));
    return EncodeTensorMap(gpu_, name, map->second.values, view.data, reinterpret_cast<CUtensorMap*>(argument->bytes));
  }
  DeviceView view;
  TUNEFARM_RETURN_IF_FAILED(FindView(views, name, &view));
  std::memcpy(argument->bytes, &view.data, sizeof(view.data));
  return {};
}

Failure LaunchSequence::EnqueueStep(Step* step) {
  const Driver& driver = gpu_.driver();
  switch (step->plan.kind) {
    case StepPlan::Kind::kKernel: {
      const CUresult error = driver.cuLaunchKernelEx(&step->config, step->function, step->parameters.data(), nullptr);
      if (error == CUDA_SUCCESS) return {};
      const CUlaunchConfig& config = step->config;
      return driver.Check(
          error, CallKind::kLaunch,
          fmt::format("The launch of {} with {} x {} x {} blocks of {} x {} x {} threads and {} bytes of "
                      "dynamic shared memory was refused",
                      step->plan.entry, config.gridDimX, config.gridDimY, config.gridDimZ, config.blockDimX,
                      config.blockDimY, config.blockDimZ, config.sharedMemBytes));
    }
    case StepPlan::Kind::kMemset:
      return driver.Check(driver.cuMemsetD8Async(step->memset_view.data, step->plan.memset_byte,
                                                 step->memset_view.bytes, gpu_.stream()),
                          fmt::format("The memset of {} failed", step->plan.memset_buffer));
    case StepPlan::Kind::kLibraryOp:
      if (step->grouped != nullptr) {
        return cublas_->EnqueueGroups(step->plan, step->a, step->b, step->c, *step->grouped);
      }
      return cublas_->Enqueue(step->plan, step->a, step->b, step->c);
  }
  return {};
}

Failure LaunchSequence::Enqueue() {
  for (const std::unique_ptr<Step>& step : steps_) TUNEFARM_RETURN_IF_FAILED(EnqueueStep(step.get()));
  return {};
}

Failure LaunchSequence::EnqueueStretches(const std::function<Failure(bool is_timed)>& before_stretch) {
  std::optional<bool> timing;
  for (const std::unique_ptr<Step>& step : steps_) {
    if (timing != step->plan.timed) TUNEFARM_RETURN_IF_FAILED(before_stretch(step->plan.timed));
    timing = step->plan.timed;
    TUNEFARM_RETURN_IF_FAILED(EnqueueStep(step.get()));
  }
  return {};
}

Failure LaunchSequence::EnqueueTimed(const CUevent* events, unsigned int flags) {
  const Driver& driver = gpu_.driver();
  const auto record = [&] {
    return driver.Check(driver.cuEventRecordWithFlags(*events++, gpu_.stream(), flags),
                        "An event could not be recorded");
  };
  bool timing = false;
  for (const std::unique_ptr<Step>& step : steps_) {
    if (step->plan.timed != timing) TUNEFARM_RETURN_IF_FAILED(record());
    timing = step->plan.timed;
    TUNEFARM_RETURN_IF_FAILED(EnqueueStep(step.get()));
  }
  return timing ? record() : Failure{};
}

}  // namespace tunefarm::cuda
