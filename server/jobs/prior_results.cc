#include "server/jobs/prior_results.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "server/base/status.h"
#include "server/definition/value_proto.h"
#include "tunefarm/jobs/v1/memory.pb.h"

namespace tunefarm {

using jobs::v1::PriorResults;

ToldOutcome PriorOutcome(tunefarm::v1::Outcome outcome, bool same_class) {
  switch (outcome) {
    case tunefarm::v1::OUTCOME_OK:
      return ToldOutcome::kOk;
    case tunefarm::v1::OUTCOME_INFEASIBLE_LAUNCH:
    case tunefarm::v1::OUTCOME_COMPILE_ERROR:
    case tunefarm::v1::OUTCOME_COMPILE_TIMEOUT:
    case tunefarm::v1::OUTCOME_COMPILE_CRASH:
    case tunefarm::v1::OUTCOME_LOAD_ERROR:
    case tunefarm::v1::OUTCOME_OUT_OF_MEMORY:
    case tunefarm::v1::OUTCOME_RUN_TIMEOUT:
    case tunefarm::v1::OUTCOME_RUN_CRASH:
    case tunefarm::v1::OUTCOME_OUT_OF_BOUNDS:
    case tunefarm::v1::OUTCOME_WRONG_RESULT:
    case tunefarm::v1::OUTCOME_SANDBOX_VIOLATION:
    case tunefarm::v1::OUTCOME_POISONED:
      return ToldOutcome::kFailed;
    case tunefarm::v1::OUTCOME_PRUNED:
      return same_class ? ToldOutcome::kFailed : ToldOutcome::kLost;
    default:
      return ToldOutcome::kLost;
  }
}

std::vector<int> FailedOutcomes(bool same_class) {
  std::vector<int> outcomes;
  for (int value = tunefarm::v1::Outcome_MIN; value <= tunefarm::v1::Outcome_MAX; ++value) {
    if (!tunefarm::v1::Outcome_IsValid(value)) continue;
    const auto outcome = static_cast<tunefarm::v1::Outcome>(value);
    if (PriorOutcome(outcome, same_class) == ToldOutcome::kFailed) outcomes.push_back(value);
  }
  return outcomes;
}

void PriorCollector::Take(std::string_view text, double median_ns) {
  std::string key(text);
  if (room() == 0 || results_.count(key) > 0) return;
  auto config = plan_->ConfigFromText(text);
  if (!config.ok()) return;  // of another version of the definition
  results_.try_emplace(std::move(key), Result{*std::move(config), median_ns});
  if (median_ns > 0) ++measured_;
}

void PriorCollector::Add(const ResultRow& row, bool same_class) {
  // What is stored has the precision in which it is told.
  const auto median_ns = static_cast<float>(row.median_ns);
  switch (PriorOutcome(static_cast<tunefarm::v1::Outcome>(row.outcome), same_class)) {
    case ToldOutcome::kOk:
      if (std::isfinite(median_ns) && median_ns > 0) Take(row.config, median_ns);
      break;
    case ToldOutcome::kFailed:
      Take(row.config, 0);
      break;
    case ToldOutcome::kLost:
      break;
  }
}

void PriorCollector::AddFailed(std::string_view config) { Take(config, 0); }

std::string PriorCollector::Encode() const {
  std::vector<const std::pair<const std::string, Result>*> order;
  for (const auto& entry : results_) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    // The failed, which have no time, last.
    return std::make_tuple(!(a->second.median_ns > 0), a->second.median_ns, std::string_view(a->first)) <
           std::make_tuple(!(b->second.median_ns > 0), b->second.median_ns, std::string_view(b->first));
  });
  PriorResults stored;
  std::vector<std::map<std::string, uint32_t>> known;  // of each parameter, the values' indexes by their texts
  for (const auto* entry : order) {
    const Result& result = entry->second;
    if (stored.parameters().empty()) {
      for (const auto& [name, value] : result.config) stored.add_parameters()->set_name(name);
      known.resize(result.config.size());
    }
    int parameter = 0;
    for (const auto& [name, value] : result.config) {
      auto& indexes = known[static_cast<size_t>(parameter)];
      const auto [index, is_new] = indexes.try_emplace(value.ToText(), static_cast<uint32_t>(indexes.size()));
      if (is_new) {
        *stored.mutable_parameters(parameter)->add_values() = plan_->ToProto(result.config).values().at(name);
      }
      stored.add_value_indexes(index->second);
      ++parameter;
    }
    if (result.median_ns > 0) stored.add_median_ns(static_cast<float>(result.median_ns));
  }
  return stored.SerializeAsString();
}

absl::StatusOr<PriorSource> DecodePrior(const PriorRow& row) {
  const auto damaged = [] { return DataLoss("what a study was told of others cannot be read"); };
  PriorResults stored;
  if (!stored.ParseFromString(row.payload)) return damaged();
  const int width = stored.parameters_size();
  if (width == 0 || stored.value_indexes_size() % width != 0) return damaged();
  std::vector<std::vector<Value>> values(static_cast<size_t>(width));
  for (int p = 0; p < width; ++p) {
    for (const auto& proto : stored.parameters(p).values()) {
      auto value = definition::FromProto(proto);
      if (!value.ok()) return damaged();
      values[static_cast<size_t>(p)].push_back(*std::move(value));
    }
  }
  PriorSource source;
  source.rank = row.rank;
  const int results = stored.value_indexes_size() / width;
  if (stored.median_ns_size() > results) return damaged();
  source.results.reserve(static_cast<size_t>(results));
  for (int i = 0; i < results; ++i) {
    PriorResult result;
    for (int p = 0; p < width; ++p) {
      const std::vector<Value>& own = values[static_cast<size_t>(p)];
      const uint32_t index = stored.value_indexes(i * width + p);
      if (index >= own.size()) return damaged();
      result.config.Set(stored.parameters(p).name(), own[index]);
    }
    if (i < stored.median_ns_size()) {
      result.outcome = ToldOutcome::kOk;
      result.objective_ns = stored.median_ns(i);
    }
    source.results.push_back(std::move(result));
  }
  return source;
}

}  // namespace tunefarm
