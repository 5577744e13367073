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

// What a list may hold and how it is made.
struct ListOptions {
  uint64_t limit = 0;           // solutions
  int threads = 1;              // up to so many, where there are many solutions
  MemoryUse* memory = nullptr;  // of this program's list and others
  uint64_t bytes_each = 0;      // what one solution takes of it, with what is made of the list
};

// The keys of all solutions, ascending. kStopped when there are more than the limit, or than the memory has room for;
// the memory says then that it was refused. The budget's nodes count down, but not by a search that is stopped. kFault
// with the reason in `fault`.
WalkEnd ListKeys(const SearchProgram& program, const KeyLayout& layout, const ListOptions& options,
                 SearchBudget* budget, std::vector<uint64_t>* keys, absl::Status* fault);

// The solutions of `state`, a new one: for each as many value indices as the space has parameters, 0 for
// those that are not of the program; not sorted. kStopped as ListKeys.
WalkEnd ListRows(SearchState* state, const ListOptions& options, std::vector<uint16_t>* rows);

}  // namespace tunefarm::space_internal
