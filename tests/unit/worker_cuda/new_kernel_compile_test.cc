// What `tunefarm kernels new NAME.cu` writes is ready to be tuned: every config of its space compiles.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "client/cli/app.h"
#include "client/cli/options/kernel_argument.h"
#include "tests/fakes/temporary_directory.h"
#include "tests/unit/worker_cuda/cuda_kernel.h"

namespace tunefarm {
namespace {

class NewKernel : public testing::TestWithParam<const char*> {};

TEST_P(NewKernel, EveryConfigCompiles) {
  absl::StatusOr<std::unique_ptr<CompileBackend>> backend = MakeCudaCompileBackend({});
  if (!backend.ok()) GTEST_SKIP() << MessageOf(backend.status());
  const TemporaryDirectory directory;
  cli::Session session;
  session.quiet = true;
  ASSERT_EQ(cli::RunCommandLine({"kernels", "new", directory.File("my-kernel.cu")}, &session), cli::kExitOk);
  const auto written = cli::ResolveKernelArgument(directory.path(), session.environment);
  ASSERT_TRUE(written.ok()) << MessageOf(written.status());
  ASSERT_TRUE(written->definition.has_value());

  const auto kernel = PrepareKernel(*written->definition, GetParam());
  ASSERT_NE(kernel, nullptr);
  const absl::StatusOr<Space> space = kernel->plan->BuildSpace(kernel->problem, kernel->device_class);
  ASSERT_TRUE(space.ok()) << MessageOf(space.status());
  const auto configs = space->Enumerate();
  ASSERT_TRUE(configs.ok()) << MessageOf(configs.status());
  EXPECT_GE(configs->size(), 20u);
  for (uint64_t row = 0; row < configs->size(); ++row) {
    const Config config = space->ConfigAt(*configs, row);
    SilentReporter reporter;
    std::string artifact;
    const auto result = (*backend)->Compile(*kernel, config, &reporter, &artifact);
    EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << config.ToText() << ": " << result.message() << "\n" << result.log();
    EXPECT_EQ(result.log(), "") << config.ToText();
    EXPECT_FALSE(artifact.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, NewKernel, testing::Values("A100", "H200"));

}  // namespace
}  // namespace tunefarm
