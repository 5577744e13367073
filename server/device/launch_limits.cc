// What a device can run at all, and how much of it at once.
#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "server/base/format.h"
#include "server/device/device_class.h"

namespace tunefarm {
namespace {

// Registers are given to warps in units, and a block's warps are spread over the four parts of a multiprocessor
// (compute capability 7.0 and up; older devices are not supported by the toolkits that this builds with).
constexpr int64_t kRegisterUnit = 256;
constexpr int64_t kWarpGranularity = 4;
constexpr int64_t kRegistersPerThreadMax = 255;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t RoundUp(int64_t a, int64_t b) { return CeilDiv(a, b) * b; }

// Saturates, so that an absurd launch is refused instead of wrapping around.
int64_t Product(const std::array<int64_t, 3>& extents) {
  int64_t product = 1;
  for (const int64_t extent : extents) {
    if (__builtin_mul_overflow(product, extent, &product)) return std::numeric_limits<int64_t>::max();
  }
  return product;
}

std::string Exceeds(std::string_view what, int64_t value, int64_t limit, const DeviceClass& device) {
  return fmt::format("{}: {} exceed the {} of {}", what, value, limit, device.display_name);
}

std::string ExceedsBytes(std::string_view what, int64_t value, int64_t limit, const DeviceClass& device) {
  const std::string value_text = FormatBytes(static_cast<uint64_t>(value));
  const std::string limit_text = FormatBytes(static_cast<uint64_t>(limit));
  // Rounding must not make the two equal.
  if (value_text == limit_text) {
    return fmt::format("{}: {} bytes exceed the {} bytes of {}", what, value, limit, device.display_name);
  }
  return fmt::format("{}: {} exceed the {} of {}", what, value_text, limit_text, device.display_name);
}

int64_t RegistersPerWarp(const DeviceClass& device, int64_t registers_per_thread) {
  return RoundUp(registers_per_thread * device.warp_size, kRegisterUnit);
}

std::string FirstBrokenExtent(const DeviceClass& device, const LaunchShape& launch) {
  constexpr std::string_view kAxisNames[] = {"x", "y", "z"};
  for (size_t axis = 0; axis < 3; ++axis) {
    if (launch.block[axis] < 1)
      return fmt::format("block {}: {} is not at least 1", kAxisNames[axis], launch.block[axis]);
    if (launch.block[axis] > device.block_max[axis]) {
      return Exceeds(fmt::format("block {}", kAxisNames[axis]), launch.block[axis], device.block_max[axis], device);
    }
  }
  const int64_t threads = Product(launch.block);
  if (threads > device.threads_per_block) {
    return Exceeds("threads per block", threads, device.threads_per_block, device);
  }
  for (size_t axis = 0; axis < 3; ++axis) {
    if (launch.grid[axis] < 1) return fmt::format("grid {}: {} is not at least 1", kAxisNames[axis], launch.grid[axis]);
    if (launch.grid[axis] > device.grid_max[axis]) {
      return Exceeds(fmt::format("grid {}", kAxisNames[axis]), launch.grid[axis], device.grid_max[axis], device);
    }
  }
  return {};
}

}  // namespace

std::string FirstBrokenLimit(const DeviceClass& device, const LaunchShape& launch) {
  if (device.kind != DeviceKind::kCuda) return {};
  if (std::string broken = FirstBrokenExtent(device, launch); !broken.empty()) return broken;
  if (launch.shared_bytes < 0) return fmt::format("shared memory per block: {} is negative", launch.shared_bytes);
  if (launch.shared_bytes > device.shared_bytes_per_block_optin) {
    return ExceedsBytes("shared memory per block", launch.shared_bytes, device.shared_bytes_per_block_optin, device);
  }
  if (launch.registers_per_thread <= 0) return {};
  if (launch.registers_per_thread > kRegistersPerThreadMax) {
    return Exceeds("registers per thread", launch.registers_per_thread, kRegistersPerThreadMax, device);
  }
  const int64_t warps = RoundUp(CeilDiv(Product(launch.block), device.warp_size), kWarpGranularity);
  const int64_t registers = warps * RegistersPerWarp(device, launch.registers_per_thread);
  if (registers > device.registers_per_block) {
    return Exceeds("registers per block", registers, device.registers_per_block, device);
  }
  return {};
}

}  // namespace tunefarm
