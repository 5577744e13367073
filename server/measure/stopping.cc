#include "server/measure/stopping.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "server/measure/race.h"

namespace tunefarm {
namespace {

// What may win must be known better than the rest.
constexpr double kContenderTarget = 0.5;

StoppingOptions InRange(StoppingOptions options) {
  options.samples_min = std::max<uint64_t>(options.samples_min, 1);
  options.samples_max = std::max(options.samples_max, options.samples_min);
  options.first_look_samples = std::max(options.first_look_samples, kRaceSamplesMin);
  return options;
}

}  // namespace

SampleStopper::SampleStopper(const StoppingOptions& options)
    : options_(InRange(options)),
      next_look_(options_.race_limit_ns > 0 ? std::min(options_.samples_min, options_.first_look_samples)
                                            : options_.samples_min),
      relative_half_width_(std::numeric_limits<double>::infinity()) {}

void SampleStopper::Add(double sample_ns, double cost_ns) {
  samples_.push_back(sample_ns);
  spent_ns_ += std::max(sample_ns, cost_ns);
  if (decision_ != StopDecision::kContinue) return;
  const uint64_t count = samples_.size();
  const bool is_time_spent = spent_ns_ >= options_.budget_ns;
  const bool is_count_spent = count >= options_.samples_max;
  if (count >= next_look_ || is_time_spent || is_count_spent) Look();
  if (decision_ != StopDecision::kContinue) return;
  // A result on fewer than samples_min samples is never called converged.
  if (count >= options_.samples_min && relative_half_width_ <= Target()) {
    decision_ = StopDecision::kConverged;
  } else if (is_time_spent || is_count_spent) {
    decision_ = StopDecision::kBudgetSpent;
  }
}

void SampleStopper::Look() {
  std::vector<double> sorted = samples_;
  std::sort(sorted.begin(), sorted.end());
  const Interval interval = MedianInterval(sorted);
  // An interval that cannot reach its coverage says nothing.
  relative_half_width_ = interval.coverage >= 0.95 ? interval.RelativeHalfWidth(SortedQuantile(sorted, 0.5))
                                                   : std::numeric_limits<double>::infinity();
  const uint64_t count = samples_.size();
  next_look_ = count + std::max<uint64_t>(count / 4, 1);
  if (count < options_.samples_min) next_look_ = std::min(next_look_, options_.samples_min);
  ++looks_;
  may_win_ = options_.race_limit_ns > 0 && interval.low <= options_.race_limit_ns;
  if (IsRaceLost(samples_, options_.race_limit_ns, looks_)) decision_ = StopDecision::kLosing;
}

double SampleStopper::Target() const { return options_.relative_half_width_max * (may_win_ ? kContenderTarget : 1.0); }

uint64_t SampleStopper::until_look() const {
  const uint64_t count = samples_.size();
  return std::max<uint64_t>(std::min(next_look_, options_.samples_max), count + 1) - count;
}

}  // namespace tunefarm
