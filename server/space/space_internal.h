// The inside of Space, shared by its own .cc files: compiled rules, independent groups of parameters and the search.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/mutex.h"
#include "server/base/thread_annotations.h"
#include "server/expression/expression.h"
#include "server/space/space.h"

namespace tunefarm::space_internal {

// The values bound so far, in the two forms that expressions read. One per search; indexed by parameter.
struct Binding {
  explicit Binding(size_t parameter_count) : slots(parameter_count, nullptr), ints(parameter_count, 0) {}
  std::vector<const Value*> slots;
  std::vector<int64_t> ints;
};

enum class Verdict { kPass, kReject, kFault };

// Parameters that rules connect, directly or through others; or one parameter that no rule names.
struct Component {
  std::vector<int> parameters;                 // in search order
  std::vector<std::vector<uint16_t>> domains;  // value indices left after the rules on one parameter alone; beside it
  std::vector<std::vector<int>> rules_at;      // rules whose last variable, in search order, is parameters[depth]
  int free_from = 0;                           // no rule at this depth or below
  double cartesian = 1;                        // product of the domains

  int depth() const { return static_cast<int>(parameters.size()); }
  // Combinations of parameters[from..].
  uint64_t FreeProduct(int from) const;
};

// What a walk over a component does at each solution prefix: (value indices by depth, how many solutions it stands for)
// where all depths below Component::free_from are bound. Returns false to stop the walk.
enum class WalkEnd { kDone, kStopped, kBudget, kFault };

// How to draw one component's solutions.
struct ComponentSampler {
  enum class Mode { kCounted, kRejection } mode = Mode::kRejection;
  int prefix_depth = 0;
  // For kCounted: the value indices of each prefix of prefix_depth parameters, and the number of solutions up to and
  // including it.
  std::vector<std::vector<uint16_t>> prefixes;
  std::vector<uint64_t> cumulative;
};

class SearchProgram;

// How a parameter's value index stands in the one number that a config is listed as: smaller numbers for the earlier
// configs of the space's order.
struct KeyLayout {
  std::vector<int> shift;  // by parameter
  std::vector<int> bits;
  int total_bits = 0;  // above 64 there is no such number
};

// The number of solutions; kCountMax stands for itself and everything above.
using SolutionCount = unsigned __int128;
inline constexpr SolutionCount kCountMax = ~SolutionCount{0};

class SearchMemo;

// How to draw one program's solutions: from their list, or by what counting them has left in a memo.
struct ProgramSampler {
  SolutionCount total = 0;
  std::vector<uint64_t> keys;
  std::shared_ptr<const SearchMemo> memo;
};

struct Sampler {
  absl::Status status;  // why nothing can be drawn
  // By program; where the programs cannot be used, by component instead.
  std::vector<ProgramSampler> programs;
  std::vector<ComponentSampler> components;
};

// Union-find over parameters.
class Groups {
 public:
  explicit Groups(size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), 0); }
  int Find(int item) {
    while (parent_[item] != item) item = parent_[item] = parent_[parent_[item]];
    return item;
  }
  void Join(int a, int b) { parent_[std::max(Find(a), Find(b))] = std::min(Find(a), Find(b)); }

 private:
  std::vector<int> parent_;
};

// Early failure first: again and again the rule that is cheapest to complete (fewest combinations of its unbound
// parameters) has those parameters bound next.
std::vector<int> SearchOrder(const std::vector<int>& parameters, const std::vector<std::vector<int>>& rule_variables,
                             const std::vector<std::vector<uint16_t>>& domain_of);

}  // namespace tunefarm::space_internal

namespace tunefarm {

struct Space::Impl {
  struct CompiledRule {
    Expression expression;
    bool is_device_rule = false;
  };

  std::vector<Parameter> parameters;
  std::vector<Rule> constraints;
  std::vector<Rule> device_rules;
  std::vector<Config> starting_configs;
  double cartesian_size = 1;
  SpaceOptions options;
  std::map<std::string, int, std::less<>> index_of;
  std::vector<CompiledRule> rules;         // constraints, then device rules
  std::vector<std::vector<int>> rules_of;  // by parameter: those that name it, ascending
  // values[p][i] as an int where it is one, else 0.
  std::vector<std::vector<int64_t>> int_values;
  std::vector<space_internal::Component> components;
  std::vector<std::shared_ptr<const space_internal::SearchProgram>> programs;
  space_internal::KeyLayout key_layout;
  bool is_rejected_by_program = false;        // some rule rejects every point
  bool is_rejected_by_constant_rule = false;  // a rule without variables is false: the space is empty
  absl::Status constant_fault;                // a rule without variables cannot be evaluated

