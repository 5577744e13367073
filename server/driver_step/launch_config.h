// A launch in the structures of cuda.h, without it, so that a launch has the extents and attributes that tuning has
// measured.
// server/worker/cuda/launch_sequence.cc compares the numbers with cuda.h.
//
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "server/driver_step/step_evaluator.h"

namespace tunefarm::driver_step {

inline constexpr int kCooperativeId = 2;
inline constexpr int kClusterDimensionId = 4;
inline constexpr int kClusterSchedulingPolicyPreferenceId = 5;
inline constexpr int kProgrammaticStreamSerializationId = 6;
inline constexpr int kClusterSchedulingPolicySpread = 1;

inline constexpr size_t kAttributesMax = 4;

struct LaunchFlags {
  bool cooperative = false, programmatic_stream_serialization = false;
  // The blocks of a cluster prefer SMs of their own. No effect without clusters.
  bool spread_clusters = false;
};

// What cuLaunchKernelEx is told: `config` is CUlaunchConfig and has its attributes in `attributes`, room for
// kAttributesMax of CUlaunchAttribute, by whichever declaration.
template <typename Stream, typename Attribute, typename Config>
void WriteConfig(const LaunchValues& values, const LaunchFlags& flags, Stream stream, Attribute* attributes,
                 Config* config) {
  unsigned int count = 0;
  const auto add = [&](int id, const void* value, size_t bytes) {
    Attribute& attribute = attributes[count++];
    attribute = {};
    attribute.id = static_cast<decltype(attribute.id)>(id);
    std::memcpy(&attribute.value, value, bytes);
  };
  const int set = 1;
  if (values.cluster) add(kClusterDimensionId, values.cluster->data(), sizeof(*values.cluster));
  if (values.cluster && flags.spread_clusters) {
    add(kClusterSchedulingPolicyPreferenceId, &kClusterSchedulingPolicySpread, sizeof(kClusterSchedulingPolicySpread));
  }
  if (flags.cooperative) add(kCooperativeId, &set, sizeof(set));
  if (flags.programmatic_stream_serialization) add(kProgrammaticStreamSerializationId, &set, sizeof(set));
  *config = {};
  config->gridDimX = values.grid[0], config->gridDimY = values.grid[1], config->gridDimZ = values.grid[2];
  config->blockDimX = values.block[0], config->blockDimY = values.block[1], config->blockDimZ = values.block[2];
  config->sharedMemBytes = values.dynamic_shared_bytes;
  config->hStream = stream;
  config->attrs = count == 0 ? nullptr : attributes;
  config->numAttrs = count;
}

}  // namespace tunefarm::driver_step
