// The search programs of a space: its rules split into their smallest groups of parameters, each counted and listed
// apart.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/work_limit.h"
#include "server/space/search_list.h"
#include "server/space/search_program.h"
#include "server/space/space_rules.h"

namespace tunefarm::space_internal {

// Threads: const use from any thread.
class SpaceSearch {
 public:
  using Programs = std::vector<std::shared_ptr<const SearchProgram>>;

  // The rules must outlive this; they were compiled with the same symbols, and narrowed. Where the options' limit ends
  // meanwhile, this is not to be used.
  SpaceSearch(const SpaceRules& rules, const SymbolTable& symbols, const SpaceOptions& options);

  // A rule that rejects every point was found without searching.
  bool is_empty() const { return is_empty_; }
  const SpaceRules& rules() const { return rules_; }
  const SpaceOptions& options() const { return options_; }
  const KeyLayout& layout() const { return layout_; }
  const Programs& programs() const { return programs_; }
  // Programs in which Expressions judge all rules, in groups of the parameters that rules connect. Slower to run, but a
  // rule is in one of them as a whole.
  Programs JudgedPrograms() const;

  // The number of valid configs. These fail with the error of a rule that cannot be evaluated, with ResourceExhausted,
  // or as the options' limit says. `budget.limit` and `work_limit`: the options' or a part of it.
  absl::StatusOr<SolutionCount> Count(const SearchBudget& budget) const;
  absl::StatusOr<ConfigTable> List(uint64_t limit, const WorkLimit* work_limit) const;

  // Why a search with kBudget was given up.
  absl::Status BudgetStatus() const;
  // OK while the options' limit lets the work go on.
  absl::Status LimitStatus() const { return options_.limit == nullptr ? absl::OkStatus() : options_.limit->Why(); }

 private:
  // `memory` says afterwards whether there was room for what the programs hold; null: they are small.
  Programs BuildPrograms(RuleGraph* graph, const std::vector<Conjunct>& conjuncts, MemoryUse* memory) const;
  // The product of what `search` counts in each program; it is called and ends as CountSolutions.
  template <typename Search>
  absl::StatusOr<SolutionCount> SearchAll(const SearchBudget& whole, const Search& search) const;
  // List where a config does not fit into a key.
  absl::StatusOr<ConfigTable> ListWide(uint64_t limit, const WorkLimit* work_limit) const;
  absl::Status MemoryStatus() const;
  std::string CartesianText() const;
  ConfigTable UnpackKeys(const std::vector<uint64_t>& keys, int threads) const;
  absl::Status TooManyToList(uint64_t limit) const;

  const SpaceRules& rules_;
  const SpaceOptions options_;
  const KeyLayout layout_;
  MemoryUse memory_;  // of the programs
  Programs programs_;
  bool is_empty_ = false;
};

// As Space::CountByRule; in space_count.cc.
absl::StatusOr<PruneReport> CountByRule(const SpaceSearch& search, double cartesian, uint64_t exact_max);

// "1,728" style digits, "1.2e18" where there are too many; "≈" before what is not exact, and only there.
std::string CountText(double count, bool is_exact);

}  // namespace tunefarm::space_internal
