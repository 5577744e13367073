// The classes that are known without hardware, with the properties that the CUDA driver reports for them.
#include <fmt/core.h>

#include "server/base/edit_distance.h"
#include "server/base/status.h"
#include "server/device/device_class.h"

namespace tunefarm {
namespace {

constexpr int kKiB = 1024;
constexpr int64_t kMiB = 1024 * 1024;

struct Architecture {
  int compute_capability;
  int shared_kib_per_sm;
  int shared_kib_per_block_optin;
  int reserved_shared_bytes_per_block;
  int threads_per_sm;
  int blocks_per_sm;
};

// CUDA C++ Programming Guide, "Compute Capabilities". From 8.0 on the system keeps 1 KiB of shared memory per block.
constexpr Architecture kTuring = {75, 64, 64, 0, 1024, 16};
constexpr Architecture kAmpere = {80, 164, 163, kKiB, 2048, 32};
constexpr Architecture kAda = {89, 100, 99, kKiB, 1536, 24};
constexpr Architecture kHopper = {90, 228, 227, kKiB, 2048, 32};
constexpr Architecture kBlackwell = {100, 228, 227, kKiB, 2048, 32};

DeviceClass Make(const Architecture& architecture, std::string_view display_name, int sm_count, int64_t l2_bytes,
                 int memory_gib) {
  DeviceClass device;
  device.kind = DeviceKind::kCuda;
  device.display_name = std::string(display_name);
  device.compute_capability = architecture.compute_capability;
  device.sm_count = sm_count;
  device.registers_per_sm = 65'536;
  device.registers_per_block = 65'536;
  device.shared_bytes_per_sm = architecture.shared_kib_per_sm * kKiB;
  device.shared_bytes_per_block = 48 * kKiB;
  device.shared_bytes_per_block_optin = architecture.shared_kib_per_block_optin * kKiB;
  device.reserved_shared_bytes_per_block = architecture.reserved_shared_bytes_per_block;
  device.threads_per_sm = architecture.threads_per_sm;
  device.threads_per_block = 1024;
  device.warp_size = 32;
  device.blocks_per_sm = architecture.blocks_per_sm;
  device.l2_bytes = l2_bytes;
  device.memory_gib = memory_gib;
  device.grid_max = {2'147'483'647, 65'535, 65'535};
  device.block_max = {1024, 1024, 64};
  return device;
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

}  // namespace

const std::vector<KnownClass>& KnownClasses() {
  // Memory is what the driver reports as usable, so less than the number in the product's name.
  static const auto& classes = *new std::vector<KnownClass>{
      {"T4", Make(kTuring, "Tesla T4", 40, 4 * kMiB, 15)},
      {"A100", Make(kAmpere, "NVIDIA A100-SXM4-80GB", 108, 40 * kMiB, 79)},
      {"L40S", Make(kAda, "NVIDIA L40S", 142, 96 * kMiB, 44)},
      {"H100", Make(kHopper, "NVIDIA H100 80GB HBM3", 132, 50 * kMiB, 79)},
      {"H200", Make(kHopper, "NVIDIA H200", 132, 60 * kMiB, 140)},
      {"B200", Make(kBlackwell, "NVIDIA B200", 148, 132'644'864, 178)},
  };
  return classes;
}

absl::StatusOr<DeviceClass> FindKnownClass(std::string_view short_name) {
  std::vector<std::string> names;
  std::string list;
  for (const KnownClass& known : KnownClasses()) {
    if (Lower(known.short_name) == Lower(short_name)) return known.device_class;
    names.emplace_back(known.short_name);
    list += fmt::format("{}{}", list.empty() ? "" : ", ", known.short_name);
  }
  const auto closest = ClosestMatch(short_name, names);
  const std::string hint = closest.has_value() ? fmt::format("; did you mean '{}'?", *closest) : "";
  return WithReason(NotFound("device '{}' is not one of the known devices ({}){}", short_name, list, hint),
                    "UNKNOWN_DEVICE");
}

}  // namespace tunefarm
