#include "server/worker/verify/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/fakes/fake_clock.h"

namespace tunefarm {
namespace {

SamplingOptions Options() {
  SamplingOptions options;
  options.policy.set_min_samples(10);
  options.policy.set_max_samples(100);
  options.policy.set_target_relative_half_width(0.01);
  options.policy.set_time_budget_ms(500);
  options.policy.set_noisy_relative_half_width(0.5);
  return options;
}

// Takes samples from a script, repeating its last entry; each costs a millisecond on top.
class Script {
 public:
  explicit Script(std::vector<double> times_ns) : times_ns_(std::move(times_ns)) {}

  SamplingResult Run(const SamplingOptions& options) {
    return RunSampling(options, clock_, [this](int launches, int until_look) -> std::optional<TakenSample> {
      launches_ = launches;
      longest_batch_ = std::max(longest_batch_, until_look);
      const double time_ns = times_ns_[std::min(taken_++, times_ns_.size() - 1)];
      if (time_ns == kFails) return std::nullopt;
      const double cost_ns = std::isfinite(time_ns) && time_ns > 0 ? time_ns : 0;
      clock_.Advance(overhead_ + Duration(static_cast<int64_t>(cost_ns)));
      TakenSample sample;
      sample.nanoseconds = time_ns;
      sample.yardstick_ns = yardstick_ns_ * static_cast<double>(taken_);
      sample.block = static_cast<int>(taken_ - 1) / 4;
      sample.is_slowed = taken_ > slow_from_ && taken_ <= slow_until_;
      return sample;
    });
  }

  static constexpr double kFails = -12345;

  FakeClock clock_;
  Duration overhead_ = std::chrono::milliseconds(1);
  size_t taken_ = 0;
  int launches_ = 0, longest_batch_ = 0;
  size_t slow_from_ = 0, slow_until_ = 0;  // samples taken while the clock is held down
  double yardstick_ns_ = 0;                // of the first sample's neighbour; the n-th's takes n times that

