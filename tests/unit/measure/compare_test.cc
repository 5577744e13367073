#include "server/measure/compare.h"

#include <gtest/gtest.h>

#include "server/base/random.h"

namespace tunefarm {
namespace {

std::vector<double> Noisy(double median, double spread, int count, PhiloxStream& random) {
  std::vector<double> samples;
  for (int i = 0; i < count; ++i) samples.push_back(median * (1 + spread * (random.NextDouble() - 0.5)));
  return samples;
}

TEST(Compare, TellsAClearDifferenceBothWays) {
  PhiloxStream random(1);
  const std::vector<double> fast = Noisy(100, 0.02, 30, random);
  const std::vector<double> slow = Noisy(110, 0.02, 30, random);
  EXPECT_EQ(CompareMedians(fast, slow).verdict, SpeedVerdict::kFaster);
  EXPECT_EQ(CompareMedians(slow, fast).verdict, SpeedVerdict::kSlower);
  EXPECT_EQ(ComparePaired(fast, slow).verdict, SpeedVerdict::kFaster);
  EXPECT_EQ(ComparePaired(slow, fast).verdict, SpeedVerdict::kSlower);
  const Comparison comparison = CompareMedians(fast, slow);
  EXPECT_NEAR(comparison.ratio, 100.0 / 110, 0.01);
  EXPECT_LT(comparison.ratio_interval.low, comparison.ratio);
  EXPECT_GT(comparison.ratio_interval.high, comparison.ratio);
}

TEST(Compare, MarginMakesSmallDifferencesNone) {
  PhiloxStream random(2);
  const std::vector<double> fast = Noisy(100, 0.002, 50, random);
  const std::vector<double> slow = Noisy(101, 0.002, 50, random);
  EXPECT_EQ(CompareMedians(fast, slow).verdict, SpeedVerdict::kFaster);
  EXPECT_EQ(CompareMedians(fast, slow, {.margin = 0.02}).verdict, SpeedVerdict::kNoDecision);
  EXPECT_EQ(ComparePaired(slow, fast, {.margin = 0.02}).verdict, SpeedVerdict::kNoDecision);
}

TEST(Compare, TooFewSamplesDecideNothing) {
  const std::vector<double> few = {1, 1, 1, 1, 1};
  const std::vector<double> many(20, 2.0);
  EXPECT_EQ(CompareMedians(few, many).verdict, SpeedVerdict::kNoDecision);
  EXPECT_EQ(CompareMedians(few, many).ratio, 0.5);
  EXPECT_EQ(ComparePaired(few, many).verdict, SpeedVerdict::kNoDecision);
  EXPECT_EQ(CompareMedians({}, many).verdict, SpeedVerdict::kNoDecision);
}

TEST(Compare, PairsCancelCommonDrift) {
  // Both slow down by half over the session; a is 2 % faster in every round.
  std::vector<double> a;
  std::vector<double> b;
  for (int i = 0; i < 12; ++i) {
    const double drift = 1 + i * 0.05;
    a.push_back(98 * drift);
    b.push_back(100 * drift);
  }
  EXPECT_EQ(ComparePaired(a, b).verdict, SpeedVerdict::kFaster);
  EXPECT_EQ(CompareMedians(a, b).verdict, SpeedVerdict::kNoDecision);
}

TEST(Compare, IsDeterministic) {
  PhiloxStream random(3);
  const std::vector<double> a = Noisy(100, 0.3, 15, random);
  const std::vector<double> b = Noisy(100, 0.3, 15, random);
  const Comparison first = CompareMedians(a, b);
  const Comparison second = CompareMedians(a, b);
  EXPECT_EQ(first.ratio_interval.low, second.ratio_interval.low);
  EXPECT_EQ(first.ratio_interval.high, second.ratio_interval.high);
  EXPECT_NE(CompareMedians(a, b, {.seed = 2}).ratio_interval.low, first.ratio_interval.low);
}

TEST(Compare, EqualConfigsAreSeldomToldApart) {
  PhiloxStream random(4);
  int paired = 0;
  int independent = 0;
  constexpr int kRounds = 1000;
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<double> a = Noisy(100, 0.1, 20, random);
    const std::vector<double> b = Noisy(100, 0.1, 20, random);
    if (ComparePaired(a, b).verdict != SpeedVerdict::kNoDecision) ++paired;
    if (CompareMedians(a, b, {.resamples = 400}).verdict != SpeedVerdict::kNoDecision) ++independent;
  }
  EXPECT_LT(paired, kRounds * 0.075);  // 4 % exact at 20 rounds
  EXPECT_LT(independent, kRounds * 0.09);
}

}  // namespace
}  // namespace tunefarm
