#include "server/analysis/convergence.h"

#include <gtest/gtest.h>

namespace tunefarm {
namespace {

Config Point(int64_t a) { return Config({{"A", a}}); }

TEST(StudyHistory, OrdersByEndAndValuesBySize) {
  StudyHistory history;
  ASSERT_TRUE(history.Add(0, 3000, 1, Point(16), 50.0).ok());
  ASSERT_TRUE(history.Add(1, 1000, 1, Point(2), std::nullopt).ok());
  ASSERT_TRUE(history.Add(2, 1000, 1, Point(128), 40.0).ok());
  history.Settle();
  ASSERT_EQ(history.size(), 3u);
  EXPECT_EQ(history[0].ordinal, 1);
  EXPECT_EQ(history[1].ordinal, 2);
  EXPECT_EQ(history[2].ordinal, 0);
  EXPECT_EQ(history.measured(), (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(history.best(), 1u);
  EXPECT_EQ(history.ConfigOf(0), Point(2));
  EXPECT_EQ(history.ConfigOf(1), Point(128));
  EXPECT_EQ(history.values(0), (std::vector<Value>{Value(2), Value(16), Value(128)}));
}

TEST(StudyHistory, RefusesConfigsOfAnotherKernel) {
  StudyHistory history;
  ASSERT_TRUE(history.Add(0, 0, 1, Point(1), 1.0).ok());
  EXPECT_EQ(history.Add(1, 0, 1, Config({{"B", 1}}), 1.0).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(history.Add(1, 0, 1, Config({{"A", 1}, {"B", 1}}), 1.0).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(history.Add(2, 0, 1, Point(2), 2.0).ok());
  history.Settle();
  EXPECT_EQ(history.size(), 2u);
  EXPECT_EQ(history.ConfigOf(1), Point(2));
}

TEST(Convergence, StepsAndShares) {
  StudyHistory history;
  const double times[] = {0, 200, 150, 0, 160, 109, 104, 103, 100, 100};
  for (int64_t i = 0; i < 10; ++i) {
    const std::optional<double> time = times[i] > 0 ? std::optional<double>(times[i]) : std::nullopt;
    ASSERT_TRUE(history.Add(i, 10 * i, 1, Point(i), time).ok());
  }
  history.Settle();
  const std::vector<BestStep> steps = BestSoFar(history);
  ASSERT_EQ(steps.size(), 6u);
  EXPECT_EQ(steps[0].evaluation, 2);
  EXPECT_EQ(steps[1].best_ns, 150);
  EXPECT_EQ(steps[5].evaluation, 9);
  const double shares[] = {0.5, 0.1, 0.05, 0.01};
  const std::vector<Convergence> found = ConvergenceOf(history, shares);
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0].step.evaluation, 3);
  EXPECT_EQ(found[1].step.evaluation, 6);
  EXPECT_EQ(found[1].step.ended_ms, 50);
  EXPECT_EQ(found[2].step.evaluation, 7);
  EXPECT_EQ(found[3].step.evaluation, 9);
}

TEST(Convergence, NothingMeasured) {
  StudyHistory history;
  history.Settle();
  EXPECT_TRUE(BestSoFar(history).empty());
  ASSERT_TRUE(history.Add(0, 0, 1, Point(1), std::nullopt).ok());
  history.Settle();
  const double shares[] = {0.1};
  EXPECT_TRUE(ConvergenceOf(history, shares).empty());
  EXPECT_FALSE(history.best().has_value());
}

}  // namespace
}  // namespace tunefarm