 private:
  const std::vector<double> times_ns_;
};

TEST(SamplingTest, EqualSamplesConvergeAtTheMinimum) {
  Script script({5000});
  const SamplingResult result = script.Run(Options());
  EXPECT_EQ(script.taken_, 10u);
  EXPECT_TRUE(result.established);
  EXPECT_TRUE(result.measurement.converged());
  EXPECT_EQ(result.measurement.stop_reason(), v1::STOP_REASON_CONVERGED);
  EXPECT_EQ(result.measurement.samples(), 10);
  EXPECT_EQ(result.measurement.median_ns(), 5000);
  EXPECT_EQ(result.measurement.ci_low_ns(), 5000);
  EXPECT_EQ(result.measurement.min_ns(), 5000);
  EXPECT_EQ(result.measurement.stdev_ns(), 0);
  EXPECT_EQ(result.measurement.launches_per_sample(), 1);
  EXPECT_EQ(result.measurement.sample_ns_size(), 0);
}

TEST(SamplingTest, SamplesAreKeptOnRequest) {
  SamplingOptions options = Options();
  options.keep_samples = true;
  const SamplingResult result = Script({5000, 6000, 5000}).Run(options);
  ASSERT_GE(result.measurement.sample_ns_size(), 3);
  EXPECT_EQ(result.measurement.sample_ns(1), 6000);
}

TEST(SamplingTest, EachKeptSampleHasItsNeighbour) {
  SamplingOptions options = Options();
  options.keep_samples = true;
  options.launches_per_sample = 2;
  Script script({5000});
  script.yardstick_ns_ = 100;
  script.slow_from_ = 2;
  script.slow_until_ = 5;
  const SamplingResult result = script.Run(options);
  ASSERT_EQ(result.measurement.yardstick_ns_size(), result.measurement.sample_ns_size());
  EXPECT_EQ(result.measurement.yardstick_ns(0), 50) << "of one launch";
  EXPECT_EQ(result.measurement.yardstick_ns(2), 300) << "those of discarded samples are discarded too";
  ASSERT_GE(result.blocks.size(), 2u);
  EXPECT_EQ(result.blocks[0].samples, 2);
  EXPECT_EQ(result.blocks[0].discarded, 2);
  EXPECT_EQ(result.blocks[1].discarded, 1);
}

TEST(SamplingTest, ScatteredSamplesEndAtTheSampleBudget) {
  std::vector<double> times;
  for (int i = 0; i < 200; ++i) times.push_back(i % 2 == 0 ? 1000 : 1300);
  Script script(times);
  const SamplingResult result = script.Run(Options());
  EXPECT_EQ(script.taken_, 100u);
  EXPECT_FALSE(result.measurement.converged());
  EXPECT_EQ(result.measurement.stop_reason(), v1::STOP_REASON_SAMPLE_BUDGET);
  EXPECT_TRUE(result.established);
}

TEST(SamplingTest, OverheadCountsAgainstTheTimeBudget) {
  std::vector<double> times;
  for (int i = 0; i < 200; ++i) times.push_back(i % 2 == 0 ? 1000 : 1300);
  Script script(times);
  script.overhead_ = std::chrono::milliseconds(25);
  const SamplingResult result = script.Run(Options());
  EXPECT_EQ(script.taken_, 20u);
  EXPECT_EQ(result.measurement.stop_reason(), v1::STOP_REASON_TIME_BUDGET);
}

TEST(SamplingTest, ASlowConfigStillGetsThreeSamples) {
  Script script({2e9});
  const SamplingResult result = script.Run(Options());
  EXPECT_EQ(script.taken_, 3u);
  EXPECT_TRUE(result.established);
  EXPECT_FALSE(result.measurement.converged());
  EXPECT_EQ(result.measurement.stop_reason(), v1::STOP_REASON_TIME_BUDGET);
  EXPECT_EQ(result.measurement.median_ns(), 2e9);
}

TEST(SamplingTest, AnUnknowableTimeIsNotEstablished) {
  std::vector<double> times;
  for (int i = 0; i < 200; ++i) times.push_back(i % 2 == 0 ? 1000 : 50000);
  const SamplingResult result = Script(times).Run(Options());
  EXPECT_FALSE(result.established);
  EXPECT_FALSE(result.failed);
  EXPECT_GT(result.measurement.samples(), 0);
  SamplingOptions any_time = Options();
  any_time.policy.set_noisy_relative_half_width(-1);
  EXPECT_TRUE(Script(times).Run(any_time).established);
}

TEST(SamplingTest, AFailedSampleEndsIt) {
  Script script({5000, 5000, Script::kFails});
  const SamplingResult result = script.Run(Options());
  EXPECT_TRUE(result.failed);
  EXPECT_FALSE(result.established);
  EXPECT_EQ(result.measurement.samples(), 2);
}

TEST(SamplingTest, LaunchesPerSampleDivideTheTime) {
  SamplingOptions options = Options();
  options.launches_per_sample = 8;
  Script script({8000});
  const SamplingResult result = script.Run(options);
  EXPECT_EQ(script.launches_, 8);
  EXPECT_EQ(result.measurement.median_ns(), 1000);
  EXPECT_EQ(result.measurement.launches_per_sample(), 8);
}

TEST(SamplingTest, AConfigThatCannotWinIsLeftAtTheFirstLook) {
  SamplingOptions options = Options();
  options.policy.set_first_look_samples(4);
  options.race_limit_ns = 4000;
  Script script({5000});
  const SamplingResult result = script.Run(options);
  EXPECT_EQ(script.taken_, 4u);
  EXPECT_EQ(script.longest_batch_, 4) << "no more is asked for at once than the next look needs";
  EXPECT_EQ(result.measurement.stop_reason(), v1::STOP_REASON_LOSING);
  EXPECT_FALSE(result.measurement.converged());
  EXPECT_TRUE(result.established) << "a losing config is no noisy one";
  options.policy.set_no_early_stop(true);
  EXPECT_EQ(Script({5000}).Run(options).measurement.stop_reason(), v1::STOP_REASON_CONVERGED);
}

TEST(SamplingTest, SamplesOfASlowedDeviceAreTakenAgain) {
  Script script({5000});
  script.slow_from_ = 3;
  script.slow_until_ = 8;
  const SamplingResult result = script.Run(Options());
  EXPECT_EQ(script.taken_, 15u);
  EXPECT_EQ(result.measurement.samples(), 10);
  EXPECT_EQ(result.measurement.discarded_samples(), 5);
  EXPECT_FALSE(result.measurement.throttled());
}

TEST(SamplingTest, ADeviceThatStaysSlowIsMeasuredAsItIs) {
  Script script({5000});
  script.overhead_ = std::chrono::milliseconds(20);
  script.slow_until_ = 1000;
  const SamplingResult result = script.Run(Options());
  EXPECT_TRUE(result.established);
  EXPECT_TRUE(result.measurement.throttled());
  EXPECT_EQ(result.measurement.samples(), 10);
  // Half of the budget of 500 ms.
  EXPECT_EQ(result.measurement.discarded_samples(), 12);
}

TEST(SamplingTest, TimesThatCannotBeAreNotBelieved) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double lie : {nan, HUGE_VAL, 0.0, -1.0}) {
    EXPECT_TRUE(Script({lie}).Run(Options()).implausible) << lie;
  }
  FakeClock clock;
  // A second of kernel time while a microsecond passed.
  const SamplingResult result = RunSampling(Options(), clock, [&clock](int, int) -> std::optional<TakenSample> {
    clock.Advance(std::chrono::microseconds(1));
    return TakenSample{1e9};
  });
  EXPECT_TRUE(result.implausible);
  EXPECT_FALSE(result.established);
}

