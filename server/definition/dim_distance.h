// How far the tuned value of a dim is from the asked one, by the rules of tunefarm.v1.LookupRule: for the daemon's
// look-ups (server/catalog/match_rules.h) and for those of packages (client/launch/choice.h). Needs the C library
// alone.
//
// Threads: pure functions.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

namespace tunefarm {

// Of positive numbers; others count as 1. At most the greatest int64.
inline int64_t BoundedProduct(int64_t a, int64_t b) {
  int64_t product = 0;
  if (b <= 0) return a;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<int64_t>::max() : product;
}

// Nothing if the tuned value does not answer. `rule` has a number of LookupRule; `bounds` are ascending, those of
// BUCKET. Away from the asked value, in either direction, distances do not shrink and none stays none: the search for
// the nearest shape stops where it meets the first one. Of PRODUCT dims the values are the products.
inline std::optional<double> DimDistance(uint32_t rule, std::span<const int64_t> bounds, int64_t asked, int64_t tuned) {
  constexpr uint32_t kLog = 2, kBucket = 3, kNextPowerOfTwo = 4, kProduct = 5;
  if (asked == tuned) return 0;
  if (rule == kBucket) {
    const auto bucket = [bounds](int64_t value) { return std::lower_bound(bounds.begin(), bounds.end(), value); };
    return bucket(asked) == bucket(tuned) ? std::make_optional(0.0) : std::nullopt;
  }
  if (asked <= 0 || tuned <= 0) return std::nullopt;
  const double octaves = std::abs(std::log2(static_cast<double>(asked) / static_cast<double>(tuned)));
  if (rule == kLog || rule == kProduct) return octaves;
  if (rule != kNextPowerOfTwo || tuned < asked) return std::nullopt;
  const bool is_within = static_cast<uint64_t>(tuned) <= std::bit_ceil(static_cast<uint64_t>(asked));
  return is_within ? std::make_optional(octaves) : std::nullopt;
}

}  // namespace tunefarm
