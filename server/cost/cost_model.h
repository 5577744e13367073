// CostModel: predicts, before anything is compiled, how long a config takes compared with the others of its space.
//
//   prediction = floor x mean over the launches of 1 / efficiency
//
// The efficiency of a launch is LaunchCost's; launches count by their threads, for want of something better. The floor
// is the roofline's (Williams, Waterman and Patterson, CACM 52, 2009) of the work that the definition declares, with
// the rates of PeakRatesOf; it tells configs apart only where the declared flops or bytes name parameters. Where no
// rate is known it is 1.
//
// It knows nothing of what the threads do: neither instruction-level parallelism nor reuse in caches and registers,
// bank conflicts or spills. tests/bench/results says how little it knows of real kernels. A prediction is a function of
// definition, problem, class and kCostModelVersion alone.
//
// Threads: never changes after it was made; const use from any thread.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "server/cost/launch_cost.h"
#include "server/cost/peak_rates.h"
#include "server/definition/kernel_plan.h"
#include "server/definition/launch_geometry.h"
#include "server/space/space.h"
#include "tunefarm/v1/kernel_service.pb.h"

namespace tunefarm {

// Grows whenever any prediction changes, or what a search makes of them.
inline constexpr int kCostModelVersion = 2;

struct CostPrediction {
  double time = 0;      // compares configs of one space; above 0
  double floor_ns = 0;  // 0: not known
  LaunchCost largest;   // of the launch with the most threads

  tunefarm::v1::CostPrediction ToProto(const tunefarm::v1::Config& config) const;
};

class CostModel {
 public:
  // `space` is what plan->BuildSpace made of the problem and device. InvalidArgument with the reason
  // COST_MODEL_UNAVAILABLE, in one sentence, where nothing can be predicted (LaunchGeometry says when).
  static absl::StatusOr<std::shared_ptr<const CostModel>> Make(std::shared_ptr<const KernelPlan> plan,
                                                               const ResolvedProblem& problem,
                                                               const DeviceClass& device, const Space& space);

  using Scratch = LaunchGeometry::Scratch;
  Scratch MakeScratch() const { return geometry_->MakeScratch(); }
  // Of the config with these value indices. Nothing where a formula cannot be evaluated, a block does not fit or
  // nothing is launched.
  std::optional<CostPrediction> Predict(std::span<const uint16_t> point, Scratch* scratch) const;

 private:
  CostModel(std::shared_ptr<const LaunchGeometry> geometry, DeviceClass device, PeakRates peaks)
      : geometry_(std::move(geometry)), device_(std::move(device)), peaks_(peaks) {}

  const std::shared_ptr<const LaunchGeometry> geometry_;
  const DeviceClass device_;
  const PeakRates peaks_;
};

}  // namespace tunefarm