// The warm-up's batches, where every launch takes as long; -1 ms: the kernel fails.
std::vector<int> WarmUpBatches(int launches, int each_ms, std::optional<double>* launch_ns) {
  v1::MeasurementPolicy policy;
  policy.set_warmup_launches(launches);
  policy.set_time_budget_ms(500);
  FakeClock clock;
  std::vector<int> batches;
  *launch_ns = RunWarmUp(policy, clock, [&](int count) -> std::optional<double> {
    batches.push_back(count);
    if (each_ms < 0) return std::nullopt;
    clock.Advance(std::chrono::milliseconds(each_ms * count));
    return each_ms * 1e6;
  });
  return batches;
}

TEST(WarmUpTest, EndsWithTheTimeBudget) {
  std::optional<double> launch_ns;
  EXPECT_EQ(WarmUpBatches(10, 0, &launch_ns), (std::vector<int>{1, 9}));
  EXPECT_EQ(WarmUpBatches(10, 1, &launch_ns), (std::vector<int>{1, 9}));
  EXPECT_EQ(launch_ns, 1e6);
  EXPECT_EQ(WarmUpBatches(10, 150, &launch_ns), (std::vector<int>{1, 3}));
  EXPECT_EQ(WarmUpBatches(10, 500, &launch_ns), (std::vector<int>{1}));
  EXPECT_EQ(WarmUpBatches(1000, 2000, &launch_ns), (std::vector<int>{1}));
  EXPECT_EQ(launch_ns, 2e9);
  EXPECT_EQ(WarmUpBatches(1, 1, &launch_ns), (std::vector<int>{1}));
  EXPECT_EQ(WarmUpBatches(0, 1, &launch_ns), (std::vector<int>{1}));
  EXPECT_EQ(WarmUpBatches(10, -1, &launch_ns), (std::vector<int>{1}));
  EXPECT_EQ(launch_ns, std::nullopt);
}

TEST(LaunchesPerSampleTest, LongEnoughForTheClock) {
  EXPECT_EQ(LaunchesPerSample(1e6, 100, false), 1);
  EXPECT_EQ(LaunchesPerSample(20'000, 100, false), 1);
  EXPECT_EQ(LaunchesPerSample(500, 100, false), 40);
  EXPECT_EQ(LaunchesPerSample(500, 100, true), 1);
  EXPECT_EQ(LaunchesPerSample(1, 100, false), 1000);
  EXPECT_EQ(LaunchesPerSample(0, 100, false), 1000);
}

}  // namespace
}  // namespace tunefarm
