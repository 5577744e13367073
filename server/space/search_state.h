// A SearchState is one search of a program while it runs: which parameters are bound to what, and what follows from
// that.
//
// A rule that cannot be evaluated at some values does not end the search: another rule may reject the point once more
// parameters are bound. A fault counts where it is found at a solution.
//
// Threads: one search is one thread's.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/base/work_limit.h"
#include "server/space/search_program.h"

namespace tunefarm::space_internal {

enum class WalkEnd {
  kDone,
  kStopped,  // enough was found
  kBudget,   // there were more values to visit than the search may, or its WorkLimit has ended
  kFault,    // a rule cannot be evaluated at a point that no rule rejects; SearchState::FaultStatus says which
};

// How much a search may do.
struct SearchBudget {
  uint64_t nodes = 0;                // values that may still be visited; counts down
  const WorkLimit* limit = nullptr;  // null: none
};

// Asked now and then by a search that shares its bounds with others.
class SearchWatch {
 public:
  virtual ~SearchWatch() = default;
  // False: the search is to stop, with kStopped.
  virtual bool GoOn(uint64_t nodes_left) = 0;
};

struct SearchState {
  // Of a program that is not too large.
  SearchState(const SearchProgram& program, const SearchBudget& budget);

  // Visits all values of a depth whose earlier ones are bound, depth < free_from(). The positions of those that no rule
  // rejects go to alive[depth]. kFault when the depth is the last one that rules restrict and a rule cannot be
  // evaluated at one of the solutions.
  WalkEnd Visit(size_t depth);
  // Binds the parameter of a visited depth to one of the alive positions.
  void Bind(size_t depth, uint16_t position);
  // What the solutions below `depth` depend on; valid until the next call for the same depth.
  const std::vector<int64_t>& FrontierKey(size_t depth);
  // Whether a rule could not be evaluated at the values bound at `depth` and above.
  bool IsFaulty(size_t depth) const { return fault_depth <= depth; }
  // The error at these values.
  absl::Status FaultStatus() const;

  bool GoOn() {
    ask_below = nodes > kNodesBetween ? nodes - kNodesBetween : 0;
    return watch->GoOn(nodes);
  }

  // How many nodes are visited from one question to the next: some hundred microseconds.
  static constexpr uint64_t kNodesBetween = 1 << 15;
  static constexpr size_t kNoDepth = SIZE_MAX;

  const SearchProgram& program;
  std::vector<int64_t> memory;
  std::vector<std::vector<uint16_t>> alive;  // by depth
  std::vector<uint16_t> positions;           // by depth: of the bound values
  std::vector<std::vector<int64_t>> key;     // by depth: scratch
  std::optional<Binding> binding;            // where rules are judged by their Expression
  // By depth: the alive positions at which a rule cannot be evaluated, and the first such rule. Empty before
  // has_faults.
  std::vector<std::vector<std::pair<uint16_t, int>>> faulty;
  size_t fault_depth = kNoDepth;  // the first depth at whose bound value a rule could not be evaluated
  int fault_rule = -1;            // that rule
  bool has_faults = false;        // whether one may have been met
  uint64_t nodes = 0;             // left
  WorkPace pace;                  // of the budget's limit
  SearchWatch* watch = nullptr;   // null: nobody
  uint64_t ask_below = 0;         // it is asked when fewer nodes are left

 private:
  // False: the limit has ended.
  bool JudgeRules(size_t depth);
  void FollowFault(size_t depth, uint16_t position);
};

}  // namespace tunefarm::space_internal
