// A SearchProgram is what finds the solutions of one group of parameters that rules connect. A SearchState runs it
// (search_state.h); its solutions are counted and drawn in search_count.h and listed in search_list.h.
//
// Parameters are bound one at a time in a fixed order. At each depth a few operations compute, for all values of the
// depth's parameter at once, everything in the rules that becomes known there; sums and products go on from the one
// number they have reached. A rule is checked where its last parameter is bound, and before that, from its first
// parameter on, whether any values of the others could still satisfy it. A rule that has no place in the graph is
// judged by its Expression where its last parameter is bound.
//
// Threads: const use from any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "server/base/work_limit.h"
#include "server/space/rule_graph.h"
#include "server/space/space_rules.h"

namespace tunefarm::space_internal {

// A number of solutions; kCountMax stands for itself and everything above.
using SolutionCount = unsigned __int128;
inline constexpr SolutionCount kCountMax = ~SolutionCount{0};

inline SolutionCount MultiplyCounts(SolutionCount a, SolutionCount b) {
  SolutionCount product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kCountMax : product;
}

// A rule, or one side of an `and` in one.
struct Conjunct {
  RuleGraph::Id value = -1;  // -1: judged by the rule's Expression
  RuleGraph::Id fault = -1;
  int rule = -1;
  std::vector<int> variables;
};

class SearchProgram {
 public:
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
    int rule = -1;
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
    bool is_remembered = true;            // several ways lead to the same frontier
  };

  // `graph` gets more nodes. `domains` are beside `order`, the parameters in the order of the search. `rules` must
  // outlive the program. Where the limit, which may be null, ends meanwhile, the program is not to be used.
  SearchProgram(const SpaceRules& rules, RuleGraph* graph, std::vector<int> order,
                std::vector<std::vector<uint16_t>> domains, const std::vector<Conjunct>& conjuncts,
                const WorkLimit* limit);

  const SpaceRules& rules() const { return rules_; }
  // In the order of the search.
  const std::vector<int>& parameters() const { return order_; }
  size_t size() const { return depths_.size(); }
  const Depth& At(size_t depth) const { return depths_[depth]; }
  // The value indices that the parameter of a depth may take, ascending. A position is a place in this list.
  const std::vector<uint16_t>& DomainAt(size_t depth) const { return domains_[depth]; }
  // No rule restricts the parameters at this depth or below.
  size_t free_from() const { return free_from_; }
  // The combinations of values of those.
  SolutionCount free_product() const { return free_product_; }
  // The combinations of values of all parameters before any rule on several of them.
  double cartesian() const { return cartesian_; }
  // The state's memory at the beginning: constants and what depends on one parameter alone.
  const std::vector<int64_t>& memory() const { return memory_; }
  // Whether some rule is judged by its Expression.
  bool uses_bindings() const { return uses_bindings_; }
  // Its memory would be too large: it cannot be run. Never where Expressions judge all rules.
  bool is_too_large() const { return is_too_large_; }

 private:
  struct Layout;
  struct FaultyNodes {
    RuleGraph::Id value = -1;
    RuleGraph::Id fault = -1;
    int rule = -1;
  };
  // What is checked where, while the program is built: by depth.
  struct Checks {
    std::vector<std::vector<RuleGraph::Id>> nodes;
    std::vector<std::vector<FaultyNodes>> faulty;
  };
  Checks Order(const std::vector<Conjunct>& conjuncts, RuleGraph* graph, WorkPace* pace);
  void FilterDomains(const RuleGraph& graph, Checks* checks, WorkPace* pace);
  void Place(const RuleGraph& graph, const Checks& checks, WorkPace* pace);
  void FindFrontiers(const RuleGraph& graph, const Layout& layout);
  int DepthOf(const GraphNode& node) const;

  const SpaceRules& rules_;
  std::vector<int> order_;
  std::vector<std::vector<uint16_t>> domains_;
  std::vector<int> depth_of_;  // by parameter
  double cartesian_ = 1;
  size_t free_from_ = 0;
  SolutionCount free_product_ = 1;
  std::vector<Depth> depths_;
  std::vector<int64_t> memory_;
  bool uses_bindings_ = false;
  bool is_too_large_ = false;
};

}  // namespace tunefarm::space_internal
