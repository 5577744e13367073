#include "server/measure/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "server/base/random.h"

namespace tunefarm {
namespace {

TEST(Statistics, QuantilesInterpolateAsNumPy) {
  const std::vector<double> sorted = {1, 2, 4, 8};
  EXPECT_EQ(SortedQuantile(sorted, 0), 1);
  EXPECT_EQ(SortedQuantile(sorted, 0.5), 3);
  EXPECT_EQ(SortedQuantile(sorted, 0.25), 1.75);
  EXPECT_EQ(SortedQuantile(sorted, 1), 8);
  EXPECT_EQ(SortedQuantile(std::vector<double>{7}, 0.3), 7);
}

TEST(Statistics, SummaryOfKnownSamples) {
  const SampleSummary summary = Summarize(std::vector<double>{9, 2, 4, 4, 5, 5, 7, 4});
  EXPECT_EQ(summary.count, 8u);
  EXPECT_EQ(summary.min, 2);
  EXPECT_EQ(summary.max, 9);
  EXPECT_EQ(summary.mean, 5);
  EXPECT_NEAR(summary.stdev, std::sqrt(32.0 / 7), 1e-12);
  EXPECT_EQ(summary.median, 4.5);
  EXPECT_EQ(Summarize({}).count, 0u);
  EXPECT_EQ(Summarize(std::vector<double>{3}).stdev, 0);
}

TEST(Statistics, SpreadOfLargeNearlyEqualNumbersSurvives) {
  EXPECT_NEAR(Summarize(std::vector<double>{1e15, 1e15 + 1, 1e15 + 2}).stdev, 1, 1e-9);
}

TEST(Statistics, BinomialTail) {
  EXPECT_NEAR(BinomialHalfCdf(10, 1), 11.0 / 1024, 1e-15);
  EXPECT_NEAR(BinomialHalfCdf(10, 0), 1.0 / 1024, 1e-15);
  EXPECT_EQ(BinomialHalfCdf(10, 10), 1);
  EXPECT_NEAR(BinomialHalfCdf(5001, 2500), 0.5, 1e-9);
}

TEST(Statistics, MedianIntervalRanksOfTheTables) {
  // The published ranks for 95 % (for instance Conover, "Practical Nonparametric Statistics", table A3, sign test).
  const std::pair<uint64_t, uint64_t> cases[] = {{5, 0},  {6, 1},  {8, 1},  {9, 2},   {11, 2},  {12, 3},
                                                 {15, 4}, {20, 6}, {25, 8}, {30, 10}, {50, 18}, {100, 40}};
  for (const auto& [n, rank] : cases) EXPECT_EQ(MedianIntervalRank(n, 0.95), rank) << n;
}

TEST(Statistics, FewSamplesSayWhatTheyCover) {
  const Interval interval = MedianInterval(std::vector<double>{1, 2, 3});
  EXPECT_EQ(interval.low, 1);
  EXPECT_EQ(interval.high, 3);
  EXPECT_NEAR(interval.coverage, 0.75, 1e-12);
  EXPECT_EQ(MedianInterval(std::vector<double>{5}).coverage, 0);
  EXPECT_NEAR(interval.RelativeHalfWidth(2), 0.5, 1e-12);
  EXPECT_TRUE(std::isinf(interval.RelativeHalfWidth(0)));
}

TEST(Statistics, MedianIntervalCoversAsOftenAsItSays) {
  // Log-normal times with outliers: skewed, as kernels are. The true median is 1.
  PhiloxStream random(17);
  for (const int n : {6, 10, 25, 60}) {
    constexpr int kRounds = 20'000;
    int covered = 0;
    double stated = 0;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<double> samples;
      for (int i = 0; i < n; ++i) {
        double normal = 0;
        for (int k = 0; k < 12; ++k) normal += random.NextDouble();
        samples.push_back(std::exp((normal - 6) * 0.3));
      }
      const SampleSummary summary = Summarize(samples);
      if (summary.median_interval.low <= 1 && 1 <= summary.median_interval.high) ++covered;
      stated = summary.median_interval.coverage;
    }
    EXPECT_GE(stated, 0.95) << n;
    // Five standard errors of a binomial share.
    EXPECT_NEAR(static_cast<double>(covered) / kRounds, stated, 5 * std::sqrt(0.05 * 0.95 / kRounds)) << n;
  }
}

TEST(Statistics, StudentQuantilesOfTheTables) {
  EXPECT_NEAR(StudentQuantile(1, 0.975), 12.7062, 1e-4);
  EXPECT_NEAR(StudentQuantile(2, 0.975), 4.30265, 1e-5);
  EXPECT_NEAR(StudentQuantile(2, 0.995), 9.92484, 1e-5);
  EXPECT_NEAR(StudentQuantile(3, 0.95), 2.35336, 1e-5);
  EXPECT_NEAR(StudentQuantile(4, 0.975), 2.77645, 1e-5);
  EXPECT_NEAR(StudentQuantile(5, 0.995), 4.03214, 1e-5);
  EXPECT_NEAR(StudentQuantile(30, 0.975), 2.04227, 1e-5);
  EXPECT_NEAR(StudentQuantile(1000, 0.975), 1.96234, 1e-5);
  EXPECT_NEAR(StudentQuantile(7, 0.025), -2.36462, 1e-5);
  EXPECT_NEAR(StudentQuantile(9, 0.5), 0, 1e-9);
}

// Critical values of Wilcoxon's signed-rank statistic at 5 %, two-sided: 0 of 6, 2 of 7, 3 of 8, 5 of 9, 8 of 10.
TEST(Statistics, SignedRankIntervalTakesTheTabulatedRanks) {
  EXPECT_FALSE(SignedRankInterval(std::vector<double>{1, 2, 3, 4, 5}).has_value());
  const std::vector<double> six = {6, 1, 4, 2, 5, 3};
  ASSERT_TRUE(SignedRankInterval(six).has_value());
  EXPECT_EQ(SignedRankInterval(six)->low, 1);
  EXPECT_EQ(SignedRankInterval(six)->high, 6);
  EXPECT_NEAR(SignedRankInterval(six)->coverage, 1 - 2.0 / 64, 1e-12);
  const std::vector<double> eight = {1, 2, 4, 8, 16, 32, 64, 128};
  // The averages in order begin 1, 1.5, 2, 2.5, and the fourth from the top is (128 + 16) / 2.
  EXPECT_EQ(SignedRankInterval(eight)->low, 2.5);
  EXPECT_EQ(SignedRankInterval(eight)->high, 72);
  EXPECT_NEAR(SignedRankInterval(eight)->coverage, 1 - 2.0 * 5 / 256, 1e-12);
  EXPECT_EQ(HodgesLehmann(six), 3.5);
  EXPECT_FALSE(SignedRankInterval(six, 0.999).has_value());
  EXPECT_FALSE(SignedRankInterval(std::vector<double>(257, 1.0)).has_value());
  EXPECT_EQ(SignedRankInterval(std::vector<double>(256, 1.0))->low, 1);
}

TEST(Statistics, TheMeanWithoutOutliersKnowsMoreThanTheClock) {
  // 6.42 us on a clock of 32 ns whose phase is at random, and two launches that were disturbed.
  PhiloxStream random(7);
  std::vector<double> samples = {9000, 64000};
  for (int i = 0; i < 500; ++i) {
    const double begin = 32 * random.NextDouble();
    samples.push_back(32 * (std::floor((begin + 6420) / 32) - std::floor(begin / 32)));
  }
  EXPECT_NEAR(MeanWithoutOutliers(samples), 6420, 4);
  EXPECT_DOUBLE_EQ(std::fmod(Median(samples), 32), 0);
  EXPECT_DOUBLE_EQ(MeanWithoutOutliers(std::vector<double>{7}), 7);
  EXPECT_DOUBLE_EQ(MeanWithoutOutliers(std::vector<double>{5, 5, 5, 5, 1000}), 5);
}

}  // namespace
}  // namespace tunefarm
