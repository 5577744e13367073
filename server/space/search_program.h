// A SearchProgram finds the solutions of one group of parameters that rules connect: it counts them, lists them and
// draws them.
//
// Parameters are bound one at a time in a fixed order. At each depth a few operations compute, for all values of the
// depth's parameter at once, everything in the rules that becomes known there; sums and products go on from the one
// number they have reached. A rule is checked where its last parameter is bound, and before that, from its first
// parameter on, whether any values of the others could still satisfy it.
//
// Counting remembers: the number of solutions below a depth depends only on the numbers that deeper operations read
// (the frontier), so that it is computed once for each combination of those. What is not searched is not visited:
// spaces of 10^12 configs and more are counted and sampled in milliseconds where their rules are local.
//
// Threads: const use from any thread; each search has its own state.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/random.h"
#include "server/space/rule_graph.h"
#include "server/space/space_internal.h"

namespace tunefarm::space_internal {

// A rule, or one side of an `and` in one.
struct Conjunct {
  RuleGraph::Id value = -1;  // -1: judged by the rule's Expression
  RuleGraph::Id fault = -1;
  int rule = -1;
  std::vector<int> variables;
};

// What counting has learnt and Draw reads. Written by one thread; then const.
class SearchMemo;

class SearchProgram {
 public:
  // `graph` gets more nodes. `domains` are beside `order`.
  SearchProgram(const Space::Impl& impl, RuleGraph* graph, std::vector<int> order,
                std::vector<std::vector<uint16_t>> domains, const std::vector<Conjunct>& conjuncts);
  ~SearchProgram();
  SearchProgram(SearchProgram&&) noexcept;

  // In the order of the search.
  const std::vector<int>& parameters() const { return order_; }
  // Whether no rule restricts the parameters.
  bool is_free() const { return free_from_ == 0; }
  // The combinations of values before any rule on several parameters.
  double cartesian() const { return cartesian_; }

  // All return kFault where a rule cannot be evaluated at a point that no rule checked so far rejects, and where the
  // program is too large to run; the caller then asks the slow search. `nodes` counts down.
  WalkEnd Count(uint64_t* nodes, SolutionCount* count) const;
  // As Count, leaving what was learnt in `memo` for Draw. kBudget also when there is too much to remember.
  WalkEnd CountInto(SearchMemo* memo, uint64_t* nodes, SolutionCount* count) const;
  // The keys of all solutions, ascending, found on up to `threads` threads where there are many. kStopped when there
  // are more than `limit`; nothing is taken from `nodes` then.
  WalkEnd List(const KeyLayout& layout, uint64_t limit, int threads, uint64_t* nodes,
               std::vector<uint64_t>* keys) const;
  // A uniform solution, by parameter into `row`; `total` is what CountInto counted, not 0. False when a rule faults.
  bool Draw(const SearchMemo& memo, SolutionCount total, PhiloxStream& random, std::vector<uint16_t>* row) const;

  // Adds to (*occurring)[parameter] the value indices of all solutions, as CountInto left them in `memo`; ascending.
  // False when a rule faults.
  bool FindOccurring(const SearchMemo& memo, std::vector<std::vector<uint16_t>>* occurring) const;

  static std::shared_ptr<SearchMemo> NewMemo();

 private:
  struct Instruction {
    GraphOp op = GraphOp::kConstant;
    // Places in the state's memory, and how far the operand moves from one value to the next: 0 or 1.
    uint32_t out = 0;
    uint32_t a = 0;
    uint32_t b = 0;
    uint32_t c = 0;
    uint8_t a_step = 0;
    uint8_t b_step = 0;
    uint8_t c_step = 0;
  };
  struct FaultyCheck {
    uint32_t value = 0;  // places of vectors
    uint32_t fault = 0;
    uint8_t value_step = 0;
    uint8_t fault_step = 0;
  };
  struct Copy {
    uint32_t from = 0;  // place of a vector
    uint32_t to = 0;    // place of a number
  };
  struct Depth {
    std::vector<Instruction> instructions;
    std::vector<uint32_t> checks;  // places of vectors of 0 and 1
    std::vector<FaultyCheck> faulty_checks;
    std::vector<int> judged;              // rules that their Expression judges
    std::vector<Copy> exports;            // what deeper operations read, of the value that is bound
    std::vector<uint32_t> frontier;       // places of the numbers that this depth and deeper ones read
    std::vector<int> frontier_positions;  // earlier depths whose values are read by rules judged here or deeper
    bool is_remembered = true;
  };
  // What a search changes.
  struct State;

  struct Layout;
  void Order(const std::vector<Conjunct>& conjuncts, RuleGraph* graph);
  void FilterDomains(const RuleGraph& graph);
  void Place(const RuleGraph& graph);
  void FindFrontiers(const RuleGraph& graph, const Layout& layout);
  int DepthOf(const GraphNode& node) const;

  // Computes and checks all values of a depth; the positions that pass go to state->alive[depth].
  WalkEnd Visit(size_t depth, State* state) const;
  WalkEnd JudgeRules(size_t depth, State* state) const;
  void BindPosition(size_t depth, uint16_t position, State* state) const;
  WalkEnd CountBelow(size_t depth, State* state, SearchMemo* memo, SolutionCount* count) const;
  WalkEnd CountHere(size_t depth, State* state, SearchMemo* memo, SolutionCount* count) const;
  // What the counts below `depth` depend on, into state->key[depth].
  const std::vector<int64_t>& FrontierKey(size_t depth, State* state) const;
  bool MarkOccurring(size_t depth, State* state, const SearchMemo& memo, SearchMemo* seen,
                     std::vector<std::vector<bool>>* marks) const;
  class Listing;
  std::vector<uint64_t> FreeKeys(const KeyLayout& layout) const;

  const Space::Impl& impl_;
  std::vector<int> order_;
  std::vector<std::vector<uint16_t>> domains_;
  std::vector<int> depth_of_;  // by parameter
  double cartesian_ = 1;
  size_t free_from_ = 0;  // no check at this depth or below
  SolutionCount free_product_ = 1;
  std::vector<Depth> depths_;
  std::vector<int64_t> memory_;  // the initial state: constants and what depends on one parameter alone
  bool uses_bindings_ = false;
  bool is_too_large_ = false;  // its memory would be: it answers nothing

  // While it is built: by depth.
  std::vector<std::vector<RuleGraph::Id>> check_nodes_;
  std::vector<std::vector<std::pair<RuleGraph::Id, RuleGraph::Id>>> faulty_nodes_;
};

}  // namespace tunefarm::space_internal
