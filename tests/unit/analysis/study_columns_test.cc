#include "server/analysis/study_columns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "server/analysis/selection.h"
#include "server/base/random.h"
#include "tests/unit/analysis/trials.h"

namespace tunefarm {
namespace {

Config PointOf(int64_t a) { return Config({{"A", a}}); }

TEST(StudyColumns, OrdersByEndAndValuesBySize) {
  StudyColumns columns;
  ASSERT_TRUE(AddTrial(&columns, 0, PointOf(16), 50, 3000).ok());
  ASSERT_TRUE(AddTrial(&columns, 1, PointOf(2), 0, 1000).ok());
  ASSERT_TRUE(AddTrial(&columns, 2, PointOf(128), 40, 1000).ok());
  columns.Settle();
  ASSERT_EQ(columns.size(), 3u);
  EXPECT_EQ(columns[0].ordinal, 1u);
  EXPECT_EQ(columns[1].ordinal, 2u);
  EXPECT_EQ(columns[2].ordinal, 0u);
  const Selection all(columns);
  EXPECT_EQ(all.Measured(), (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(all.best(), 1u);
  EXPECT_EQ(columns.ConfigOf(0), PointOf(2));
  EXPECT_EQ(columns.ConfigOf(1), PointOf(128));
  EXPECT_EQ(columns.values(0), (std::vector<Value>{Value(2), Value(16), Value(128)}));
  EXPECT_EQ(columns.FindValue(0, "16"), 1);
  EXPECT_FALSE(columns.FindValue(0, "17").has_value());
  EXPECT_EQ(columns.FindParameter("A"), 0u);
  EXPECT_FALSE(columns.FindParameter("B").has_value());
}

TEST(StudyColumns, RefusesConfigsOfAnotherKernel) {
  StudyColumns columns;
  ASSERT_TRUE(AddTrial(&columns, 0, PointOf(1), 1).ok());
  EXPECT_EQ(AddTrial(&columns, 1, Config({{"B", 1}}), 1).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(AddTrial(&columns, 1, Config({{"A", 1}, {"B", 1}}), 1).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(AddTrial(&columns, 1, Config(), 1).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(AddTrial(&columns, int64_t{1} << 32, PointOf(1), 1).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(AddTrial(&columns, 2, PointOf(2), 2).ok());
  columns.Settle();
  EXPECT_EQ(columns.size(), 2u);
  EXPECT_EQ(columns.ConfigOf(1), PointOf(2));
  EXPECT_EQ(columns.value_indices(0).size(), 2u) << "nothing of those refused";
}

TEST(StudyColumns, TypesAreThoseThatAreKnown) {
  StudyColumns columns({{"S", ValueType::kString}});
  ASSERT_TRUE(columns.Add({.ordinal = 0, .outcome = kOk, .config = "S=64,T=64", .objective_ns = 1}).ok());
  ASSERT_TRUE(columns.Add({.ordinal = 1, .outcome = kOk, .config = "S=a\\,b\\=c,T=1", .objective_ns = 1}).ok());
  columns.Settle();
  EXPECT_EQ(columns.ConfigOf(0), Config({{"S", "64"}, {"T", 64}}));
  EXPECT_EQ(columns.ConfigOf(1), Config({{"S", "a,b=c"}, {"T", 1}}));
  EXPECT_TRUE(columns.FindValue(0, "a,b=c").has_value());
}

TEST(StudyColumns, WhatIsAddedLaterStandsWhereItWouldHaveStoodAtOnce) {
  PhiloxStream random(11);
  StudyColumns at_once, in_parts;
  const auto expect_summary = [](const StudyColumns& columns) {
    MeasuredSummary expected;
    for (uint32_t at = 0; at < columns.size(); ++at) expected.Add(at, columns[at].objective_ns);
    EXPECT_EQ(columns.measured().count, expected.count);
    EXPECT_EQ(columns.measured().best, expected.best);
    EXPECT_EQ(columns.measured().fastest_ns, expected.fastest_ns);
    EXPECT_EQ(columns.measured().slowest_ns, expected.slowest_ns);
  };
  for (int64_t i = 0; i < 3000; ++i) {
    const Config config({{"A", static_cast<int64_t>(random.UniformInt(40)) - 20},
                         {"B", 0.5 * static_cast<double>(random.UniformInt(9))},
                         {"C", random.UniformInt(2) == 0 ? "x" : "y"}});
    const double ns = random.UniformInt(4) == 0 ? 0 : 100.0 + static_cast<double>(random.UniformInt(50));
    // Some end long after their turn, some at the same time.
    const auto ended_ms = i + static_cast<int64_t>(random.UniformInt(random.UniformInt(50) == 0 ? 2000 : 5));
    ASSERT_TRUE(AddTrial(&at_once, i, config, ns, ended_ms).ok());
    ASSERT_TRUE(AddTrial(&in_parts, i, config, ns, ended_ms).ok());
    if (random.UniformInt(100) == 0) {
      in_parts.Settle();
      expect_summary(in_parts);
    }
  }
  at_once.Settle();
  in_parts.Settle();
  in_parts.Settle();  // changes nothing
  ASSERT_EQ(in_parts.size(), at_once.size());
  expect_summary(in_parts);
  expect_summary(at_once);
  for (size_t p = 0; p < 3; ++p) EXPECT_EQ(in_parts.values(p), at_once.values(p));
  for (size_t at = 0; at < at_once.size(); ++at) {
    ASSERT_EQ(in_parts[at].ordinal, at_once[at].ordinal);
    EXPECT_EQ(in_parts[at].objective_ns, at_once[at].objective_ns);
    EXPECT_EQ(in_parts.ConfigOf(at), at_once.ConfigOf(at));
    if (at > 0) {
      EXPECT_LE(std::pair(at_once[at - 1].ended_ms, at_once[at - 1].ordinal),
                std::pair(at_once[at].ended_ms, at_once[at].ordinal));
    }
  }
}

}  // namespace
}  // namespace tunefarm
