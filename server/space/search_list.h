// Listing the solutions of a search program: large lists on several threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "server/space/search_program.h"
#include "server/space/search_state.h"

namespace tunefarm::space_internal {

// How the value indices of a config stand in one number: smaller numbers for the earlier configs of the space's order.
struct KeyLayout {
  explicit KeyLayout(const std::vector<Parameter>& parameters);

  uint16_t IndexIn(uint64_t key, size_t parameter) const {
    const uint64_t mask = (uint64_t{1} << bits[parameter]) - 1;
    return static_cast<uint16_t>((key >> shift[parameter]) & mask);
  }

  std::vector<int> shift;  // by parameter
  std::vector<int> bits;
  int total_bits = 0;  // above 64 there is no such number
};

// The keys of all solutions, ascending, found on up to `threads` threads where there are many. kStopped when there are
// more than `limit`. `nodes` counts down, but not by a search that is stopped. kFault with the reason in `fault`.
WalkEnd ListKeys(const SearchProgram& program, const KeyLayout& layout, uint64_t limit, int threads, uint64_t* nodes,
                 std::vector<uint64_t>* keys, absl::Status* fault);

// The solutions of `state`, a new one: for each as many value indices as the space has parameters, 0 for
// those that are not of the program; not sorted. kStopped when there are more than `limit`.
WalkEnd ListRows(SearchState* state, uint64_t limit, std::vector<uint16_t>* rows);

}  // namespace tunefarm::space_internal
