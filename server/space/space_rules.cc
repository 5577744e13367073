#include "server/space/space_rules.h"

#include <numeric>
#include <optional>

#include "server/base/status.h"

namespace tunefarm::space_internal {

absl::StatusOr<SpaceRules> SpaceRules::Compile(std::vector<Parameter> parameters, std::vector<Rule> constraints,
                                               std::vector<Rule> device_rules, const SymbolTable& symbols) {
  SpaceRules rules;
  rules.parameters_ = std::move(parameters);
  rules.constraints_ = std::move(constraints);
  rules.device_rules_ = std::move(device_rules);
  const size_t count = rules.constraints_.size() + rules.device_rules_.size();
  for (size_t i = 0; i < count; ++i) {
    const int rule = static_cast<int>(i);
    auto expression = Expression::Compile(rules.Declared(rule).text, symbols);
    if (!expression.ok()) {
      return Annotate(expression.status(), "{} {}", rules.IsDeviceRule(rule) ? "device rule" : "constraint",
                      rules.IsDeviceRule(rule) ? i - rules.constraints_.size() + 1 : i + 1);
    }
    rules.expressions_.push_back(*std::move(expression));
  }
  return rules;
}

bool SpaceRules::Narrow(const WorkLimit* limit) {
  WorkPace pace(limit);
  bool goes_on = true;
  domains_.clear();
  open_rules_.clear();
  is_rejected_by_constant_rule_ = false;
  constant_fault_ = absl::OkStatus();
  for (const Parameter& parameter : parameters_) {
    domains_.emplace_back(parameter.values.size());
    std::iota(domains_.back().begin(), domains_.back().end(), uint16_t{0});
  }
  Binding binding(parameters_.size());
  for (size_t i = 0; i < size(); ++i) {
    const int rule = static_cast<int>(i);
    const std::vector<int>& variables = At(rule).Variables();
    if (variables.empty()) {
      const Verdict verdict = Judge(rule, binding);
      if (verdict == Verdict::kReject) is_rejected_by_constant_rule_ = true;
      if (verdict == Verdict::kFault && constant_fault_.ok()) constant_fault_ = FaultStatus(rule, binding);
      continue;
    }
    bool is_open = variables.size() > 1;
    if (!is_open) {
      std::erase_if(domains_[static_cast<size_t>(variables[0])], [&](uint16_t value) {
        goes_on = goes_on && pace.Spend(kJudgeWork);
        if (!goes_on) return false;
        Bind(variables[0], value, &binding);
        const Verdict verdict = Judge(rule, binding);
        if (verdict == Verdict::kFault) is_open = true;
        return verdict == Verdict::kReject;
      });
    }
    if (is_open) open_rules_.push_back(rule);
    if (!goes_on) return false;
  }
  return true;
}

Binding SpaceRules::BindAll(std::span<const uint16_t> indices) const {
  Binding binding(indices.size());
  for (size_t p = 0; p < indices.size(); ++p) Bind(static_cast<int>(p), indices[p], &binding);
  return binding;
}

Verdict SpaceRules::Judge(int rule, const Binding& binding) const {
  const std::optional<bool> holds = At(rule).Holds(binding.slots.data());
  if (!holds.has_value()) return Verdict::kFault;
  return *holds ? Verdict::kPass : Verdict::kReject;
}

absl::Status SpaceRules::FaultStatus(int rule, const Binding& binding) const {
  const Expression& expression = At(rule);
  Config values;
  for (const int variable : expression.Variables()) {
    values.Set(parameters_[static_cast<size_t>(variable)].name, *binding.slots[static_cast<size_t>(variable)]);
  }
  const auto result = expression.EvaluateBool(binding.slots.data());
  if (result.ok()) return Internal("constraint '{}' failed and did not fail again", expression.text());
  const size_t number = static_cast<size_t>(rule) + 1;
  return Annotate(result.status(), "{} {} cannot be evaluated{}{}", IsDeviceRule(rule) ? "device rule" : "constraint",
                  IsDeviceRule(rule) ? number - constraints_.size() : number, values.empty() ? "" : " at ",
                  values.ToText());
}

}  // namespace tunefarm::space_internal
