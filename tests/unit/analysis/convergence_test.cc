#include "server/analysis/convergence.h"

#include <gtest/gtest.h>

#include "tests/unit/analysis/trials.h"

namespace tunefarm {
namespace {

Config Point(int64_t a) { return Config({{"A", a}}); }

TEST(Convergence, StepsAndShares) {
  StudyColumns columns;
  const double times[] = {0, 200, 150, 0, 160, 109, 104, 103, 100, 100};
  for (int64_t i = 0; i < 10; ++i) ASSERT_TRUE(AddTrial(&columns, i, Point(i), times[i], 10 * i).ok());
  columns.Settle();
  const std::vector<BestStep> steps = BestSoFar(Selection(columns));
  ASSERT_EQ(steps.size(), 6u);
  EXPECT_EQ(steps[0].evaluation, 2);
  EXPECT_EQ(steps[0].ordinal, 1);
  EXPECT_EQ(steps[1].best_ns, 150);
  EXPECT_EQ(steps[5].evaluation, 9);
  const double shares[] = {0.5, 0.1, 0.05, 0.01};
  const std::vector<Convergence> found = ConvergenceOf(Selection(columns), shares);
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0].step.evaluation, 3);
  EXPECT_EQ(found[1].step.evaluation, 6);
  EXPECT_EQ(found[1].step.ended_ms, 50);
  EXPECT_EQ(found[2].step.evaluation, 7);
  EXPECT_EQ(found[3].step.evaluation, 9);
}

TEST(Convergence, NothingMeasured) {
  StudyColumns columns;
  columns.Settle();
  EXPECT_TRUE(BestSoFar(Selection(columns)).empty());
  ASSERT_TRUE(AddTrial(&columns, 0, Point(1), 0).ok());
  columns.Settle();
  const double shares[] = {0.1};
  EXPECT_TRUE(ConvergenceOf(Selection(columns), shares).empty());
  EXPECT_FALSE(Selection(columns).best().has_value());
}

}  // namespace
}  // namespace tunefarm
