// When to stop taking samples of one config.
//
// Looking at the interval after every sample and stopping at the first narrow one makes intervals cover less often than
// they say (sequential looking). The stopper therefore looks only at sample counts that grow by a quarter, starting at
// samples_min; the final verdict between configs rests on fresh interleaved samples anyway.
//
// In a race (race_limit_ns) the first look comes earlier and may give the config up; race.h says by which rule and how
// often that is wrong. A config whose interval still reaches down to the limit may be the best: it must become twice as
// narrow before it counts as converged, so that the top gets more samples than the rest.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/measure/statistics.h"

namespace tunefarm {

struct StoppingOptions {
  uint64_t samples_min = 10;  // at least 1; below 6 there is no 95 % interval
  uint64_t samples_max = 1000;
  double relative_half_width_max = 0.01;  // of the median's 95 % interval; what counts as converged
  double budget_ns = 1e9;                 // of measured time: the sum of the samples' costs
  double race_limit_ns = 0;               // above it a config cannot win; 0: there is no race
  uint64_t first_look_samples = 3;        // of the race; below kRaceSamplesMin counts as that
};

enum class StopDecision {
  kContinue,
  kConverged,    // the interval is narrow enough
  kBudgetSpent,  // samples_max or budget_ns was reached first: the result may be used and is marked as noisy
  kLosing,       // it cannot win the race any more
};

// Not thread-safe; one per measurement.
class SampleStopper {
 public:
  // Options out of range are taken as the nearest in range (samples_min at least 1, samples_max at least samples_min).
  explicit SampleStopper(const StoppingOptions& options);

  // One more sample, in ns, and what taking it cost (launch, flush and all; at least the sample itself).
  void Add(double sample_ns, double cost_ns);

  // What a sample that does not count has cost. Spends the budget, decides nothing before the next Add.
  void AddDiscarded(double cost_ns) { spent_ns_ += cost_ns; }
  // How much of the budget is left; 0 or less: none.
  double budget_left_ns() const { return options_.budget_ns - spent_ns_; }

  // How many more samples until the next look, at least 1: nothing is decided before, unless the budget is spent.
  uint64_t until_look() const;

  // Never changes once it is not kContinue; samples added afterwards count in Summary but decide nothing.
  StopDecision decision() const { return decision_; }

  const std::vector<double>& samples() const { return samples_; }
  // Relative half width of the median's interval at the last look; infinity before the first.
  double relative_half_width() const { return relative_half_width_; }
  SampleSummary Summary() const { return Summarize(samples_); }

 private:
  void Look();
  double Target() const;

  const StoppingOptions options_;
  std::vector<double> samples_;
  double spent_ns_ = 0;
  uint64_t next_look_;
  uint64_t looks_ = 0;
  bool may_win_ = false;  // in the race, at the last look
  double relative_half_width_;
  StopDecision decision_ = StopDecision::kContinue;
};

}  // namespace tunefarm
