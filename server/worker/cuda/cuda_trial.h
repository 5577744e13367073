// One trial of a prepared problem on the GPU: load, first launch, verify, measure, verify again, witness the time
// (worker/verify/trial_phases.h).
//
// One thread.
#pragma once

#include <memory>
#include <optional>

#include "server/base/clock.h"
#include "server/measure/duty_cycle.h"
#include "server/worker/backend.h"
#include "server/worker/cuda/cuda_problem.h"
#include "server/worker/cuda/device_conditions.h"
#include "server/worker/cuda/harness.h"
#include "server/worker/cuda/sampler.h"
#include "server/worker/cuda/yardstick.h"
#include "server/worker/nvml/nvml.h"

namespace tunefarm::cuda {

// What lives as long as the runner and every trial measures with.
struct MeasuringTools {
  const Nvml* nvml = nullptr;  // null: no energy
  DeviceConditions* conditions = nullptr;
  ByteRange flush;
  EventOverhead* overhead = nullptr;
  DutyCycle* duty_cycle = nullptr;                  // of finals of the prepared problem
  std::unique_ptr<Yardstick>* yardstick = nullptr;  // the last trial's; null in it: none
  std::optional<Duration> inputs_took;              // to build, if the reference ran for them
};

// Everything must outlive the call. worker_is_damaged of the result asks for a fresh process.
tunefarm::worker::v1::Result RunCudaTrial(const RunTools& tools, CudaProblem* problem, const MeasuringTools& measuring,
                                          const RunInput& input, PhaseReporter* reporter);

}  // namespace tunefarm::cuda
