#include "server/search/forest.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tunefarm {
namespace {

// A table of every combination of three columns of 8, 5 (without an order) and 2 bins.
FeatureTable Grid() {
  FeatureTable table;
  table.columns = 3;
  table.is_ordered = {true, false, true};
  for (uint8_t a = 0; a < 8; ++a) {
    for (uint8_t b = 0; b < 5; ++b) {
      for (uint8_t c = 0; c < 2; ++c) table.bins.insert(table.bins.end(), {a, b, c});
    }
  }
  return table;
}

double Truth(std::span<const uint8_t> bins) {
  const double category[] = {0, 3, 1, 3, 0};
  return std::abs(bins[0] - 5.0) + category[bins[1]] * (bins[2] == 0 ? 1 : 2);
}

std::vector<double> Targets(const FeatureTable& table) {
  std::vector<double> targets;
  for (size_t row = 0; row < table.rows(); ++row) targets.push_back(Truth(table.Row(row)));
  return targets;
}

TEST(Forest, ManyRowsAtOnceArePredictedAsOneByOne) {
  const FeatureTable table = Grid();
  ForestOptions options;
  PhiloxStream random(3);
  Forest forest;
  forest.Fit(table, Targets(table), options, random);
  // One more than fit into whole groups of any power of two.
  FeatureTable some = table;
  some.bins.resize(static_cast<size_t>(table.columns) * (table.rows() / 64 * 64 + 1));
  for (const FeatureTable* rows : {&table, &std::as_const(some)}) {
    const std::vector<Prediction> all = forest.PredictRows(*rows);
    ASSERT_EQ(all.size(), rows->rows());
    for (size_t row = 0; row < all.size(); ++row) {
      const Prediction one = forest.Predict(rows->Row(row));
      EXPECT_EQ(all[row].mean, one.mean) << row;
      EXPECT_EQ(all[row].variance, one.variance) << row;
    }
  }
  some.bins.clear();
  EXPECT_TRUE(forest.PredictRows(some).empty());
}

TEST(Forest, WithoutABootstrapItRemembersEveryRow) {
  const FeatureTable table = Grid();
  ForestOptions options;
  options.bootstrap = false;
  options.leaf_min = 1;
  PhiloxStream random(1);
  Forest forest;
  EXPECT_FALSE(forest.is_fitted());
  forest.Fit(table, Targets(table), options, random);
  EXPECT_TRUE(forest.is_fitted());
  for (size_t row = 0; row < table.rows(); ++row) {
    const Prediction prediction = forest.Predict(table.Row(row));
    EXPECT_NEAR(prediction.mean, Truth(table.Row(row)), 1e-5);
    EXPECT_NEAR(prediction.variance, 0, 1e-6);
  }
}

TEST(Forest, PredictsRowsThatItDidNotSee) {
  const FeatureTable table = Grid();
  FeatureTable seen = table;
  seen.bins.clear();
  std::vector<double> targets;
  for (size_t row = 0; row < table.rows(); ++row) {
    if (row % 4 == 1) continue;
    const auto bins = table.Row(row);
    seen.bins.insert(seen.bins.end(), bins.begin(), bins.end());
    targets.push_back(Truth(bins));
  }
  PhiloxStream random(2);
  Forest forest;
  ForestOptions options;
  options.trees = 50;
  forest.Fit(seen, targets, options, random);
  double error = 0, spread = 0;
  for (size_t row = 1; row < table.rows(); row += 4) {
    error += std::abs(forest.Predict(table.Row(row)).mean - Truth(table.Row(row)));
    spread += std::abs(Truth(table.Row(row)) - 4);
  }
  EXPECT_LT(error, spread / 2);
}

TEST(Forest, IsSureWhereItKnowsAndUnsureWhereItDoesNot) {
  // Rows with a first bin below 4 only, of which the targets of even bins agree.
  FeatureTable table;
  table.columns = 1;
  table.is_ordered = {true};
  std::vector<double> targets;
  for (int i = 0; i < 40; ++i) {
    table.bins.push_back(static_cast<uint8_t>(i % 2 == 0 ? 1 : 6));
    targets.push_back(i % 2 == 0 ? 1 : (i % 4 == 1 ? 0 : 20));
  }
  PhiloxStream random(3);
  Forest forest;
  forest.Fit(table, targets, {}, random);
  const std::vector<uint8_t> calm = {1}, wild = {6};
  EXPECT_LT(forest.Predict(calm).variance, 1e-6);
  EXPECT_GT(forest.Predict(wild).variance, 10);
}

TEST(Forest, SameStreamSameForest) {
  const FeatureTable table = Grid();
  Forest a, b;
  PhiloxStream first(7), second(7);
  a.Fit(table, Targets(table), {}, first);
  b.Fit(table, Targets(table), {}, second);
  for (size_t row = 0; row < table.rows(); ++row) {
    EXPECT_EQ(a.Predict(table.Row(row)).mean, b.Predict(table.Row(row)).mean);
  }
}

TEST(Forest, ConstantTargetsAndOneRow) {
  FeatureTable table;
  table.columns = 2;
  table.is_ordered = {true, true};
  table.bins = {1, 2};
  PhiloxStream random(1);
  Forest forest;
  const std::vector<double> one = {4.5};
  forest.Fit(table, one, {}, random);
  EXPECT_EQ(forest.Predict(table.Row(0)).mean, 4.5);
}

}  // namespace
}  // namespace tunefarm
