#include "server/jobs/finals.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "server/measure/compare.h"

namespace tunefarm {
namespace {

// What a final goes by: smaller is better.
struct Measure {
  int rounds = 1;
  tunefarm::v1::Objective objective = tunefarm::v1::OBJECTIVE_TIME;
};

struct Figure {
  double value = 0, low = 0, high = 0;
};

// Of a trial's energy, or of its product with the time.
Figure EnergyFigure(const FinalTrial& trial, tunefarm::v1::Objective objective) {
  const tunefarm::v1::Measurement& m = trial.trial.measurement();
  const tunefarm::v1::Energy& energy = m.energy();
  Figure figure = {energy.millijoules(), energy.ci_low_millijoules(), energy.ci_high_millijoules()};
  if (objective != tunefarm::v1::OBJECTIVE_ENERGY_DELAY) return figure;
  figure.value *= m.median_ns();
  figure.low *= m.ci_low_ns();
  figure.high *= m.ci_high_ns();
  return figure;
}

bool HasEnergy(const FinalTrial& trial) { return trial.trial.measurement().energy().millijoules() > 0; }

double FigureOf(const FinalTrial& trial, tunefarm::v1::Objective objective) {
  return NeedsEnergy(objective) ? EnergyFigure(trial, objective).value : trial.trial.measurement().median_ns();
}

bool Better(const FinalTrial& a, const FinalTrial& b, tunefarm::v1::Objective objective) {
  const double a_figure = FigureOf(a, objective), b_figure = FigureOf(b, objective);
  return a_figure != b_figure ? a_figure < b_figure : a.trial.ordinal() < b.trial.ordinal();
}

Comparison CompareEnergies(const FinalTrial& a, const FinalTrial& b, double margin, tunefarm::v1::Objective objective) {
  const Figure of_a = EnergyFigure(a, objective), of_b = EnergyFigure(b, objective);
  return CompareFigures(of_a.value, {of_a.low, of_a.high, 0.95}, of_b.value, {of_b.low, of_b.high, 0.95}, margin);
}

Comparison Compare(const FinalTrial& a, const FinalTrial& b, double margin, const Measure& measure) {
  if (NeedsEnergy(measure.objective)) return CompareEnergies(a, b, margin, measure.objective);
  CompareOptions options;
  options.margin = margin;
  return CompareMeasurements(a.trial.measurement(), b.trial.measurement(), measure.rounds, options);
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
Ratio MostAhead(const std::vector<const FinalTrial*>& trials, const FinalTrial* reference, const Measure& measure) {
  Ratio ahead = {reference, Same()};
  for (const FinalTrial* const trial : trials) {
    if (trial == reference) continue;
    const Comparison comparison = Compare(*trial, *reference, 0, measure);
    if (comparison.verdict == SpeedVerdict::kFaster && comparison.ratio < ahead.ratio.ratio)
      ahead = {trial, comparison};
  }
  return ahead;
}

}  // namespace

bool HasTime(const tunefarm::v1::Trial& trial) {
  return trial.outcome() == tunefarm::v1::OUTCOME_OK && trial.measurement().median_ns() > 0;
}

bool NeedsEnergy(tunefarm::v1::Objective objective) {
  return objective == tunefarm::v1::OBJECTIVE_ENERGY || objective == tunefarm::v1::OBJECTIVE_ENERGY_DELAY;
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

FinalDecision Decide(const std::vector<FinalTrial>& trials, const std::string& incumbent, int rounds,
                     tunefarm::v1::Objective objective) {
  FinalDecision decision;
  std::vector<const FinalTrial*> good;
  const FinalTrial* defender = nullptr;
  for (const FinalTrial& trial : trials) {
    if (trial.config.empty() || trial.trial.outcome() != tunefarm::v1::OUTCOME_OK) continue;
    good.push_back(&trial);
    if (!incumbent.empty() && trial.config == incumbent) defender = &trial;
    if (NeedsEnergy(objective) && decision.without_energy == nullptr && !HasEnergy(trial)) {
      decision.without_energy = &trial;
    }
  }
  if (good.empty()) return decision;
  Measure measure{rounds, tunefarm::v1::OBJECTIVE_TIME};
  if (NeedsEnergy(objective) && decision.without_energy == nullptr) measure.objective = objective;
  decision.objective = measure.objective;
  const auto won_by = [&](FinalDecision::Kind kind, const FinalTrial* winner, const Comparison& comparison) {
    decision.kind = kind;
    decision.winner = winner;
    decision.ratio = comparison.ratio;
    decision.ratio_low = comparison.ratio_interval.low;
    decision.ratio_high = comparison.ratio_interval.high;
    return decision;
  };
  std::sort(good.begin(), good.end(),
            [&](const FinalTrial* a, const FinalTrial* b) { return Better(*a, *b, measure.objective); });
  if (defender == nullptr) {
    const Ratio ahead = MostAhead(good, good.front(), measure);
    return won_by(FinalDecision::Kind::kPromote, ahead.trial, ahead.ratio);
  }
  // Those that beat the incumbent, the best first.
  std::vector<const FinalTrial*> challengers;
  Comparison best = Same();
  for (const FinalTrial* const trial : good) {
    if (trial == defender) continue;
    const Comparison comparison = Compare(*trial, *defender, kPromotionMargin, measure);
    if (comparison.ratio < best.ratio) best = comparison;
    if (comparison.verdict == SpeedVerdict::kFaster) challengers.push_back(trial);
  }
  if (challengers.empty()) return won_by(FinalDecision::Kind::kRefresh, defender, best);
  const FinalTrial* const winner = MostAhead(challengers, challengers.front(), measure).trial;
  return won_by(FinalDecision::Kind::kPromote, winner, Compare(*winner, *defender, kPromotionMargin, measure));
}

AgainstFastest CompareWithFastest(const std::vector<FinalTrial>& trials, const FinalDecision& decision) {
  const FinalTrial* fastest = decision.winner;
  for (const FinalTrial& trial : trials) {
    if (trial.config.empty() || trial.trial.outcome() != tunefarm::v1::OUTCOME_OK) continue;
    if (Better(trial, *fastest, tunefarm::v1::OBJECTIVE_TIME)) fastest = &trial;
  }
  if (fastest == decision.winner || !NeedsEnergy(decision.objective)) return {};
  const Comparison comparison = CompareEnergies(*decision.winner, *fastest, 0, decision.objective);
  return {fastest, comparison.ratio, comparison.ratio_interval.low, comparison.ratio_interval.high};
}

}  // namespace tunefarm
