#include "server/cost/cost_model.h"

#include <algorithm>
#include <utility>

#include "server/base/status.h"
#include "server/measure/roofline.h"

namespace tunefarm {

tunefarm::v1::CostPrediction CostPrediction::ToProto(const tunefarm::v1::Config& config) const {
  tunefarm::v1::CostPrediction proto;
  *proto.mutable_config() = config;
  proto.set_relative_time(time);
  proto.set_threads_per_block(largest.threads_per_block);
  proto.set_blocks(largest.blocks);
  proto.set_shared_bytes(largest.shared_bytes);
  proto.set_blocks_per_sm(largest.occupancy.blocks_per_sm);
  proto.set_limited_by(std::string(NameOf(largest.occupancy.limit)));
  proto.set_occupancy(largest.occupancy.share);
  proto.set_waves(largest.waves);
  proto.set_wave_efficiency(largest.waves_share);
  proto.set_tile_efficiency(largest.tiles);
  proto.set_floor_ns(floor_ns);
  proto.set_latency_hiding(largest.hiding);
  proto.set_lane_efficiency(largest.lanes);
  return proto;
}

absl::StatusOr<std::shared_ptr<const CostModel>> CostModel::Make(std::shared_ptr<const KernelPlan> plan,
                                                                 const ResolvedProblem& problem,
                                                                 const DeviceClass& device, const Space& space) {
  const PeakRates peaks = PeakRatesOf(device, plan->FlopsUnit(problem));
  auto geometry = LaunchGeometry::Make(std::move(plan), problem, device, space);
  if (!geometry.ok()) {
    return WithReason(
        InvalidArgument("the cost model has nothing to go by: {}; leave it off", MessageOf(geometry.status())),
        "COST_MODEL_UNAVAILABLE");
  }
  return std::shared_ptr<const CostModel>(new CostModel(*std::move(geometry), device, peaks));
}

std::optional<CostPrediction> CostModel::Predict(std::span<const uint16_t> point, Scratch* scratch) const {
  ConfigGeometry geometry;
  if (!geometry_->Read(point, scratch, &geometry)) return std::nullopt;
  CostPrediction prediction;
  double threads_sum = 0, inverse_sum = 0, most = 0;
  for (const KnownLaunch& launch : geometry.launches) {
    const std::optional<LaunchCost> cost = CostOfLaunch(device_, launch);
    if (!cost.has_value()) return std::nullopt;
    const double threads =
        static_cast<double>(cost->threads_per_block) * static_cast<double>(std::max<int64_t>(1, cost->blocks));
    threads_sum += threads;
    inverse_sum += threads / cost->efficiency();
    if (threads <= most) continue;
    most = threads;
    prediction.largest = *cost;
  }
  if (!(threads_sum > 0)) return std::nullopt;
  RooflineInput input;
  input.flops = geometry.flops;
  input.bytes = geometry.bytes;
  input.flops_per_second = peaks_.flops_per_second;
  input.bytes_per_second = peaks_.bytes_per_second;
  prediction.floor_ns = ComputeRoofline(input).floor_ns;
  prediction.time = (prediction.floor_ns > 0 ? prediction.floor_ns : 1) * inverse_sum / threads_sum;
  return prediction;
}

}  // namespace tunefarm
