#include "server/analysis/importance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <optional>

#include "server/base/random.h"
#include "tests/unit/analysis/trials.h"

namespace tunefarm {
namespace {

// Every combination of A (8 values), B (4), C (4), U (3 words) and K (one value); the logarithm of the time is
// `effect`.
using Effect = std::function<double(int64_t a, int64_t b, int64_t c)>;
StudyColumns Grid(const Effect& effect) {
  StudyColumns columns;
  int64_t ordinal = 0;
  for (int64_t a = 0; a < 8; ++a) {
    for (int64_t b = 0; b < 4; ++b) {
      for (int64_t c = 0; c < 4; ++c) {
        for (const char* u : {"x", "y", "z"}) {
          const Config config({{"A", int64_t{1} << a}, {"B", b}, {"C", c}, {"U", u}, {"K", 7}});
          EXPECT_TRUE(AddTrial(&columns, ordinal, config, 1000 * std::exp(effect(a, b, c))).ok());
          ++ordinal;
        }
      }
    }
  }
  columns.Settle();
  return columns;
}

const ParameterImportance& Of(const StudyColumns& columns, const Importance& importance, const std::string& name) {
  for (const ParameterImportance& one : importance.parameters) {
    if (columns.parameter_name(one.parameter) == name) return one;
  }
  ADD_FAILURE() << name << " is not there";
  static const ParameterImportance none;
  return none;
}

TEST(Importance, ASampleNeedsNoTrials) {
  std::optional<StudyColumns> columns = Grid([](int64_t a, int64_t b, int64_t) { return 0.4 * a + b; });
  const Importance expected = ImportanceSample(Selection(*columns)).Compute();
  const ImportanceSample sample{Selection(*columns)};
  columns.reset();
  const Importance importance = sample.Compute();
  EXPECT_EQ(importance.rows, expected.rows);
  EXPECT_EQ(importance.r_squared, expected.r_squared);
  ASSERT_EQ(importance.parameters.size(), expected.parameters.size());
  for (size_t i = 0; i < expected.parameters.size(); ++i) {
    EXPECT_EQ(importance.parameters[i].parameter, expected.parameters[i].parameter);
    EXPECT_EQ(importance.parameters[i].total, expected.parameters[i].total);
  }
}

TEST(Importance, OfASumIsThePartsVariances) {
  // Variances: A 21/4 = 5.25 (times 0.16: 0.84), B 5/4, C 0.
  const StudyColumns columns = Grid([](int64_t a, int64_t b, int64_t) { return 0.4 * a + b; });
  const Importance importance = ImportanceSample(Selection(columns)).Compute();
  ASSERT_EQ(importance.unusable_because, "");
  EXPECT_GT(importance.r_squared, 0.95);
  EXPECT_EQ(importance.rows, 384u);
  ASSERT_EQ(importance.parameters.size(), 4u);  // K never varied
  const double all = 0.84 + 1.25;
  EXPECT_NEAR(Of(columns, importance, "A").alone, 0.84 / all, 0.05);
  EXPECT_NEAR(Of(columns, importance, "B").alone, 1.25 / all, 0.05);
  EXPECT_NEAR(Of(columns, importance, "A").total, 0.84 / all, 0.06);
  EXPECT_NEAR(Of(columns, importance, "B").total, 1.25 / all, 0.06);
  EXPECT_LT(Of(columns, importance, "C").total, 0.03);
  EXPECT_LT(Of(columns, importance, "U").total, 0.03);
  EXPECT_EQ(columns.parameter_name(importance.parameters[0].parameter), "B");
  for (const PairImportance& pair : importance.pairs) EXPECT_LT(pair.share, 0.05);
}

TEST(Importance, ParametersThatMatterOnlyTogether) {
  // Equal parity is slow: neither B nor C says anything alone.
  const StudyColumns columns = Grid([](int64_t, int64_t b, int64_t c) { return (b + c) % 2 == 0 ? 1.0 : 0.0; });
  const Importance importance = ImportanceSample(Selection(columns)).Compute();
  ASSERT_EQ(importance.unusable_because, "");
  EXPECT_LT(Of(columns, importance, "B").alone, 0.1);
  EXPECT_LT(Of(columns, importance, "C").alone, 0.1);
  EXPECT_GT(Of(columns, importance, "B").total, 0.85);
  EXPECT_GT(Of(columns, importance, "C").total, 0.85);
  EXPECT_LT(Of(columns, importance, "A").total, 0.1);
  ASSERT_FALSE(importance.pairs.empty());
  EXPECT_EQ(columns.parameter_name(importance.pairs[0].first) + columns.parameter_name(importance.pairs[0].second),
            columns.parameter_name(importance.pairs[0].first) == "B" ? "BC" : "CB");
  EXPECT_GT(importance.pairs[0].share, 0.8);
}

TEST(Importance, AMixOfBoth) {
  // Of B: 1.25. Of A and B together: A's upper half is 2 slower where B is 3 (a share of 1/2 x 1/4).
  const StudyColumns columns = Grid([](int64_t a, int64_t b, int64_t) { return b + (a >= 4 && b == 3 ? 2.0 : 0.0); });
  const Importance importance = ImportanceSample(Selection(columns)).Compute();
  ASSERT_EQ(importance.unusable_because, "");
  // By hand: mean over A of B's part is {0, 1, 2, 4}: variance 2.1875. Over B of A's part is {0, 0.5}: 0.0625. Together
  // 2.1875 + 1/4 x 1 = 2.4375, which leaves 0.1875 for the two together.
  EXPECT_NEAR(Of(columns, importance, "B").alone, 2.1875 / 2.4375, 0.05);
  EXPECT_NEAR(Of(columns, importance, "A").alone, 0.0625 / 2.4375, 0.03);
  EXPECT_NEAR(Of(columns, importance, "A").total, 0.25 / 2.4375, 0.05);
  ASSERT_FALSE(importance.pairs.empty());
  EXPECT_NEAR(importance.pairs[0].share, 0.1875 / 2.4375, 0.04);
}

TEST(Importance, AFunctionOfSeedAndTrials) {
  const StudyColumns columns = Grid([](int64_t a, int64_t b, int64_t c) { return std::sin(1.0 * a * b) + 0.1 * c; });
  ImportanceOptions options;
  options.rows_max = 200;
  const Importance first = ImportanceSample(Selection(columns), options).Compute();
  const Importance second = ImportanceSample(Selection(columns), options).Compute();
  EXPECT_EQ(first.rows, 200u);
  EXPECT_EQ(first.rows_of, 384u);
  EXPECT_EQ(first.r_squared, second.r_squared);
  ASSERT_EQ(first.parameters.size(), second.parameters.size());
  for (size_t i = 0; i < first.parameters.size(); ++i) {
    EXPECT_EQ(first.parameters[i].parameter, second.parameters[i].parameter);
    EXPECT_EQ(first.parameters[i].alone, second.parameters[i].alone);
    EXPECT_EQ(first.parameters[i].total, second.parameters[i].total);
  }
  options.seed = 2;
  EXPECT_NE(ImportanceSample(Selection(columns), options).Compute().r_squared, first.r_squared);
}

TEST(Importance, SaysNothingWhereNothingCanBeSaid) {
  const StudyColumns same = Grid([](int64_t, int64_t, int64_t) { return 0.5; });
  EXPECT_EQ(ImportanceSample(Selection(same)).Compute().unusable_because, "all times are the same");
  PhiloxStream noise(5);
  const StudyColumns noisy = Grid([&](int64_t, int64_t, int64_t) { return noise.NextDouble(); });
  const Importance random = ImportanceSample(Selection(noisy)).Compute();
  EXPECT_NE(random.unusable_because.find("too poorly"), std::string::npos) << random.r_squared;
  EXPECT_TRUE(random.parameters.empty());

  StudyColumns few;
  for (int64_t i = 0; i < 40; ++i) {
    ASSERT_TRUE(AddTrial(&few, i, Config({{"A", i}}), i < 29 ? 10.0 + static_cast<double>(i) : 0).ok());
  }
  few.Settle();
  EXPECT_EQ(ImportanceSample(Selection(few)).Compute().unusable_because,
            "29 measured configs are too few, 30 are the least");

  StudyColumns fixed;
  for (int64_t i = 0; i < 40; ++i)
    ASSERT_TRUE(AddTrial(&fixed, i, Config({{"A", 1}}), 10.0 + static_cast<double>(i)).ok());
  fixed.Settle();
  EXPECT_EQ(ImportanceSample(Selection(fixed)).Compute().unusable_because, "no parameter has more than one value");
}

TEST(Importance, ManyValuesArePutTogether) {
  // 1,000 numbers and 300 words: more than a forest tells apart.
  StudyColumns columns;
  PhiloxStream random(3);
  for (int64_t i = 0; i < 2000; ++i) {
    const auto a = static_cast<int64_t>(random.UniformInt(1000));
    const auto word = static_cast<int64_t>(random.UniformInt(300));
    const Config config({{"A", a}, {"W", "w" + std::to_string(word)}});
    ASSERT_TRUE(AddTrial(&columns, i, config, 100.0 * std::exp(static_cast<double>(a) / 250)).ok());
  }
  columns.Settle();
  const Importance importance = ImportanceSample(Selection(columns)).Compute();
  ASSERT_EQ(importance.unusable_because, "");
  EXPECT_GT(importance.r_squared, 0.9);
  EXPECT_GT(Of(columns, importance, "A").alone, 0.9);
  EXPECT_LT(Of(columns, importance, "W").total, 0.05);
}

}  // namespace
}  // namespace tunefarm
