// Counting the solutions of a search program, and drawing from them by their counts.
//
// Counting remembers: the number of solutions below a depth depends only on the numbers that deeper operations read
// (the frontier), so that it is computed once for each combination of those. What is not searched is not visited:
// spaces of 10^12 configs and more are counted and sampled in milliseconds where their rules are local.
//
// Threads: const use from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "server/base/random.h"
#include "server/space/search_program.h"
#include "server/space/search_state.h"

namespace tunefarm::space_internal {

class SearchMemo;

// How many solutions a program has. kFault with the reason in `fault`.
WalkEnd CountSolutions(const SearchProgram& program, SearchBudget* budget, SolutionCount* count, absl::Status* fault);

// The number of solutions of a program, and what drawing one of them at random needs.
class CountedSolutions {
 public:
  // The program must outlive this.
  explicit CountedSolutions(const SearchProgram& program);
  ~CountedSolutions();

  // One of the two, once. As CountSolutions, with kBudget also when there is too much to remember.
  WalkEnd CountAll(SearchBudget budget, absl::Status* fault);
  // Remembers all counts of the first depths only, up to some ten thousands; Draw then counts again below these.
  WalkEnd CountPrefixes(SearchBudget budget, absl::Status* fault);

  // After kDone.
  SolutionCount total() const { return total_; }
  // A uniform solution, by parameter into `row`; there must be one. False: the limit has ended.
  bool Draw(PhiloxStream& random, const WorkLimit* limit, std::vector<uint16_t>* row) const;

 private:
  // The searched values of the solution of a rank, into `row`; its rank among those with these values. None: the limit
  // has ended.
  std::optional<SolutionCount> FollowCounts(SolutionCount rank, const WorkLimit* limit,
                                            std::vector<uint16_t>* row) const;

  const SearchProgram& program_;
  std::unique_ptr<SearchMemo> memo_;  // never changes once they are counted
  SolutionCount total_ = 0;
};

}  // namespace tunefarm::space_internal
