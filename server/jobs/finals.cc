#include "server/jobs/finals.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "server/measure/compare.h"

namespace tunefarm {
namespace {

bool Faster(const FinalTrial& a, const FinalTrial& b) {
  const double a_ns = a.trial.measurement().median_ns(), b_ns = b.trial.measurement().median_ns();
  return a_ns != b_ns ? a_ns < b_ns : a.trial.ordinal() < b.trial.ordinal();
}

Comparison CompareRounds(const FinalTrial& a, const FinalTrial& b, double margin, int rounds) {
  CompareOptions options;
  options.margin = margin;
  return CompareMeasurements(a.trial.measurement(), b.trial.measurement(), rounds, options);
}

Comparison Same() {
  Comparison same;
  same.ratio = 1;
  same.ratio_interval = {1, 1, 0};
  return same;
}

struct Ratio {
  const FinalTrial* trial = nullptr;
  Comparison ratio;  // to the reference
};

// The one with the smallest ratio of those that are faster than the reference beyond noise; without one the reference.
Ratio MostAhead(const std::vector<const FinalTrial*>& trials, const FinalTrial* reference, int rounds) {
  Ratio ahead = {reference, Same()};
  for (const FinalTrial* const trial : trials) {
    if (trial == reference) continue;
    const Comparison comparison = CompareRounds(*trial, *reference, 0, rounds);
    if (comparison.verdict == SpeedVerdict::kFaster && comparison.ratio < ahead.ratio.ratio)
      ahead = {trial, comparison};
  }
  return ahead;
}

}  // namespace

bool HasTime(const tunefarm::v1::Trial& trial) {
  return trial.outcome() == tunefarm::v1::OUTCOME_OK && trial.measurement().median_ns() > 0;
}

bool IsImplausible(const tunefarm::v1::Trial& trial, double floor_ns) {
  return HasTime(trial) && trial.measurement().cold_cache() && trial.measurement().median_ns() < 0.5 * floor_ns;
}

void Leaderboard::Add(Entry entry) {
  if (!entry.measured_as.empty()) {
    const auto same = std::find_if(entries_.begin(), entries_.end(),
                                   [&](const Entry& other) { return other.measured_as == entry.measured_as; });
    if (same != entries_.end() && *same < entry) return;
    if (same != entries_.end()) entries_.erase(same);
  }
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

FinalDecision Decide(const std::vector<FinalTrial>& trials, const std::string& incumbent, int rounds) {
  std::vector<const FinalTrial*> good;
  const FinalTrial* defender = nullptr;
  for (const FinalTrial& trial : trials) {
    if (trial.config.empty() || trial.trial.outcome() != tunefarm::v1::OUTCOME_OK) continue;
    good.push_back(&trial);
    if (!incumbent.empty() && trial.config == incumbent) defender = &trial;
  }
  if (good.empty()) return {};
  std::sort(good.begin(), good.end(), [](const FinalTrial* a, const FinalTrial* b) { return Faster(*a, *b); });
  if (defender == nullptr) {
    const Ratio ahead = MostAhead(good, good.front(), rounds);
    return {FinalDecision::Kind::kPromote, ahead.trial, ahead.ratio.ratio, ahead.ratio.ratio_interval.low,
            ahead.ratio.ratio_interval.high};
  }
  // Those that beat the incumbent, fastest first.
  std::vector<const FinalTrial*> challengers;
  Comparison best = Same();
  for (const FinalTrial* const trial : good) {
    if (trial == defender) continue;
    const Comparison comparison = CompareRounds(*trial, *defender, kPromotionMargin, rounds);
    if (comparison.ratio < best.ratio) best = comparison;
    if (comparison.verdict == SpeedVerdict::kFaster) challengers.push_back(trial);
  }
  if (challengers.empty()) {
    return {FinalDecision::Kind::kRefresh, defender, best.ratio, best.ratio_interval.low, best.ratio_interval.high};
  }
  const FinalTrial* const winner = MostAhead(challengers, challengers.front(), rounds).trial;
  const Comparison won = CompareRounds(*winner, *defender, kPromotionMargin, rounds);
  return {FinalDecision::Kind::kPromote, winner, won.ratio, won.ratio_interval.low, won.ratio_interval.high};
}

}  // namespace tunefarm
