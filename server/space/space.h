// A Space is all combinations of parameter values that satisfy the constraints and the device's limits.
//
// The order of a space, wherever one is visible, is that of the declared parameters with the last one varying fastest.
// Searching never walks the Cartesian product: parameters that no rule connects are searched apart, within each group
// variables are bound one at a time in an order chosen for early failure, and a rule is evaluated as soon as its last
// variable is bound.
//
// A rule that cannot be evaluated at some point (a division by zero, say) fails the whole operation with the rule, the
// place in it and the values, unless another rule rejects that point: `BK != 0` guards `N % BK == 0` in either order.
//
// Threads: a Space never changes after Build; const use from any thread. It owns everything it refers to. What
// counting, listing and drawing need beyond the rules is made by the first of these calls, while others wait for it;
// Check, Contains and IsValid never wait.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/random.h"
#include "server/base/work_limit.h"
#include "server/expression/config.h"
#include "server/expression/expression.h"
#include "server/expression/value.h"

namespace tunefarm {

// The most configs that Enumerate lists and the most Cartesian points that CountByRule counts exactly, unless told
// less.
inline constexpr uint64_t kSpaceListMax = 10'000'000;
inline constexpr int kSpaceParametersMax = 256;
inline constexpr int kParameterValuesMax = 65'535;
inline constexpr int kSpaceRulesMax = 1024;
struct Parameter {
  std::string name;
  std::vector<Value> values;           // in declared order, without repeats
  std::optional<Value> default_value;  // one of `values`
};

struct Rule {
  std::string text;    // an expression over parameters, derived names and constants; a config is valid where it is true
  std::string reason;  // for people: why a config that breaks it is no good; may be empty
};

// What a space is built from.
struct SpaceDefinition {
  std::vector<Parameter> parameters;
  std::vector<Rule> constraints;
  // The same kind of rules, counted apart: what the device cannot run (their text usually names device.*).
  std::vector<Rule> device_rules;
  // Dims, flags and device.* of this problem and device.
  ValueMap constants;
  // Named expressions that rules may use, in order; each may use those before it.
  std::vector<std::pair<std::string, std::string>> derived;
  // What a search tries first. They need not be valid, nor of this space.
  std::vector<Config> starting_configs;
};

struct SpaceOptions {
  // Bound on the work of one search or count: how many partial assignments may be visited before it gives up with
  // ResourceExhausted and the reason SEARCH_BUDGET. The default is some tens of seconds on one core.
  uint64_t nodes_max = 1'000'000'000;
  // How many threads may list a large space; 0: one for each core, at most eight. The result does not depend on it.
  int threads = 0;
  // Bound on the time and the memory of counting, listing and drawing, and the way to cancel them; null: there is none,
  // and only nodes_max bounds the work. One thread at a time calls Begin and does these things. Errors: WorkLimit::Why,
  // and ResourceExhausted with the reason SPACE_MEMORY.
  std::shared_ptr<const WorkLimit> limit = nullptr;
};

// Valid configs as value indices, in the order of the space.
class ConfigTable {
 public:
  explicit ConfigTable(int parameter_count) : parameter_count_(parameter_count) {}
  // Of configs recorded elsewhere: `size` rows of value indices one after another, ascending.
  ConfigTable(int parameter_count, uint64_t size, std::vector<uint16_t> indices)
      : parameter_count_(parameter_count), size_(size), indices_(std::move(indices)) {}
  uint64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int parameter_count() const { return parameter_count_; }
  // The index into Parameter::values of each parameter, in declared order.
  std::span<const uint16_t> Row(uint64_t row) const {
    return {indices_.data() + row * static_cast<uint64_t>(parameter_count_), static_cast<size_t>(parameter_count_)};
  }
  // What it holds of a MemoryBudget, as long as it or a copy of it lives.
  void HoldMemory(std::shared_ptr<const MemoryUse> memory) { memory_ = std::move(memory); }

