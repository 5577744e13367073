#include "server/jobs/finals.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "server/measure/compare.h"

namespace tunefarm {
namespace {

struct PresetValues {
  int warmup, samples_min, samples_max;
  double half_width;
  int budget_ms, finalists, rounds;
};

PresetValues ValuesOf(tunefarm::v1::MeasurementPreset preset) {
  switch (preset) {
    case tunefarm::v1::MEASUREMENT_PRESET_FAST:
      return {1, 5, 20, 0.02, 100, 3, 3};
    case tunefarm::v1::MEASUREMENT_PRESET_RIGOROUS:
      return {10, 30, 1000, 0.003, 3000, 8, 9};
    default:
      return {3, 10, 100, 0.01, 500, 5, 5};
  }
}

std::vector<double> SamplesOf(const FinalTrial& trial) {
  const auto& samples = trial.trial.measurement().sample_ns();
  return {samples.begin(), samples.end()};
}

bool Faster(const FinalTrial& a, const FinalTrial& b) {
  const double a_ns = a.trial.measurement().median_ns(), b_ns = b.trial.measurement().median_ns();
  return a_ns != b_ns ? a_ns < b_ns : a.trial.ordinal() < b.trial.ordinal();
}

}  // namespace

tunefarm::v1::MeasurementPolicy ResolvedPolicy(tunefarm::v1::MeasurementPolicy policy) {
  if (policy.preset() == tunefarm::v1::MEASUREMENT_PRESET_UNSPECIFIED) {
    policy.set_preset(tunefarm::v1::MEASUREMENT_PRESET_DEFAULT);
  }
  const PresetValues preset = ValuesOf(policy.preset());
  if (policy.warmup_launches() == 0) policy.set_warmup_launches(preset.warmup);
  if (policy.min_samples() == 0) policy.set_min_samples(preset.samples_min);
  if (policy.max_samples() == 0) policy.set_max_samples(std::max(preset.samples_max, policy.min_samples()));
  if (policy.target_relative_half_width() == 0) policy.set_target_relative_half_width(preset.half_width);
  if (policy.time_budget_ms() == 0) policy.set_time_budget_ms(preset.budget_ms);
  if (policy.finalists() == 0) policy.set_finalists(preset.finalists);
  if (policy.final_rounds() == 0) policy.set_final_rounds(preset.rounds);
  return policy;
}

void Leaderboard::Add(Entry entry) {
  entries_.insert(std::move(entry));
  if (entries_.size() > capacity_) entries_.erase(std::prev(entries_.end()));
}

std::vector<Leaderboard::Entry> Leaderboard::Best(size_t count, const std::set<std::string>& excluded) const {
  std::vector<Entry> best;
  for (const Entry& entry : entries_) {
    if (best.size() >= count) break;
    if (excluded.count(entry.config) == 0) best.push_back(entry);
  }
  return best;
}

bool WasJudged(const std::vector<FinalTrial>& trials, const std::string& config) {
  return std::any_of(trials.begin(), trials.end(), [&](const FinalTrial& trial) {
    const auto outcome = trial.trial.outcome();
    return trial.config == config && outcome != tunefarm::v1::OUTCOME_UNSPECIFIED &&
           outcome != tunefarm::v1::OUTCOME_LOST && outcome != tunefarm::v1::OUTCOME_NOISY;
  });
}

FinalDecision Decide(const std::vector<FinalTrial>& trials, const std::string& incumbent) {
  const FinalTrial* winner = nullptr;
  const FinalTrial* defender = nullptr;
  for (const FinalTrial& trial : trials) {
    if (trial.config.empty() || trial.trial.outcome() != tunefarm::v1::OUTCOME_OK) continue;
    if (winner == nullptr || Faster(trial, *winner)) winner = &trial;
    if (!incumbent.empty() && trial.config == incumbent) defender = &trial;
  }
  if (winner == nullptr) return {};
  if (defender == nullptr) return {FinalDecision::Kind::kPromote, winner};
  if (winner == defender) return {FinalDecision::Kind::kRefresh, defender};
  CompareOptions options;
  options.margin = kPromotionMargin;
  const std::vector<double> a = SamplesOf(*winner), b = SamplesOf(*defender);
  if (CompareMedians(a, b, options).verdict == SpeedVerdict::kFaster) return {FinalDecision::Kind::kPromote, winner};
  return {FinalDecision::Kind::kRefresh, defender};
}

}  // namespace tunefarm
