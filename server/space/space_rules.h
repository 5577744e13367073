// The parameters and compiled rules of a space, and what a rule says of a point.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/work_limit.h"
#include "server/expression/expression.h"
#include "server/space/space.h"

namespace tunefarm::space_internal {

// The values bound so far, as expressions read them. One per search; indexed by parameter.
struct Binding {
  explicit Binding(size_t parameter_count) : slots(parameter_count, nullptr) {}
  std::vector<const Value*> slots;
};

enum class Verdict { kPass, kReject, kFault };

// Rules are numbered: the constraints, then the device rules, in declared order.
//
// Threads: Narrow once, by one thread; what it finds is read by those who know that it has been called. Everything else
// never changes once compiled: const use from any thread, also while Narrow runs.
class SpaceRules {
 public:
  // What judging one rule costs, in the units of WorkPace: rules of a few operations cost less, the longest more.
  static constexpr uint64_t kJudgeWork = 1000;

  // Slot i of `symbols` is parameters[i]. InvalidArgument for a rule that does not compile.
  static absl::StatusOr<SpaceRules> Compile(std::vector<Parameter> parameters, std::vector<Rule> constraints,
                                            std::vector<Rule> device_rules, const SymbolTable& symbols);

  // Finds what rules on one parameter alone leave of its values. False: the limit has ended, and nothing was found.
  bool Narrow(const WorkLimit* limit);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<Rule>& constraints() const { return constraints_; }
  const std::vector<Rule>& device_rules() const { return device_rules_; }
  size_t size() const { return expressions_.size(); }
  bool IsDeviceRule(int rule) const { return static_cast<size_t>(rule) >= constraints_.size(); }
  const Rule& Declared(int rule) const {
    const size_t index = static_cast<size_t>(rule);
    return IsDeviceRule(rule) ? device_rules_[index - constraints_.size()] : constraints_[index];
  }
  const Expression& At(int rule) const { return expressions_[static_cast<size_t>(rule)]; }

  // After Narrow. By parameter: the value indices that the rules on that parameter alone leave, ascending.
  const std::vector<std::vector<uint16_t>>& domains() const { return domains_; }
  // The rules that the domains do not settle: those on several parameters, and those that fail for some value.
  const std::vector<int>& open_rules() const { return open_rules_; }
  // A rule without parameters is false: the space is empty.
  bool is_rejected_by_constant_rule() const { return is_rejected_by_constant_rule_; }
  // A rule without parameters cannot be evaluated.
  const absl::Status& constant_fault() const { return constant_fault_; }

  void Bind(int parameter, uint16_t value, Binding* binding) const {
    const size_t p = static_cast<size_t>(parameter);
    binding->slots[p] = &parameters_[p].values[value];
  }
  // Every parameter to a value index.
  Binding BindAll(std::span<const uint16_t> indices) const;
  // Of a rule whose variables are all bound.
  Verdict Judge(int rule, const Binding& binding) const;
  // After a kFault: the error, with the rule, the place in it and the values.
  absl::Status FaultStatus(int rule, const Binding& binding) const;

 private:
  std::vector<Parameter> parameters_;
  std::vector<Rule> constraints_;
  std::vector<Rule> device_rules_;
  std::vector<Expression> expressions_;
  std::vector<std::vector<uint16_t>> domains_;
  std::vector<int> open_rules_;
  bool is_rejected_by_constant_rule_ = false;
  absl::Status constant_fault_;
};

}  // namespace tunefarm::space_internal
