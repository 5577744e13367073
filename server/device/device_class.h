// DeviceClass: the properties of a device that results are filed under. They cannot change while the device stays the
// same product; clocks, drivers and toolkits are conditions of a result instead. Sizes in bytes.
//
// A plain value type: copyable, const use from any thread. Pure: knows nothing of drivers.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/expression/config.h"
#include "tunefarm/v1/device.pb.h"

namespace tunefarm {

enum class DeviceKind { kCuda, kHost };

struct DeviceClass {
  DeviceKind kind = DeviceKind::kCuda;
  std::string display_name;    // "NVIDIA H200", or the CPU's model name
  int compute_capability = 0;  // times ten: 90 for 9.0; 0 for a CPU
  int sm_count = 0;            // multiprocessors, or the CPU cores that kernels may use
  int registers_per_sm = 0;    // 32-bit
  int registers_per_block = 0;
  int shared_bytes_per_sm = 0;
  int shared_bytes_per_block = 0;        // without opting in
  int shared_bytes_per_block_optin = 0;  // with opting in
  int reserved_shared_bytes_per_block = 0;
  int threads_per_sm = 0;
  int threads_per_block = 0;
  int warp_size = 0;
  int blocks_per_sm = 0;
  int64_t l2_bytes = 0;  // last-level cache
  int64_t l1_bytes = 0;  // of a CPU core; 0 for a GPU
  int memory_gib = 0;    // rounded to whole GiB
  std::string mig_profile;
  std::string compiler;  // CPU: "g++ 12.2.0"
  std::array<int64_t, 3> grid_max{};
  std::array<int, 3> block_max{};

  bool operator==(const DeviceClass&) const = default;

  // A short stable id: a readable part and 8 hex digits over all properties above
  // ("nvidia_h200-sm90-132x-141g-1a2b3c4d"). Equal properties give equal ids in every build.
  std::string Id() const;

  // The names an expression may use: device.sm_count, device.compute_capability, device.shared_bytes_per_block_optin,
  // ... one per numeric field above, and device.kind ("cuda" or "host"). Int and string values.
  ValueMap Constants() const;
  // Their values alone, in the order of the names: for evaluations, of which there is one for each config.
  std::vector<Value> ConstantValues() const;

  tunefarm::v1::DeviceClass ToProto() const;
  // InvalidArgument for an unset kind, a negative number, or text over 256 bytes.
  static absl::StatusOr<DeviceClass> FromProto(const tunefarm::v1::DeviceClass& proto);
};

// The classes known without hardware: T4, A100, L40S, H100, H200, B200 by short name.
struct KnownClass {
  std::string_view short_name;
  DeviceClass device_class;
};
const std::vector<KnownClass>& KnownClasses();

// By short name, case-insensitive. NotFound with "did you mean" and the list of names.
absl::StatusOr<DeviceClass> FindKnownClass(std::string_view short_name);

// What one launch asks of a device.
struct LaunchShape {
  std::array<int64_t, 3> grid{1, 1, 1};
  std::array<int64_t, 3> block{1, 1, 1};
  int64_t shared_bytes = 0;          // static + dynamic, per block
  int64_t registers_per_thread = 0;  // 0: unknown
};

// The first limit that the launch breaks, in one sentence with both numbers ("shared memory per block: 240 KiB exceed
// the 227 KiB of NVIDIA H200"); empty if it fits.
std::string FirstBrokenLimit(const DeviceClass& device, const LaunchShape& launch);

}  // namespace tunefarm