  mutable Mutex sampler_mutex;
  // Made by the first SampleUniform; never changes afterwards.
  mutable std::unique_ptr<const space_internal::Sampler> made_sampler GUARDED_BY(sampler_mutex);
  mutable Mutex occurring_mutex;  // taken before sampler_mutex
  // Made by the first query for adjacent configs; never changes afterwards.
  mutable std::unique_ptr<const absl::StatusOr<std::vector<std::vector<uint16_t>>>> made_occurring
      GUARDED_BY(occurring_mutex);

  const Rule& RuleAt(int rule) const {
    const size_t index = static_cast<size_t>(rule);
    return index < constraints.size() ? constraints[index] : device_rules[index - constraints.size()];
  }

  void Bind(int parameter, uint16_t value, space_internal::Binding* binding) const {
    binding->slots[parameter] = &parameters[parameter].values[value];
    binding->ints[parameter] = int_values[parameter][value];
  }

  // Of a rule whose variables are all bound.
  space_internal::Verdict Judge(int rule, const space_internal::Binding& binding) const;
  // After a kFault: the error, with the rule, the place in it and the values.
  absl::Status FaultStatus(int rule, const space_internal::Binding& binding) const;

  // Groups the parameters and orders each group. The domains after the rules on one parameter alone, and the rules that
  // a search must judge, are left in the arguments.
  void BuildComponents(std::vector<std::vector<uint16_t>>* domain_of, std::vector<int>* open_rules);

  // ---- By search programs: fast, and the first choice everywhere ----
  // Each answers nothing where it has no answer (a rule that cannot be evaluated somewhere, a config that does not fit
  // into a key): the walk over the components then gives it, or says what is wrong.
  void BuildPrograms(const SymbolTable& symbols, const std::vector<std::vector<uint16_t>>& domain_of,
                     const std::vector<int>& open_rules);
  std::optional<absl::StatusOr<space_internal::SolutionCount>> CountWithPrograms(uint64_t nodes_max) const;
  std::optional<absl::StatusOr<ConfigTable>> EnumerateWithPrograms(uint64_t limit) const;
  uint16_t IndexInKey(uint64_t key, size_t parameter) const {
    const uint64_t mask = (uint64_t{1} << key_layout.bits[parameter]) - 1;
    return static_cast<uint16_t>((key >> key_layout.shift[parameter]) & mask);
  }
  void UnpackKeys(const std::vector<uint64_t>& keys, int threads, ConfigTable* table) const;
  // False where there is no answer.
  bool MakeProgramSamplers(std::vector<space_internal::ProgramSampler>* samplers) const;
  // False where a rule cannot be evaluated.
  bool DrawFromProgram(size_t index, const space_internal::ProgramSampler& sampler, PhiloxStream& random,
                       std::vector<uint16_t>* row) const;
  absl::Status TooManyToList(uint64_t limit) const;

  // ---- By walking components ----

  // Visits the solutions of a component in search order, from the prefix already in `indices` (depths 0..start-1, bound
  // in `binding`, their rules judged). visit(indices, multiplicity): as described at WalkEnd. `nodes` counts down.
  template <typename Visit>
  space_internal::WalkEnd Walk(const space_internal::Component& component, int start, std::vector<uint16_t>* indices,
                               space_internal::Binding* binding, uint64_t* nodes, absl::Status* fault,
                               const Visit& visit) const;

  // The number of solutions of a component, saturating.
  absl::StatusOr<uint64_t> CountComponent(const space_internal::Component& component) const;
  // All solutions, in declared order of the component's parameters (ascending parameter index), row after row. Sets
  // *is_over when there are more than limit.
  absl::StatusOr<std::vector<uint16_t>> ListComponent(const space_internal::Component& component, uint64_t limit,
                                                      bool* is_over) const;
  absl::Status BudgetStatus() const;

