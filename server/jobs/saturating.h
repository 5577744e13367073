#pragma once

// Counts that may be larger than an integer holds: they stay at the largest number instead of wrapping around.

#include <cstdint>
#include <limits>

namespace tunefarm {

// Of numbers that are not negative, as all here.
template <typename Integer>
constexpr Integer SaturatingAdd(Integer a, Integer b) {
  Integer sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<Integer>::max() : sum;
}

// Rounded towards 0. NaN is 0.
constexpr int64_t SaturatingInt64(double value) {
  constexpr double kTooLarge = 9223372036854775808.0;  // 2^63
  if (!(value > 0)) return 0;
  return value >= kTooLarge ? std::numeric_limits<int64_t>::max() : static_cast<int64_t>(value);
}

}  // namespace tunefarm
