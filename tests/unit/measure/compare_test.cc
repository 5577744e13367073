#include "server/measure/compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

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
  EXPECT_EQ(ComparePaired(fast, slow).verdict, SpeedVerdict::kFaster);
  EXPECT_EQ(ComparePaired(slow, fast).verdict, SpeedVerdict::kSlower);
  const Comparison comparison = ComparePaired(fast, slow);
  EXPECT_NEAR(comparison.ratio, 100.0 / 110, 0.01);
  EXPECT_LT(comparison.ratio_interval.low, comparison.ratio);
  EXPECT_GT(comparison.ratio_interval.high, comparison.ratio);
}

TEST(Compare, MarginMakesSmallDifferencesNone) {
  PhiloxStream random(2);
  const std::vector<double> fast = Noisy(100, 0.002, 50, random);
  const std::vector<double> slow = Noisy(101, 0.002, 50, random);
  EXPECT_EQ(ComparePaired(fast, slow).verdict, SpeedVerdict::kFaster);
  EXPECT_EQ(ComparePaired(slow, fast, {.margin = 0.02}).verdict, SpeedVerdict::kNoDecision);
}

TEST(Compare, TooFewRoundsDecideNothing) {
  const std::vector<double> many(20, 2.0);
  EXPECT_EQ(ComparePaired(std::vector<double>{1}, many).verdict, SpeedVerdict::kNoDecision);
  EXPECT_EQ(ComparePaired(std::vector<double>{1}, many).ratio, 0.5);
  EXPECT_EQ(ComparePaired({}, many).verdict, SpeedVerdict::kNoDecision);
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
}

double Normal(PhiloxStream& random) {
  const double u = std::max(random.NextDouble(), 1e-300);
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * 3.14159265358979323846 * random.NextDouble());
}

// Rounds whose conditions wander, with the times of two equal configs in each: the stated 95 % interval of their ratio
// excludes 1 in about 5 of 100 pairs, for few rounds and for many, also when a round in twenty is disturbed.
TEST(Compare, PairedIntervalCoversAsOftenAsItSays) {
  constexpr int kPairs = 4000;
  for (const bool disturbed : {false, true}) {
    for (const int rounds : {3, 5, 6, 8, 9, 16}) {
      PhiloxStream random(21);
      int excluded = 0;
      double widths = 0;
      for (int pair = 0; pair < kPairs; ++pair) {
        std::vector<double> a, b;
        double drift = 100;
        for (int round = 0; round < rounds; ++round) {
          drift *= std::exp(0.02 * Normal(random));
          const auto one = [&] {
            const bool hit = disturbed && random.NextDouble() < 0.05;
            return drift * std::exp(0.004 * Normal(random)) * (hit ? 1 + random.NextDouble() : 1);
          };
          a.push_back(one());
          b.push_back(one());
        }
        const Comparison comparison = ComparePaired(a, b);
        EXPECT_GE(comparison.ratio_interval.coverage, 0.95);
        excluded += comparison.ratio_interval.low > 1 || comparison.ratio_interval.high < 1;
        widths += comparison.ratio_interval.RelativeHalfWidth(1) / kPairs;
      }
      EXPECT_LE(excluded, kPairs * 0.06) << rounds << " rounds, disturbed: " << disturbed;
      if (disturbed) continue;
      EXPECT_GE(excluded, kPairs * 0.02) << rounds;
      // Drift cancels: of 0.57 % scatter of a round's ratio, the half-width is what the rounds leave of it.
      EXPECT_LT(widths, rounds >= 8 ? 0.006 : 0.05) << rounds;
    }
  }
}

TEST(Compare, OneDisturbedRoundMovesTheRatioLittle) {
  std::vector<double> a, b;
  for (int i = 0; i < 9; ++i) {
    a.push_back(95 + 0.1 * (i % 3));
    b.push_back(100 + 0.1 * (i % 2));
  }
  a[4] *= 1.5;
  const Comparison comparison = ComparePaired(a, b);
  EXPECT_NEAR(comparison.ratio, 0.95, 0.005);
  EXPECT_LE(comparison.ratio_interval.low, comparison.ratio);
  EXPECT_GT(comparison.ratio_interval.high, 1) << "wider, as it must be: it no longer decides";
}

TEST(Compare, RoundMediansAreOfEqualStretches) {
  const std::vector<double> samples = {1, 2, 3, 10, 20, 30, 99};
  EXPECT_EQ(RoundMedians(samples, 2), (std::vector<double>{2, 20}));
  EXPECT_EQ(RoundMedians(samples, 7), samples);
  EXPECT_TRUE(RoundMedians(samples, 8).empty());
  EXPECT_TRUE(RoundMedians(samples, 0).empty());
}

