#include "server/search/recording.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

absl::Status CheckTrial(const RecordedTrial& trial, const Config& first) {
  for (const auto& [name, value] : first) {
    if (trial.config.Find(name) == nullptr || trial.config.size() != first.size()) {
      return InvalidArgument("the recorded config {} has not the parameters of the first one, {}",
                             trial.config.ToText(), first.ToText());
    }
  }
  const RecordedResult& result = trial.result;
  if (!(result.cost_seconds >= 0) || !std::isfinite(result.cost_seconds)) {
    return InvalidArgument("the recorded config {} has a cost of {} s", trial.config.ToText(), result.cost_seconds);
  }
  if (result.outcome == ToldOutcome::kOk && (!(result.objective_ns > 0) || !std::isfinite(result.objective_ns))) {
    return InvalidArgument("the recorded config {} has an objective of {} ns", trial.config.ToText(),
                           result.objective_ns);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Recording> Recording::Make(std::string name, const std::vector<RecordedTrial>& trials) {
  if (trials.empty()) return InvalidArgument("the recording {} is empty", name);
  const Config& first = trials.front().config;
  SpaceDefinition definition;
  for (const auto& [parameter, value] : first) definition.parameters.push_back({parameter, {}, std::nullopt});
  bool any_ok = false;
  for (const RecordedTrial& trial : trials) {
    RETURN_IF_ERROR(CheckTrial(trial, first));
    any_ok = any_ok || trial.result.outcome == ToldOutcome::kOk;
  }
  if (!any_ok) return InvalidArgument("nothing in the recording {} is a valid result", name);
  for (Parameter& parameter : definition.parameters) {
    std::set<Value, decltype(&ValueLess)> values(&ValueLess);
    for (const RecordedTrial& trial : trials) values.insert(*trial.config.Find(parameter.name));
    parameter.values.assign(values.begin(), values.end());
  }
  ASSIGN_OR_RETURN(const Space space, Space::Build(std::move(definition)));
  std::vector<Point> points;
  for (const RecordedTrial& trial : trials) {
    ASSIGN_OR_RETURN(Point point, space.IndicesOf(trial.config));
    points.push_back(std::move(point));
  }
  Recording recording;
  recording.name_ = std::move(name);
  ASSIGN_OR_RETURN(recording.space_, SearchSpace::MakeOfRows(space, points));
  recording.results_.resize(trials.size());
  for (size_t i = 0; i < trials.size(); ++i) {
    recording.results_[recording.space_->FindRow(points[i])] = trials[i].result;
  }
  return recording;
}

}  // namespace tunefarm
