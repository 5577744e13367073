#include "server/measure/repeatability.h"

#include <gtest/gtest.h>

#include <vector>

namespace tunefarm {
namespace {

Comparison Pair(double ratio, double half_width, double coverage = 0.95) {
  Comparison comparison;
  comparison.ratio = ratio;
  comparison.ratio_interval = {ratio - half_width, ratio + half_width, coverage};
  return comparison;
}

TEST(Repeatability, CountsIntervalsThatExcludeOne) {
  const std::vector<Comparison> pairs = {Pair(1.001, 0.002), Pair(0.99, 0.004), Pair(1.02, 0.01), Pair(1, 0.003),
                                         Pair(1.5, 0.1, 0)};
  const Repeatability found = JudgeRepeatability(pairs);
  EXPECT_EQ(found.pairs, 4u) << "one round has no interval";
  EXPECT_EQ(found.excluding_one, 2u);
  EXPECT_NEAR(found.median_half_width, 0.0035, 1e-12);
  EXPECT_NEAR(found.median_ratio, 1.0005, 1e-12);
}

TEST(Repeatability, AllowsWhatChanceDoes) {
  std::vector<Comparison> pairs(200, Pair(1, 0.003));
  EXPECT_EQ(JudgeRepeatability(pairs).excluding_max, 17u);
  for (int i = 0; i < 17; ++i) pairs[static_cast<size_t>(i)] = Pair(1.01, 0.003);
  EXPECT_TRUE(JudgeRepeatability(pairs).is_honest());
  pairs[17] = Pair(1.01, 0.003);
  EXPECT_FALSE(JudgeRepeatability(pairs).is_honest());
  EXPECT_FALSE(JudgeRepeatability({}).is_honest());
}

TEST(Repeatability, DriftIsRangeAndTrend) {
  const Drift drift = DriftOf(std::vector<double>{100, 101, 102, 103, 104, 105});
  EXPECT_NEAR(drift.range, 5 / 102.5, 1e-12);
  EXPECT_NEAR(drift.trend, 104.0 / 101 - 1, 1e-12);
  EXPECT_EQ(DriftOf(std::vector<double>{5}).range, 0);
}

}  // namespace
}  // namespace tunefarm