// As finals measure: rounds of samples, each with a neighbour, under a clock that drifts by a quarter.
tunefarm::v1::Measurement Drifting(double ns, double yardstick_ns, double phase, bool has_yardstick,
                                   PhiloxStream& random) {
  tunefarm::v1::Measurement measurement;
  for (int i = 0; i < 8 * 50; ++i) {
    const double slowdown = 1 + 0.12 * std::sin(phase + 0.05 * i);
    measurement.add_sample_ns(static_cast<float>(ns * slowdown * (1 + 0.002 * (random.NextDouble() - 0.5))));
    if (!has_yardstick) continue;
    measurement.add_yardstick_ns(
        static_cast<float>(yardstick_ns * slowdown * (1 + 0.002 * (random.NextDouble() - 0.5))));
  }
  measurement.set_median_ns(ns);
  return measurement;
}

TEST(Compare, NeighboursCancelWhatDriftsWithinARound) {
  PhiloxStream random(11);
  const auto a = Drifting(800e3, 700e3, 0, true, random), b = Drifting(808e3, 700e3, 2, true, random);
  const Comparison by_neighbours = CompareMeasurements(a, b, 8);
  EXPECT_NEAR(by_neighbours.ratio, 800.0 / 808, 2e-4);
  EXPECT_LT(by_neighbours.ratio_interval.high - by_neighbours.ratio_interval.low, 1e-3);
  EXPECT_EQ(by_neighbours.verdict, SpeedVerdict::kFaster);
  const Comparison alone = CompareMeasurements(Drifting(800e3, 0, 0, false, random), b, 8);
  EXPECT_GT(alone.ratio_interval.high - alone.ratio_interval.low, 0.05) << "one of them has no neighbours";
  EXPECT_EQ(alone.verdict, SpeedVerdict::kNoDecision);
}

TEST(Compare, AConfigThatSlowsItsNeighbourGainsNothing) {
  PhiloxStream random(12);
  const auto honest = Drifting(100e3, 90e3, 0, true, random), cheat = Drifting(110e3, 450e3, 0, true, random);
  const Comparison comparison = CompareMeasurements(cheat, honest, 8);
  EXPECT_NEAR(comparison.ratio, 1.1, 0.01);
  EXPECT_NE(comparison.verdict, SpeedVerdict::kFaster);
}

TEST(Compare, MeasurementsWithoutSamplesHaveTheirMedians) {
  tunefarm::v1::Measurement a, b;
  a.set_median_ns(90);
  b.set_median_ns(100);
  const Comparison comparison = CompareMeasurements(a, b, 8);
  EXPECT_DOUBLE_EQ(comparison.ratio, 0.9);
  EXPECT_EQ(comparison.verdict, SpeedVerdict::kNoDecision) << "one round";
}

TEST(Compare, EqualConfigsAreSeldomToldApart) {
  PhiloxStream random(4);
  int paired = 0;
  constexpr int kRounds = 1000;
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<double> a = Noisy(100, 0.1, 20, random);
    const std::vector<double> b = Noisy(100, 0.1, 20, random);
    if (ComparePaired(a, b).verdict != SpeedVerdict::kNoDecision) ++paired;
  }
  EXPECT_LT(paired, kRounds * 0.075);  // 4 % exact at 20 rounds
}

TEST(CompareFigures, OnlyDisjointIntervalsTellThemApart) {
  const Comparison apart = CompareFigures(9, {8.9, 9.1, 0.95}, 10, {9.8, 10.2, 0.95});
  EXPECT_NEAR(apart.ratio, 0.9, 1e-9);
  EXPECT_NEAR(apart.ratio_interval.low, 8.9 / 10.2, 1e-9);
  EXPECT_NEAR(apart.ratio_interval.high, 9.1 / 9.8, 1e-9);
  EXPECT_EQ(apart.verdict, SpeedVerdict::kFaster);
  EXPECT_EQ(CompareFigures(10, {9.8, 10.2, 0.95}, 9, {8.9, 9.1, 0.95}).verdict, SpeedVerdict::kSlower);
  EXPECT_EQ(CompareFigures(9, {8.9, 9.1, 0.95}, 10, {9.8, 10.2, 0.95}, 0.08).verdict, SpeedVerdict::kNoDecision);
  EXPECT_EQ(CompareFigures(9, {8, 10, 0.95}, 10, {9.8, 10.2, 0.95}).verdict, SpeedVerdict::kNoDecision);
  EXPECT_EQ(CompareFigures(9, {8, 10, 0.95}, 10, {0, 20, 0.95}).verdict, SpeedVerdict::kNoDecision) << "may be nothing";
}

}  // namespace
}  // namespace tunefarm
