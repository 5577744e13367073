#include "server/definition/launch_digest.h"

#include <gtest/gtest.h>

#include "tests/unit/definition/sample_kernel.h"

namespace tunefarm {
namespace {

class LaunchDigestTest : public testing::Test {
 protected:
  // Of the sample with `from` replaced by `to`, for the default config with `name` set to `value`.
  Digest Of(const std::string& name, Value value, std::string_view from = "", std::string_view to = "") {
    const auto plan = SamplePlan(from, to);
    const ResolvedProblem problem = SampleProblem(*plan);
    Config config = plan->DefaultConfig(problem);
    config.Set(name, std::move(value));
    const auto digest = LaunchDigest(*plan, problem, config, *FindKnownClass("H200"));
    EXPECT_TRUE(digest.ok()) << digest.status();
    return digest.ok() ? *digest : Digest();
  }
};

TEST_F(LaunchDigestTest, EqualLaunchesOfDifferentConfigsAreEqual) {
  // ORDER is in no launch; it is in the binary, which is compared for itself.
  EXPECT_EQ(Of("ORDER", Value("row")), Of("ORDER", Value("2.5")));
  EXPECT_EQ(Of("STAGES", Value(int64_t{1})), Of("STAGES", Value(int64_t{1})));
}

TEST_F(LaunchDigestTest, EveryPartCounts) {
  EXPECT_NE(Of("BLOCK", Value(int64_t{64})), Of("BLOCK", Value(int64_t{128})));  // grid, block, shared memory
  EXPECT_NE(Of("SCALE", Value(0.5)), Of("SCALE", Value(2.0)));                   // a scalar
  EXPECT_NE(Of("VECTOR", Value(true)), Of("VECTOR", Value(false)));              // a step that runs or does not
  EXPECT_NE(Of("STAGES", Value(int64_t{2})), Of("STAGES", Value(int64_t{4})));   // a tensor map's box
}

TEST_F(LaunchDigestTest, ALengthOfScratchMemoryCounts) {
  constexpr std::string_view kLength = R"(length: "tile * device.sm_count")";
  constexpr std::string_view kByOrder = R"(length: "16 if ORDER == 'row' else 32")";
  EXPECT_NE(Of("ORDER", "row", kLength, kByOrder), Of("ORDER", "2.5", kLength, kByOrder));
}

TEST_F(LaunchDigestTest, OfAFormulaOverTheLoadedKernelItsOtherInputsCount) {
  // In the launch that always runs.
  constexpr std::string_view kGrid = R"text("ceil_div(N, tile)", "2")text";
  constexpr std::string_view kByKernel = R"text("kernel.registers", "2")text";
  constexpr std::string_view kByBoth = R"text("kernel.registers + (1 if ORDER == 'row' else 0)", "2")text";
  EXPECT_EQ(Of("ORDER", "row", kGrid, kByKernel), Of("ORDER", "2.5", kGrid, kByKernel));
  EXPECT_NE(Of("ORDER", "row", kGrid, kByBoth), Of("ORDER", "2.5", kGrid, kByBoth));
}

TEST_F(LaunchDigestTest, WhatCannotBeEvaluatedHasNoDigest) {
  const auto plan = SamplePlan(R"text(value: "SCALE")text", R"text(value: "1 / (STAGES - 1)")text");
  const ResolvedProblem problem = SampleProblem(*plan);
  Config config = plan->DefaultConfig(problem);
  config.Set("STAGES", Value(int64_t{1}));
  EXPECT_FALSE(LaunchDigest(*plan, problem, config, *FindKnownClass("H200")).ok());
}

}  // namespace
}  // namespace tunefarm
