#include "server/results/trial_filter.h"

#include <cmath>
#include <string>
#include <utility>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/value_proto.h"

namespace tunefarm {
namespace {

constexpr int kParametersMax = 64;
constexpr int kValuesMax = 1000;

template <typename... Args>
absl::Status Refuse(fmt::format_string<Args...> format, Args&&... args) {
  return WithReason(InvalidArgument(format, std::forward<Args>(args)...), "FILTER_INVALID");
}

absl::StatusOr<std::optional<Range>> RangeOf(const char* field, bool is_set, const v1::NumberRange& range) {
  if (!is_set) return std::nullopt;
  Range result;
  if (range.has_min()) result.min = range.min();
  if (range.has_max()) result.max = range.max();
  if (std::isnan(result.min) || std::isnan(result.max)) return Refuse("filter.{}: a limit is no number", field);
  return result;
}

// By the text of a value, as configs are stored: what a client takes for an int may be a string.
absl::StatusOr<std::string> TextOf(const std::string& field, const v1::Value& value) {
  const absl::StatusOr<Value> read = definition::FromProto(value);
  if (!read.ok()) return Refuse("{}: {}", field, MessageOf(read.status()));
  return read->ToText();
}

}  // namespace

absl::StatusOr<TrialConditions> ConditionsOf(const v1::TrialFilter& filter, const StudyColumns& columns,
                                             int64_t start_ms) {
  TrialConditions conditions;
  conditions.start_ms = start_ms;
  if (filter.purpose() != v1::TRIAL_PURPOSE_UNSPECIFIED && filter.purpose() != v1::TRIAL_PURPOSE_SEARCH)
    return Refuse("filter.purpose is {}: only trials of the search can be filtered",
                  static_cast<int>(filter.purpose()));
  if (filter.outcomes_size() > 0) {
    conditions.outcomes.emplace(v1::Outcome_ARRAYSIZE);
    for (const int outcome : filter.outcomes()) {
      if (!v1::Outcome_IsValid(outcome) || outcome == v1::OUTCOME_UNSPECIFIED)
        return Refuse("filter.outcomes has {}, which is no outcome", outcome);
      (*conditions.outcomes)[static_cast<size_t>(outcome)] = true;
    }
  }
  if (filter.parameters_size() > kParametersMax)
    return Refuse("filter.parameters has {} entries, {} are the most", filter.parameters_size(), kParametersMax);
  for (int i = 0; i < filter.parameters_size(); ++i) {
    const v1::ParameterValues& wanted = filter.parameters(i);
    const std::string field = fmt::format("filter.parameters[{}]", i);
    if (wanted.values().empty() || wanted.values_size() > kValuesMax)
      return Refuse("{} has {} values, 1 to {} are possible", field, wanted.values_size(), kValuesMax);
    if (columns.size() == 0) continue;
    const std::optional<size_t> parameter = columns.FindParameter(wanted.parameter());
    if (!parameter.has_value()) return Refuse("{}: no trial has a parameter '{}'", field, wanted.parameter());
    std::vector<bool> passes(columns.values(*parameter).size());
    for (const v1::Value& value : wanted.values()) {
      ASSIGN_OR_RETURN(const std::string text, TextOf(field, value));
      if (const auto index = columns.FindValue(*parameter, text)) passes[*index] = true;
    }
    conditions.values.emplace_back(*parameter, std::move(passes));
  }
  ASSIGN_OR_RETURN(conditions.objective_ns, RangeOf("median_ns", filter.has_median_ns(), filter.median_ns()));
  ASSIGN_OR_RETURN(conditions.evaluation, RangeOf("evaluation", filter.has_evaluation(), filter.evaluation()));
  ASSIGN_OR_RETURN(conditions.seconds, RangeOf("seconds", filter.has_seconds(), filter.seconds()));
  return conditions;
}

}  // namespace tunefarm