 private:
  int parameter_count_;
  uint64_t size_ = 0;  // kept apart: a space without parameters has one config of no values
  std::vector<uint16_t> indices_;
  std::shared_ptr<const MemoryUse> memory_;  // null: not counted
};

struct RuleCount {
  std::string text;
  std::string reason;
  bool is_device_rule = false;
  double rejected = 0;  // points whose first broken rule, in declared order, is this one
};

struct PruneReport {
  bool exact = true;             // false: estimated from `samples` seeded uniform points of the Cartesian product
  bool is_valid_exact = true;    // `valid` is exact, as it often is where the rules' shares are estimates
  uint64_t samples = 0;          // 0 when exact
  double cartesian = 0;          // points before any rule
  double valid = 0;              // points that break no rule
  std::vector<RuleCount> rules;  // constraints, then device rules, in declared order
};

class Space {
 public:
  // InvalidArgument for: a bad or repeated name, no values, a repeated value, a default that is not among the values, a
  // rule that does not compile, any limit above. Does not search: an empty space is built without complaint.
  static absl::StatusOr<Space> Build(SpaceDefinition definition, const SpaceOptions& options = {});

  const SpaceOptions& options() const;
  const std::vector<Parameter>& parameters() const;
  // The position of a parameter, -1 if there is none of that name.
  int ParameterIndex(std::string_view name) const;

  // The number of points before any rule: as a double (exact up to 2^53), and as text, "1,728" or "1.2e18".
  double CartesianSize() const;
  std::string CartesianText() const;

  // The exact number of valid configs. ResourceExhausted when there are more than `limit`, or when finding out takes
  // more than SpaceOptions::nodes_max steps.
  absl::StatusOr<uint64_t> CountValid(uint64_t limit = UINT64_MAX) const;

  // All valid configs in order; memory is two bytes per parameter and config. ResourceExhausted as for CountValid.
  // An empty space is an empty table; ExplainEmpty says why it is empty. `time`: the part of the options' limit that it
  // may take, after which it gives up as after nodes_max.
  absl::StatusOr<ConfigTable> Enumerate(uint64_t limit = kSpaceListMax, Duration time = Duration::max()) const;

  // One valid config's value indices, uniformly distributed over the space, drawn from `random`; without listing the
  // space. Exactly uniform: from lists or exact counts of each independent group of parameters, or else by rejection
  // from its Cartesian product. NotFound when the space is empty, ResourceExhausted when valid points are too rare to
  // be hit by rejection and too many to count. The first call does the counting; it costs what CountValid costs.
  absl::StatusOr<std::vector<uint16_t>> SampleUniform(PhiloxStream& random) const;
  // Does now what the first SampleUniform would do, but for its draw. The errors of the options' limit alone.
  absl::Status PrepareSampling() const;

  // How many points each rule rejects. Exact up to `exact_max` Cartesian points, above that estimated from 10^6 points
  // drawn with a fixed seed; the number of valid ones is counted also then, where that is a matter of seconds. Where
  // the options have a limit, each of these has a part of its time: fewer points are drawn then, and also small spaces
  // are estimated.
  absl::StatusOr<PruneReport> CountByRule(uint64_t exact_max = kSpaceListMax) const;

  // For a space that was found empty: one sentence with what each rule killed, and the rules.
  std::string ExplainEmpty() const;

  // OK when `config` gives every parameter one of its values, no other name, and no rule rejects it. InvalidArgument
  // with what is wrong otherwise (the first broken rule in declared order, with its reason).
  absl::Status Check(const Config& config) const;
  bool Contains(const Config& config) const { return Check(config).ok(); }

  // The same question for value indices (one per parameter, each in range), as an answer alone: false also where a rule
  // cannot be evaluated, and where the options' limit has ended. Made for searches that ask it often.
  bool IsValid(std::span<const uint16_t> indices) const;

  // Value indices to a Config and back. `indices` has one entry per parameter, each in range. IndicesOf checks names
  // and values like Check, but no rules.
  Config MakeConfig(std::span<const uint16_t> indices) const;
  Config ConfigAt(const ConfigTable& table, uint64_t row) const { return MakeConfig(table.Row(row)); }
  absl::StatusOr<std::vector<uint16_t>> IndicesOf(const Config& config) const;

  // The config of the declared defaults, where every parameter has one; it may be invalid (Check says).
  std::optional<Config> DefaultConfig() const;
  // As declared.
  const std::vector<Config>& starting_configs() const;

 private:
  struct Impl;
  explicit Space(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<const Impl> impl_;
};

}  // namespace tunefarm
