// Writes package files (client/launch/package_format.h). Free functions; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/definition/kernel_plan.h"
#include "server/device/device_class.h"
#include "server/expression/config.h"
#include "tunefarm/v1/launch_sequence.pb.h"

namespace tunefarm {

// A config for one problem on one device class, with all that its launches need.
struct PackagedChoice {
  bool is_default = false;
  DeviceClass device_class;
  Config dims;  // every dim of the kernel
  Config config;
  v1::LaunchSequence sequence;
  std::string binary;     // a cubin, or a shared object for a CPU
  std::string toolchain;  // that made it: "NVRTC 13.0", "g++ 12.2.0"
  double median_ns = 0;   // 0: not measured
};

struct PackagedKernel {
  std::shared_ptr<const KernelPlan> plan;
  std::vector<PackagedChoice> choices;
};

// The file's bytes; the same arguments always give the same. Equal texts, values, formulas and binaries are stored
// once. InvalidArgument, naming it, for what is beyond the format's limits.
absl::StatusOr<std::string> WritePackage(const std::vector<PackagedKernel>& kernels, int64_t made_at_ms);

}  // namespace tunefarm
