// The shapes of the filled catalog, by number: what fill_catalog files and lookup_load asks for.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace tunefarm {

struct Shape {
  int64_t m = 0, n = 0, k = 0;

  std::vector<std::pair<const char*, int64_t>> dims() const { return {{"M", m}, {"N", n}, {"K", k}}; }
};

// All different up to 4,000,000; none is a multiple of 16 plus 8, so that such a shape is never filed.
inline Shape ShapeOf(int64_t number) {
  return {16 * (1 + number % 100), 64 * (1 + number / 100 % 40), 64 * (1 + number / 4000)};
}

}  // namespace tunefarm
