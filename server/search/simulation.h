// Simulation: a strategy runs on a recording in simulated time, and the methodology's score says how good it was.
//
// The score follows Willemsen et al., "A methodology for comparing optimization algorithms for auto-tuning". Of N valid
// results: target = optimum + 5 % of the way to the median (cutoff 95 %). The budget is the number of evaluations after
// which random search is expected to reach the target, and that number times the median cost of an evaluation. At each
// point t of the budget P(t) = (baseline(t) - F(t)) / (baseline(t) - optimum), where F is the best so far, averaged
// over the runs, and baseline is what random search without replacement is expected to have. 0 is random search, 1 is
// the optimum at once, below 0 is worse than random. The score is the mean of P over the budget.
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
  double best_mean = 0;        // F
  double performance = 0;      // P
  double performance_low = 0;  // the 10 % and 90 % points of the runs
  double performance_high = 0;
};

struct Score {
  double mean = 0;
  double deviation = 0;        // standard deviation between runs
  std::vector<double> runs;    // one score per run; their mean is `mean`
  double share_at_target = 0;  // of the runs, that reached the target within the budget
  std::vector<ScoreCurvePoint> curve;
};

// Over the evaluations 1 .. budget, and over `points` (at least 2) equidistant times from one median cost to the
// budget. A run counts with the median before it has a valid result, and with its last best after its end.
Score ScoreOverEvaluations(const Recording& recording, const ScoreBasis& basis, std::span<const SimulatedRun> runs);
Score ScoreOverTime(const Recording& recording, const ScoreBasis& basis, std::span<const SimulatedRun> runs,
                    int points = 1000);

}  // namespace tunefarm
