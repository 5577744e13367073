#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/definition/sample_kernel.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;

// The sample without its own constraint, so that only the device says no.
std::shared_ptr<const KernelPlan> Unconstrained(std::string_view from = "", std::string_view to = "") {
  std::string text = SampleWith(R"(constraints { expression: "tile <= 2048" reason: "small tiles" })", "");
  if (!from.empty()) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
  }
  auto plan = CompileText(text);
  EXPECT_TRUE(plan.ok()) << Message(plan.status());
  return *plan;
}

std::string WhyNot(const KernelPlan& plan, std::string_view device_name, const Config& config) {
  const auto space = plan.BuildSpace(SampleProblem(plan), FindKnownClass(device_name).value());
  EXPECT_TRUE(space.ok()) << Message(space.status());
  return Message(space->Check(config));
}

Config ConfigOf(const KernelPlan& plan, int64_t block, int64_t stages) {
  Config config = plan.DefaultConfig(SampleProblem(plan));
  config.Set("BLOCK", Value(block));
  config.Set("STAGES", Value(stages));
  return config;
}

TEST(DeviceRulesTest, ReasonsNameTheDeviceAndItsNumber) {
  const auto plan = Unconstrained();
  EXPECT_EQ(WhyNot(*plan, "H200", ConfigOf(*plan, 128, 4)), "");
  // 1024 * 4 * 64 + 1024 bytes.
  EXPECT_THAT(WhyNot(*plan, "H200", ConfigOf(*plan, 1024, 4)),
              HasSubstr("launches[1]: shared memory per block exceeds the 227 KiB of NVIDIA H200"));
  EXPECT_THAT(WhyNot(*plan, "A100", ConfigOf(*plan, 1024, 3)),
              HasSubstr("shared memory per block exceeds the 163 KiB of NVIDIA A100-SXM4-80GB"));
  // 96 registers * 1024 threads.
  EXPECT_THAT(WhyNot(*plan, "H200", ConfigOf(*plan, 1024, 3)),
              HasSubstr("declared registers per block exceed the 65536 of NVIDIA H200"));
  EXPECT_THAT(WhyNot(*plan, "T4", ConfigOf(*plan, 32, 1)),
              HasSubstr("the kernel needs compute capability 8.0; Tesla T4 has 7.5"));
}

TEST(DeviceRulesTest, SpacesAgreeWithFirstBrokenDeviceLimit) {
  const auto plan = Unconstrained();
  const ResolvedProblem problem = SampleProblem(*plan);
  int broken = 0;
  for (const KnownClass& known : KnownClasses()) {
    const auto space = plan->BuildSpace(problem, known.device_class);
    ASSERT_TRUE(space.ok()) << Message(space.status());
    for (const int64_t block : {32, 64, 128, 256, 512, 1024}) {
      for (const int64_t stages : {1, 2, 3, 4}) {
        const Config config = ConfigOf(*plan, block, stages);
        const auto limit = plan->FirstBrokenDeviceLimit(problem, config, known.device_class);
        ASSERT_TRUE(limit.ok()) << Message(limit.status());
        EXPECT_EQ(limit->empty(), space->Contains(config))
            << known.short_name << " " << config.ToText() << ": " << *limit;
        broken += limit->empty() ? 0 : 1;
      }
    }
  }
  EXPECT_GT(broken, 24);
}

TEST(DeviceRulesTest, GridsAndBlocksMustExist) {
  const auto zero = Unconstrained("\"ceil_div(N, tile)\"", "\"N // (tile * 64)\"");
  EXPECT_THAT(WhyNot(*zero, "H200", ConfigOf(*zero, 128, 1)),
              HasSubstr("launches[1]: grid x must be 1 to the 2147483647"));
  const auto deep = Unconstrained(R"(["BLOCK", "1", "1"])", R"(["1", "1", "BLOCK"])");
  EXPECT_THAT(WhyNot(*deep, "H200", ConfigOf(*deep, 128, 1)), HasSubstr("launches[1]: block z must be 1 to the 64"));
  const auto wide = Unconstrained(R"(["BLOCK", "1", "1"])", R"(["BLOCK", "STAGES + 8"])");
  EXPECT_THAT(WhyNot(*wide, "H200", ConfigOf(*wide, 128, 1)),
              HasSubstr("launches[1]: threads per block exceed the 1024 of NVIDIA H200"));
}

// A step that does not run breaks no limit.
TEST(DeviceRulesTest, RulesHoldOnlyWhereTheStepRuns) {
  const auto plan = Unconstrained(R"(block: "64"
                    arguments: ["sum", "resident"] } when: "STAGES > 1")",
                                  R"(block: "2048"
                    arguments: ["sum", "resident"] } when: "STAGES > 1")");
  EXPECT_EQ(WhyNot(*plan, "H200", ConfigOf(*plan, 32, 1)), "");
  EXPECT_THAT(WhyNot(*plan, "H200", ConfigOf(*plan, 32, 2)), HasSubstr("launches[2]: block x must be 1 to the 1024"));
}

TEST(DeviceRulesTest, ClustersNeedHopper) {
  const auto plan = Unconstrained("dynamic_shared_bytes: \"tile * 64\"", "cluster: [\"STAGES * 4\"]");
  EXPECT_THAT(WhyNot(*plan, "A100", ConfigOf(*plan, 32, 1)), HasSubstr("launches[1] needs compute capability 9.0"));
  EXPECT_EQ(WhyNot(*plan, "H200", ConfigOf(*plan, 32, 2)), "");
  EXPECT_THAT(WhyNot(*plan, "H200", ConfigOf(*plan, 32, 3)),
              HasSubstr("launches[1]: a cluster must have 1 to 8 blocks"));
}

TEST(DeviceRulesTest, ExactTargetsRunNowhereElse) {
  const auto plan = Unconstrained("min_compute_capability: 80", "exact_compute_capability: 90");
  EXPECT_TRUE(plan->kernel().resources().architecture_specific());
  EXPECT_EQ(WhyNot(*plan, "H100", ConfigOf(*plan, 32, 1)), "");
  EXPECT_THAT(WhyNot(*plan, "B200", ConfigOf(*plan, 32, 1)),
              HasSubstr("the kernel runs only on compute capability 9.0; NVIDIA B200 has 10.0"));
}

}  // namespace
}  // namespace tunefarm
