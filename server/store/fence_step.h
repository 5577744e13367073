#pragma once

#include <cstdint>

#include "server/base/random.h"

namespace tunefarm {

// By how much a token or an epoch grows: 1 to 2^44. A database may be put back to what it was an hour ago under agents
// and daemons that go on. Numbers that counted up would then be given a second time, and what is said under the one be
// taken for what is said under the other. 63 bits are enough for half a million claims of one unit.
inline int64_t FenceStep(EntropySource* entropy) {
  uint64_t random = 0;
  entropy->Fill(&random, sizeof(random));
  return static_cast<int64_t>(random >> 20) + 1;
}

}  // namespace tunefarm
