// Which random stream of a strategy's seed is for what, so that no two uses share numbers.
#pragma once

#include <cstdint>

namespace tunefarm {

enum class StreamUse : uint64_t {
  kFirstPoints = 1,
  kProposal = 2,
  kObservation = 3,
  kModel = 4,
  kPrior = 5,
  kPool = 6,
  kNearest = 7
};

inline uint64_t StreamOf(StreamUse use, uint64_t number) { return (static_cast<uint64_t>(use) << 56) | number; }

}  // namespace tunefarm
