#include "server/search/gaussian_process.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tunefarm {
namespace {

// An ordered column of 16 bins that matters, one of 4 that does not, and one without an order that adds 2 where it
// is 1.
struct Sample {
  FeatureTable table;
  std::vector<double> targets;
};

double Truth(int a, int kind) { return std::abs(a - 9) * 0.3 + (kind == 1 ? 2 : 0); }

Sample EverySecond() {
  Sample sample;
  sample.table.columns = 3;
  sample.table.is_ordered = {true, true, false};
  for (int a = 0; a < 16; a += 2) {
    for (int kind = 0; kind < 3; ++kind) {
      const int other = (a + kind) % 4;
      sample.table.bins.insert(sample.table.bins.end(),
                               {static_cast<uint8_t>(a), static_cast<uint8_t>(other), static_cast<uint8_t>(kind)});
      sample.targets.push_back(Truth(a, kind));
    }
  }
  return sample;
}

TEST(GaussianProcess, PredictsBetweenWhatItSaw) {
  const Sample sample = EverySecond();
  GaussianProcess process;
  EXPECT_FALSE(process.is_fitted());
  process.Fit(sample.table, sample.targets);
  ASSERT_TRUE(process.is_fitted());
  for (uint8_t a = 1; a < 14; a += 2) {
    for (uint8_t kind = 0; kind < 3; ++kind) {
      const std::vector<uint8_t> bins = {a, 1, kind};
      EXPECT_NEAR(process.Predict(bins).mean, Truth(a, kind), 0.6) << int{a} << " " << int{kind};
    }
  }
  process.Clear();
  EXPECT_FALSE(process.is_fitted());
}

TEST(GaussianProcess, IsLessSureFartherAway) {
  FeatureTable table;
  table.columns = 1;
  table.is_ordered = {true};
  table.bins = {0, 1, 2, 3, 60};
  const std::vector<double> targets = {1, 1.5, 1.2, 1.4, 3};
  GaussianProcess process;
  process.Fit(table, targets);
  const std::vector<uint8_t> seen = {2}, between = {30};
  EXPECT_LT(process.Predict(seen).variance, process.Predict(between).variance);
}

TEST(GaussianProcess, ConstantTargetsAndRepeatedRows) {
  FeatureTable table;
  table.columns = 2;
  table.is_ordered = {true, false};
  table.bins = {1, 1, 1, 1, 2, 0};
  const std::vector<double> targets = {4, 4, 4};
  GaussianProcess process;
  process.Fit(table, targets);
  const Prediction prediction = process.Predict(table.Row(0));
  EXPECT_NEAR(prediction.mean, 4, 1e-6);
  EXPECT_TRUE(std::isfinite(prediction.variance));
}

}  // namespace
}  // namespace tunefarm
