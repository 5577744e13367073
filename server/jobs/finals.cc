#include "server/jobs/finals.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "server/measure/compare.h"

namespace tunefarm {
namespace {

// One time for each round.
std::vector<double> RoundsOf(const FinalTrial& trial, int rounds) {
  const auto& kept = trial.trial.measurement().sample_ns();
  std::vector<double> medians =
      RoundMedians(std::vector<double>(kept.begin(), kept.end()), static_cast<size_t>(std::max(rounds, 1)));
  if (medians.empty()) medians.push_back(trial.trial.measurement().median_ns());
  return medians;
}

bool Faster(const FinalTrial& a, const FinalTrial& b) {
  const double a_ns = a.trial.measurement().median_ns(), b_ns = b.trial.measurement().median_ns();
  return a_ns != b_ns ? a_ns < b_ns : a.trial.ordinal() < b.trial.ordinal();
}

}  // namespace

bool HasTime(const tunefarm::v1::Trial& trial) {
  return trial.outcome() == tunefarm::v1::OUTCOME_OK && trial.measurement().median_ns() > 0;
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
  const FinalTrial* const reference = defender == nullptr ? good.front() : defender;
  const std::vector<double> reference_rounds = RoundsOf(*reference, rounds);
  FinalDecision decision{FinalDecision::Kind::kRefresh, reference, 1, 1, 1};
  CompareOptions options;
  options.margin = kPromotionMargin;
  SpeedVerdict verdict = SpeedVerdict::kNoDecision;
  for (const FinalTrial* const trial : good) {
    if (trial == reference) continue;
    const Comparison comparison = ComparePaired(RoundsOf(*trial, rounds), reference_rounds, options);
    if (comparison.ratio >= decision.ratio) continue;
    verdict = comparison.verdict;
    decision.winner = trial;
    decision.ratio = comparison.ratio;
    decision.ratio_low = comparison.ratio_interval.low;
    decision.ratio_high = comparison.ratio_interval.high;
  }
  if (defender == nullptr || (decision.winner != defender && verdict == SpeedVerdict::kFaster)) {
    decision.kind = FinalDecision::Kind::kPromote;
  } else {
    decision.winner = defender;
  }
  return decision;
}

}  // namespace tunefarm
