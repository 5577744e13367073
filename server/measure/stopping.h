// When to stop taking samples of one config.
//
// Looking at the interval after every sample and stopping at the first narrow one makes intervals cover less often than
// they say (sequential looking). The stopper therefore looks only at sample counts that grow by a quarter, starting at
// samples_min; the final verdict between configs rests on fresh interleaved samples anyway.
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
};

enum class StopDecision {
  kContinue,
  kConverged,    // the interval is narrow enough
  kBudgetSpent,  // samples_max or budget_ns was reached first: the result may be used and is marked as noisy
};

// "continue", "converged", "budget spent".
std::string_view StopDecisionName(StopDecision decision);

// Not thread-safe; one per measurement.
class SampleStopper {
 public:
  // Options out of range are taken as the nearest in range (samples_min at least 1, samples_max at least samples_min).
  explicit SampleStopper(const StoppingOptions& options);

  // One more sample, in ns, and what taking it cost (launch, flush and all; at least the sample itself).
  void Add(double sample_ns, double cost_ns);

  // Never changes once it is not kContinue; samples added afterwards count in Summary but decide nothing.
  StopDecision decision() const { return decision_; }

  // For people: why it stopped, or which condition is unmet, in one phrase, e.g.
  // "sample budget of 1000 spent at ±1.8 % (target ±1.0 %)".
  std::string Reason() const;

  const std::vector<double>& samples() const { return samples_; }
  // Relative half width of the median's interval at the last look; infinity before the first.
  double relative_half_width() const { return relative_half_width_; }
  SampleSummary Summary() const { return Summarize(samples_); }

 private:
  void Look();

  const StoppingOptions options_;
  std::vector<double> samples_;
  double spent_ns_ = 0;
  uint64_t next_look_;
  double relative_half_width_;
  StopDecision decision_ = StopDecision::kContinue;
  bool is_time_spent_ = false;
};

}  // namespace tunefarm
