#include "server/worker/verify/sampling.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "server/measure/stopping.h"

namespace tunefarm {
namespace {

constexpr int kSamplesMax = 4096;
constexpr int kLaunchesPerSampleMax = 1000;
// A slow config spends its budget on its first sample; a median of fewer than these is no median.
constexpr uint64_t kSamplesFewest = 3;
// A sample should be this many times longer than the clock's resolution.
constexpr double kResolutionsPerSample = 200;
// A device that stays slow must not cost more than this of the time budget without a result.
constexpr double kDiscardedShareMax = 0.5;

StoppingOptions StoppingOf(const v1::MeasurementPolicy& policy, double race_limit_ns) {
  StoppingOptions options;
  options.samples_min = static_cast<uint64_t>(std::clamp(policy.min_samples(), 1, kSamplesMax));
  options.samples_max = static_cast<uint64_t>(std::clamp(policy.max_samples(), 1, kSamplesMax));
  options.relative_half_width_max = policy.target_relative_half_width();
  options.budget_ns = policy.time_budget_ms() * 1e6;
  options.first_look_samples = static_cast<uint64_t>(std::clamp(policy.first_look_samples(), 1, kSamplesMax));
  options.race_limit_ns = policy.no_early_stop() || !std::isfinite(race_limit_ns) ? 0 : std::max(race_limit_ns, 0.0);
  return options;
}

void Describe(const SampleSummary& summary, v1::Measurement* measurement) {
  measurement->set_median_ns(summary.median);
  measurement->set_ci_low_ns(summary.median_interval.low);
  measurement->set_ci_high_ns(summary.median_interval.high);
  measurement->set_min_ns(summary.min);
  measurement->set_max_ns(summary.max);
  measurement->set_mean_ns(summary.mean);
  measurement->set_stdev_ns(summary.stdev);
  measurement->set_samples(static_cast<int>(summary.count));
}

v1::StopReason ReasonOf(const SampleStopper& stopper, const StoppingOptions& options) {
  if (stopper.decision() == StopDecision::kConverged) return v1::STOP_REASON_CONVERGED;
  if (stopper.decision() == StopDecision::kLosing) return v1::STOP_REASON_LOSING;
  return stopper.samples().size() >= std::max(options.samples_min, options.samples_max) ? v1::STOP_REASON_SAMPLE_BUDGET
                                                                                        : v1::STOP_REASON_TIME_BUDGET;
}

}  // namespace

std::optional<double> RunWarmUp(const v1::MeasurementPolicy& policy, const Clock& clock,
                                const TakeWarmUp& take_warm_up) {
  const MonotonicTime start = clock.Now();
  const std::optional<double> first_ns = take_warm_up(1);
  if (!first_ns) return std::nullopt;
  // Everything that comes with a launch counts, not only what the launch itself took.
  const double cost_ns = std::max(static_cast<double>((clock.Now() - start).count()), 1.0);
  const double left_ns = policy.time_budget_ms() * 1e6 - cost_ns;
  const double affordable = std::min(std::ceil(left_ns / cost_ns), policy.warmup_launches() - 1.0);
  return affordable >= 1 ? take_warm_up(static_cast<int>(affordable)) : first_ns;
}

SamplingResult RunSampling(const SamplingOptions& options, const Clock& clock, const TakeSample& take_sample) {
  SamplingResult result;
  const StoppingOptions stopping = StoppingOf(options.policy, options.race_limit_ns);
  SampleStopper stopper(stopping);
  const int launches = std::max(options.launches_per_sample, 1);
  int discarded = 0;
  double discarded_ns = 0;
  bool kept_slowed = false;
  std::vector<double> yardstick_ns;
  while (stopper.decision() == StopDecision::kContinue || stopper.samples().size() < kSamplesFewest) {
    const MonotonicTime start = clock.Now();
    // As many as are taken anyway.
    const uint64_t count = stopper.samples().size();
    const uint64_t until = std::max(stopper.until_look(), kSamplesFewest - std::min(count, kSamplesFewest));
    const std::optional<TakenSample> taken = take_sample(launches, static_cast<int>(until));
    if (!taken) {
      result.failed = true;
      break;
    }
    const double cost_ns = static_cast<double>((clock.Now() - start).count());
    const double total_ns = taken->nanoseconds;
    if (!std::isfinite(total_ns) || total_ns <= 0 || total_ns > cost_ns) {
      result.implausible = true;
      break;
    }
    const size_t block = static_cast<size_t>(std::max(taken->block, 0));
    if (result.blocks.size() <= block) result.blocks.resize(block + 1);
    if (taken->is_slowed && discarded_ns + cost_ns < stopping.budget_ns * kDiscardedShareMax &&
        stopper.budget_left_ns() > cost_ns && discarded < kSamplesMax) {
      stopper.AddDiscarded(cost_ns);
      discarded_ns += cost_ns;
      ++discarded;
      ++result.blocks[block].discarded;
      continue;
    }
    kept_slowed = kept_slowed || taken->is_slowed;
    // The budget is one of time passed, the samples are of one launch sequence.
    stopper.Add(total_ns / launches, cost_ns);
    ++result.blocks[block].samples;
    if (taken->yardstick_ns > 0) yardstick_ns.push_back(taken->yardstick_ns / launches);
  }
  v1::Measurement* const measurement = &result.measurement;
  measurement->set_launches_per_sample(launches);
  measurement->set_discarded_samples(discarded);
  measurement->set_throttled(kept_slowed);
  if (stopper.samples().empty()) return result;
  const SampleSummary summary = stopper.Summary();
  Describe(summary, measurement);
  measurement->set_converged(stopper.decision() == StopDecision::kConverged);
  measurement->set_stop_reason(ReasonOf(stopper, stopping));
  if (options.keep_samples) {
    for (const double sample : stopper.samples()) measurement->add_sample_ns(static_cast<float>(sample));
    if (yardstick_ns.size() == stopper.samples().size()) {
      for (const double time : yardstick_ns) measurement->add_yardstick_ns(static_cast<float>(time));
    }
  }
  const double noisy_from = options.policy.noisy_relative_half_width();
  const bool known_to_be_wide = noisy_from > 0 && summary.median_interval.coverage >= 0.95 &&
                                summary.median_interval.RelativeHalfWidth(summary.median) > noisy_from;
  result.established = !result.failed && !result.implausible && summary.count >= kSamplesFewest && !known_to_be_wide;
  return result;
}

int LaunchesPerSample(double launch_ns, double resolution_ns, bool one_only) {
  if (one_only) return 1;
  if (!(launch_ns > 0)) return kLaunchesPerSampleMax;
  return static_cast<int>(std::clamp(std::ceil(kResolutionsPerSample * resolution_ns / launch_ns), 1.0,
                                     static_cast<double>(kLaunchesPerSampleMax)));
}

}  // namespace tunefarm
