// Sorting many numbers of few bits.
#pragma once

#include <cstdint>
#include <vector>

namespace tunefarm::space_internal {

// Ascending; no key has a bit at `bits` or above. Takes twice their memory, and time in proportion to their number.
void SortKeys(int bits, std::vector<uint64_t>* keys);

}  // namespace tunefarm::space_internal
