#include "server/space/key_sort.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

namespace tunefarm::space_internal {
namespace {

constexpr int kDigitBits = 11;
constexpr size_t kDigits = size_t{1} << kDigitBits;

}  // namespace

void SortKeys(int bits, std::vector<uint64_t>* keys) {
  if (std::is_sorted(keys->begin(), keys->end())) return;
  if (keys->size() < 512) {
    std::sort(keys->begin(), keys->end());
    return;
  }
  // Bits that all keys share need no pass.
  uint64_t differing = 0;
  for (const uint64_t key : *keys) differing |= key ^ (*keys)[0];
  std::vector<uint64_t> other(keys->size());
  for (int shift = 0; shift < bits; shift += kDigitBits) {
    const int skipped = std::countr_zero(differing >> shift);
    shift += differing >> shift == 0 ? bits : skipped;
    if (shift >= bits) break;
    std::array<size_t, kDigits> starts{};
    for (const uint64_t key : *keys) ++starts[(key >> shift) & (kDigits - 1)];
    size_t sum = 0;
    for (size_t& start : starts) sum += std::exchange(start, sum);
    for (const uint64_t key : *keys) other[starts[(key >> shift) & (kDigits - 1)]++] = key;
    keys->swap(other);
  }
}

}  // namespace tunefarm::space_internal
