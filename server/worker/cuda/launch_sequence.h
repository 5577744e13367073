// Evaluated steps with their addresses filled in, ready to be enqueued any number of times.
//
// One thread. Must not outlive the module, the buffers and the library that it was made from.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/definition/kernel_plan.h"
#include "server/driver_step/launch_config.h"
#include "server/worker/cuda/cublas.h"
#include "server/worker/cuda/gpu_context.h"
#include "server/worker/cuda/loaded_module.h"

namespace tunefarm::cuda {

using DeviceViews = std::map<std::string, DeviceView>;

class LaunchSequence {
 public:
  explicit LaunchSequence(const GpuContext& gpu) : gpu_(gpu) {}

  // INFEASIBLE_LAUNCH or LOAD_ERROR with one sentence.
  Failure Build(const std::vector<StepPlan>& steps, const DeviceViews& views, LoadedModule* module, Cublas* cublas);

  // All steps, in order.
  Failure Enqueue();
  // The same, and calls before the first step of each stretch: of consecutive steps that are all timed or all untimed.
  Failure EnqueueStretches(const std::function<Failure(bool is_timed)>& before_stretch);
  // Stretches of consecutive timed steps; what lies between them is not timed.
  size_t timed_stretches() const { return timed_stretches_; }
  size_t step_count() const { return steps_.size(); }
  bool has_untimed_steps() const { return has_untimed_steps_; }
  // As Enqueue, with events around each timed stretch: 2 * timed_stretches() of them. `flags` of
  // cuEventRecordWithFlags: while a graph is captured, CU_EVENT_RECORD_EXTERNAL makes the events part of it.
  Failure EnqueueTimed(const CUevent* events, unsigned int flags);

 private:
  struct alignas(64) Argument {
    std::byte bytes[128];
  };

  struct Step {
    StepPlan plan;
    CUfunction function = nullptr;
    CUlaunchConfig config = {};
    std::array<CUlaunchAttribute, driver_step::kAttributesMax> attributes;
    std::vector<Argument> arguments;
    std::vector<void*> parameters;
    DeviceView memset_view, a, b, c;
    std::unique_ptr<GroupedCall> grouped;  // of a grouped library operation
  };

  Failure BuildKernel(const DeviceViews& views, LoadedModule* module, Step* step) const;
  Failure BuildLibraryOp(const DeviceViews& views, Step* step) const;
  Failure BuildArgument(const DeviceViews& views, const StepPlan& plan, const std::string& name,
                        Argument* argument) const;
  Failure EnqueueStep(Step* step);

  const GpuContext& gpu_;
  Cublas* cublas_ = nullptr;
  std::vector<std::unique_ptr<Step>> steps_;
  size_t timed_stretches_ = 0;
  bool has_untimed_steps_ = false;
};

}  // namespace tunefarm::cuda
