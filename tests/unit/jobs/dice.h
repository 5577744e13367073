#pragma once

#include <chrono>
#include <cstdint>

#include "server/base/clock.h"
#include "server/base/random.h"

namespace tunefarm {

// Draws from one stream.
class Dice {
 public:
  explicit Dice(uint64_t seed) : stream_(seed) {}
  // 0 to n - 1.
  int Below(int n) { return static_cast<int>(stream_.NextU32() % static_cast<uint32_t>(n)); }
  bool OneIn(int n) { return Below(n) == 0; }
  Duration Ms(int from, int to) { return std::chrono::milliseconds(from + Below(to - from + 1)); }

 private:
  PhiloxStream stream_;
};

}  // namespace tunefarm
