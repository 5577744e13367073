#include "server/definition/launch_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/definition/sample_kernel.h"

namespace tunefarm {
namespace {

using testing::IsEmpty;

class LaunchSummaryTest : public testing::Test {
 protected:
  // The launches of the sample for its default config with these values.
  std::vector<LaunchSummary> Launches(int64_t stages, bool vector) {
    const auto plan = SamplePlan();
    const ResolvedProblem problem = SampleProblem(*plan);
    Config config = plan->DefaultConfig(problem);
    config.Set("STAGES", Value(stages));
    config.Set("VECTOR", Value(vector));
    const auto launches = SummarizeLaunches(*plan, problem, config, *FindKnownClass("H200"));
    EXPECT_TRUE(launches.ok()) << launches.status();
    return launches.ok() ? *launches : std::vector<LaunchSummary>();
  }
};

TEST_F(LaunchSummaryTest, WhatIsKnownBeforeLoadingHasAValue) {
  const std::vector<LaunchSummary> launches = Launches(2, true);
  ASSERT_EQ(launches.size(), 3U);
  EXPECT_EQ(launches[0].kind, StepPlan::Kind::kMemset);
  EXPECT_EQ(launches[0].name, "clear");
  const LaunchSummary& scale = launches[1];
  EXPECT_EQ(scale.entry, "scale<BLOCK>");
  ASSERT_EQ(scale.grid.size(), 2U);
  EXPECT_EQ(scale.grid[0].expression, "ceil_div(N, tile)");
  EXPECT_EQ(scale.grid[0].value, Value(int64_t{16}));  // 4096 elements in tiles of 128 x 2
  EXPECT_EQ(scale.grid[1].value, Value(int64_t{2}));
  EXPECT_THAT(scale.cluster, IsEmpty());
  ASSERT_TRUE(scale.dynamic_shared_bytes.has_value());
  EXPECT_EQ(scale.dynamic_shared_bytes->value, Value(int64_t{256 * 64}));
  ASSERT_EQ(scale.arguments.size(), 5U);
  EXPECT_EQ(scale.arguments[0].name, "x");
  EXPECT_FALSE(scale.arguments[0].scalar.has_value());
  ASSERT_TRUE(scale.arguments[2].scalar.has_value());
  EXPECT_EQ(scale.arguments[2].scalar->value, Value(int64_t{4096}));
}

TEST_F(LaunchSummaryTest, WhatOnlyALoadedKernelHasIsItsExpression) {
  const std::vector<LaunchSummary> launches = Launches(2, true);
  ASSERT_EQ(launches.size(), 3U);
  ASSERT_EQ(launches[2].grid.size(), 1U);
  EXPECT_EQ(launches[2].grid[0].expression, "kernel.max_active_blocks * device.sm_count");
  EXPECT_FALSE(launches[2].grid[0].value.has_value());
  EXPECT_EQ(launches[2].block[0].value, Value(int64_t{64}));
}

TEST_F(LaunchSummaryTest, StepsThatDoNotRunAreLeftOut) {
  const std::vector<LaunchSummary> launches = Launches(1, false);
  ASSERT_EQ(launches.size(), 1U);
  EXPECT_EQ(launches[0].entry, "scale<BLOCK>");
}

}  // namespace
}  // namespace tunefarm