  // Space::Enumerate of these components instead of the space's own.
  absl::StatusOr<ConfigTable> EnumerateComponents(const std::vector<space_internal::Component>& parts,
                                                  uint64_t limit) const;
  // By parameter: the value indices that some valid config has, ascending. All empty for an empty space.
  absl::StatusOr<std::vector<std::vector<uint16_t>>> OccurringValues() const;
  // Row after row: every valid config that differs in one parameter, in order.
  absl::Status HammingNeighbours(std::span<const uint16_t> indices, std::vector<uint16_t>* rows) const;
  // By parameter: the values at most one step away.
  absl::StatusOr<std::vector<std::vector<uint16_t>>> AdjacentValues(std::span<const uint16_t> indices,
                                                                    bool is_strict) const;
  // The components with each parameter's domain narrowed to `allowed`, ascending.
  std::vector<space_internal::Component> Narrowed(const std::vector<std::vector<uint16_t>>& allowed) const;

  // The sampler, made by the first call.
  const space_internal::Sampler& TheSampler() const;
  space_internal::Sampler MakeSampler() const;
  // What OccurringValues finds from the programs' samplers; false where there is no answer.
  bool OccurringInPrograms(const std::vector<space_internal::ProgramSampler>& samplers,
                           std::vector<std::vector<uint16_t>>* occurring) const;
  // A uniform solution of one component into `row`, by parameter.
  absl::Status DrawComponent(size_t component, const space_internal::ComponentSampler& sampler, PhiloxStream& random,
                             std::vector<uint16_t>* row) const;
  // One uniform point of the component's Cartesian product into `row`; its verdict.
  space_internal::Verdict DrawPoint(const space_internal::Component& component, PhiloxStream& random,
                                    space_internal::Binding* binding, std::vector<uint16_t>* row,
                                    absl::Status* fault) const;
};

namespace space_internal {

// Those of `values` (ascending value indices) that are `index`, or next to it: by one where is_strict, else the nearest
// one below and above.
std::vector<uint16_t> WithinOneStep(const std::vector<uint16_t>& values, uint16_t index, bool is_strict);

// "1,728" style digits, "1.2e18" where there are too many; "≈" before what is not exact, and only there.
std::string CountText(double count, bool is_exact);

// The recursion behind Impl::Walk.
template <typename Visit>
class Walker {
 public:
  Walker(const Space::Impl& impl, const Component& component, std::vector<uint16_t>* indices, Binding* binding,
         uint64_t* nodes, absl::Status* fault, const Visit& visit)
      : impl_(impl),
        component_(component),
        indices_(*indices),
        binding_(binding),
        nodes_(nodes),
        fault_(fault),
        visit_(visit) {}

  WalkEnd Descend(int depth, bool has_fault) {
    if (depth >= component_.free_from) {
      // No rule is left that could reject what a rule could not judge.
      if (has_fault) return WalkEnd::kFault;
      return visit_(indices_, component_.FreeProduct(depth)) ? WalkEnd::kDone : WalkEnd::kStopped;
    }
    const int parameter = component_.parameters[depth];
    for (const uint16_t value : component_.domains[depth]) {
      if (*nodes_ == 0) return WalkEnd::kBudget;
      --*nodes_;
      impl_.Bind(parameter, value, binding_);
      indices_[depth] = value;
      bool is_rejected = false;
      bool is_faulty = has_fault;
      for (const int rule : component_.rules_at[depth]) {
        const Verdict verdict = impl_.Judge(rule, *binding_);
        if (verdict == Verdict::kReject) {
          is_rejected = true;
          break;
        }
        if (verdict == Verdict::kFault) {
          if (!is_faulty) *fault_ = impl_.FaultStatus(rule, *binding_);
          is_faulty = true;
        }
      }
      if (is_rejected) continue;
      const WalkEnd end = Descend(depth + 1, is_faulty);
      if (end != WalkEnd::kDone) return end;
    }
    return WalkEnd::kDone;
  }

 private:
  const Space::Impl& impl_;
  const Component& component_;
  std::vector<uint16_t>& indices_;
  Binding* const binding_;
  uint64_t* const nodes_;
  absl::Status* const fault_;
  const Visit& visit_;
};

}  // namespace space_internal

template <typename Visit>
space_internal::WalkEnd Space::Impl::Walk(const space_internal::Component& component, int start,
                                          std::vector<uint16_t>* indices, space_internal::Binding* binding,
                                          uint64_t* nodes, absl::Status* fault, const Visit& visit) const {
  return space_internal::Walker<Visit>(*this, component, indices, binding, nodes, fault, visit).Descend(start, false);
}

}  // namespace tunefarm
