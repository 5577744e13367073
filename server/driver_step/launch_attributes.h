// Attributes of a launch in the numbers of cuda.h, without it, so that a launch has those that tuning has measured.
// server/worker/cuda/launch_sequence.cc compares the numbers with cuda.h.
//
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tunefarm::driver_step {

inline constexpr int kCooperativeId = 2;
inline constexpr int kClusterDimensionId = 4;
inline constexpr int kProgrammaticStreamSerializationId = 6;

inline constexpr size_t kAttributesMax = 3;

struct LaunchAttributes {
  const uint32_t* cluster = nullptr;  // three extents; nullptr: no cluster
  bool cooperative = false, programmatic_stream_serialization = false;
};

// Writes at most kAttributesMax of them; returns how many. `Attribute` is CUlaunchAttribute, by whichever declaration.
template <typename Attribute>
unsigned int WriteAttributes(const LaunchAttributes& values, Attribute* attributes) {
  unsigned int count = 0;
  const auto add = [&](int id, const void* value, size_t bytes) {
    Attribute& attribute = attributes[count++];
    attribute = {};
    attribute.id = static_cast<decltype(attribute.id)>(id);
    std::memcpy(&attribute.value, value, bytes);
  };
  const int set = 1;
  if (values.cluster != nullptr) add(kClusterDimensionId, values.cluster, 3 * sizeof(*values.cluster));
  if (values.cooperative) add(kCooperativeId, &set, sizeof(set));
  if (values.programmatic_stream_serialization) add(kProgrammaticStreamSerializationId, &set, sizeof(set));
  return count;
}

}  // namespace tunefarm::driver_step
