// Simulation: a strategy runs on a recording in simulated time, and the methodology's score says how good it was.
//
// The score follows Willemsen et al., "A methodology for comparing optimization algorithms for auto-tuning". Of N valid
// results: target = optimum + 5 % of the way to the median (cutoff 95 %). The budget is the number of evaluations after
// which random search is expected to reach the target, and that number times the median cost of an evaluation. At each
// point t of the budget P(t) = (baseline(t) - F(t)) / (baseline(t) - optimum). 0 is random search, 1 is the optimum at
// once, below 0 is worse than random. The score is the mean of P over the budget.
//
// Both the baseline and F are averages of places, not of times: each is the value at a mean place among the N results,
// the baseline at that which random search without replacement is expected to have reached, F at the mean place of the
// runs' best so far. Times cannot be averaged instead: where the best few are far apart, the mean time of random
// search's best is not the time at its mean place, and random search would not score 0. The published program does so
// too; it finds the mean place over time by a regression on samples of the runs, here it is exact. `mean_of_times` is
// the score with the mean time of the runs' best as F, for comparison with those who calculate that.
//
// Pure functions of their arguments.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "server/search/recording.h"
#include "server/search/strategy.h"

namespace tunefarm {

struct SimulationOptions {
  int in_flight = 1;  // evaluations at once, as of so many devices
  // The run ends when both are reached.
  uint64_t evaluations = 0;
  double seconds = 0;
};

struct SimulatedTrial {
  uint64_t row = 0;  // of the recording's space
  double ended_at_seconds = 0;
};

// In the order in which they ended.
using SimulatedRun = std::vector<SimulatedTrial>;

// Fails as the strategy does; Internal when it proposes what is not of the recording.
absl::StatusOr<SimulatedRun> Simulate(const Recording& recording, const SimulationOptions& options, Strategy* strategy);

// What a recording's own distribution of results says.
class ScoreBasis {
 public:
  explicit ScoreBasis(const Recording& recording, double cutoff = 0.95);

  double optimum() const { return worst_first_.back(); }
  double median() const { return median_; }
  double target() const { return target_; }
  uint64_t budget_evaluations() const { return budget_evaluations_; }
  double budget_seconds() const { return static_cast<double>(budget_evaluations_) * median_cost_; }
  double median_cost_seconds() const { return median_cost_; }

  // What random search is expected to have after so many evaluations (at least 1), or after so many seconds.
  double BaselineAfter(uint64_t evaluations) const;
  double BaselineAt(double seconds) const;
  // P of a value where the baseline is at `baseline`; 0 where the baseline is at the optimum and so is the value.
  double Performance(double baseline, double value) const;
  // How many valid results are better than a value, and the value that so many are better than, to the nearest.
  double PlaceOf(double value) const;
  double ValueAtPlace(double place) const;

 private:
  std::vector<double> worst_first_;  // valid objectives
  double median_ = 0;
  double target_ = 0;
  double median_cost_ = 0;
  double mean_cost_ = 0;
  uint64_t budget_evaluations_ = 0;
};

struct ScoreCurvePoint {
  double at = 0;  // evaluations or seconds
  double baseline = 0;
  double best_mean = 0;        // F: the value at the mean place of the runs' best
  double performance = 0;      // P
  double performance_low = 0;  // the 10 % and 90 % points of the runs
  double performance_high = 0;
};

struct Score {
  double mean = 0;             // of P over the curve
  double mean_of_times = 0;    // the same where F is the mean of the runs' best times
  double deviation = 0;        // standard deviation between runs
  std::vector<double> runs;    // the score of each run alone; their mean is `mean_of_times`
  double share_at_target = 0;  // of the runs, that reached the target within the budget
  std::vector<ScoreCurvePoint> curve;
};

// Over the evaluations 1 .. budget, and over `points` (at least 2) equidistant times from one median cost to the
// budget. A run counts with the median before it has a valid result, and with its last best after its end.
Score ScoreOverEvaluations(const Recording& recording, const ScoreBasis& basis, std::span<const SimulatedRun> runs);
Score ScoreOverTime(const Recording& recording, const ScoreBasis& basis, std::span<const SimulatedRun> runs,
                    int points = 1000);

}  // namespace tunefarm
