// The sentinels of GPUs compile for old and new ones, and keep everything in registers: else they would measure memory.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "server/agent/sentinel_kernels.h"
#include "tests/unit/worker_cuda/cuda_kernel.h"

namespace tunefarm {
namespace {

class SentinelCompile : public testing::TestWithParam<const char*> {};

TEST_P(SentinelCompile, WithoutAWordAndWithoutSpills) {
  absl::StatusOr<std::unique_ptr<CompileBackend>> backend = MakeCudaCompileBackend({});
  if (!backend.ok()) GTEST_SKIP() << MessageOf(backend.status());
  const auto sentinels = SentinelKernels(DeviceKind::kCuda);
  ASSERT_TRUE(sentinels.ok()) << MessageOf(sentinels.status());
  ASSERT_EQ(sentinels->size(), 2);
  for (const SentinelKernel& sentinel : *sentinels) {
    const auto kernel = PrepareKernel(sentinel.plan->kernel(), GetParam());
    ASSERT_NE(kernel, nullptr);
    kernel->problem = *sentinel.problem;
    const Config config = kernel->plan->DefaultConfig(kernel->problem);
    EXPECT_EQ(*kernel->plan->FirstBrokenDeviceLimit(kernel->problem, config, kernel->device_class), "");
    SilentReporter reporter;
    std::string artifact;
    const auto result = (*backend)->Compile(*kernel, config, &reporter, &artifact);
    EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << sentinel.name << ": " << result.message() << "\n" << result.log();
    EXPECT_EQ(result.log(), "") << sentinel.name;
    EXPECT_FALSE(artifact.empty());
    EXPECT_EQ(result.resources().spill_bytes(), 0) << sentinel.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, SentinelCompile, testing::Values("A100", "H200"));

}  // namespace
}  // namespace tunefarm
