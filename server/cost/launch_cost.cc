#include "server/cost/launch_cost.h"

#include <algorithm>

namespace tunefarm {

double HidingOf(int64_t warps) {
  return std::min(1.0, static_cast<double>(warps) / static_cast<double>(kSaturatingWarps));
}

double WaveLoss(int64_t blocks, int64_t multiprocessors, int64_t resident, int64_t warps) {
  const int64_t round = multiprocessors * resident;
  const int64_t full = blocks / round;
  const int64_t rest = blocks - full * round;
  const double steady = HidingOf(resident * warps);
  // In the time that one block takes on a multiprocessor with all latency hidden.
  double time = static_cast<double>(full * resident) / steady;
  if (rest > 0) {
    const int64_t together = (rest + multiprocessors - 1) / multiprocessors;
    time += static_cast<double>(together) / HidingOf(together * warps);
  }
  const double ideal = static_cast<double>(blocks) / static_cast<double>(multiprocessors) / steady;
  return std::max(1.0, time / ideal);
}

std::optional<LaunchCost> CostOfLaunch(const DeviceClass& device, const KnownLaunch& launch) {
  LaunchCost cost;
  cost.occupancy = ComputeOccupancy(device, launch.shape);
  if (cost.occupancy.blocks_per_sm < 1 || device.sm_count < 1) return std::nullopt;
  const auto& [x, y, z] = launch.shape.block;
  cost.threads_per_block = x * y * z;
  cost.shared_bytes = launch.shape.shared_bytes;
  const int64_t warps = cost.occupancy.warps_per_block;
  const int64_t resident = cost.occupancy.blocks_per_sm;
  cost.lanes = static_cast<double>(cost.threads_per_block) / static_cast<double>(warps * device.warp_size);
  cost.tiles = launch.unrounded_share;
  cost.hiding = HidingOf(resident * warps);
  if (!launch.is_grid_known) return cost;
  const auto& grid = launch.shape.grid;
  if (__builtin_mul_overflow(grid[0], grid[1], &cost.blocks) ||
      __builtin_mul_overflow(cost.blocks, grid[2], &cost.blocks)) {
    return std::nullopt;
  }
  cost.waves = static_cast<double>(cost.blocks) / static_cast<double>(resident * device.sm_count);
  cost.waves_share = 1 / WaveLoss(cost.blocks, device.sm_count, resident, warps);
  return cost;
}

}  // namespace tunefarm
