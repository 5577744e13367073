// What `tunefarm best --format defines` prints is all that a tuned CUDA source needs in front of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "client/cli/bests/best_binary.h"
#include "client/cli/options/kernel_argument.h"
#include "server/worker/cuda/cuda_compile.h"
#include "server/worker/cuda/nvrtc.h"
#include "tests/unit/worker_cuda/cuda_kernel.h"

namespace tunefarm {
namespace {

class BestDefines : public testing::TestWithParam<const char*> {};

TEST_P(BestDefines, TheTunedSourceCompilesBehindThem) {
  const char* const source_directory = std::getenv("TUNEFARM_SOURCE_DIR");
  if (source_directory == nullptr) GTEST_SKIP() << "TUNEFARM_SOURCE_DIR is not set";
  const auto nvrtc = cuda::Nvrtc::Open(cuda::ProcessSearchPlaces(""));
  if (!nvrtc.ok()) GTEST_SKIP() << MessageOf(nvrtc.status());
  const auto argument =
      cli::ResolveKernelArgument(std::string(source_directory) + "/kernels/" + GetParam(), RealEnvironment());
  ASSERT_TRUE(argument.ok()) << MessageOf(argument.status());
  v1::Problem problem;
  for (const v1::Dim& dim : argument->definition->dims()) {
    if (!dim.has_default_value()) (*problem.mutable_dims())[dim.name()].set_int_value(1024);
  }
  const auto kernel = PrepareKernel(*argument->definition, "H100", problem);
  ASSERT_NE(kernel, nullptr);

  cli::AnsweredConfig answered;
  answered.plan = kernel->plan;
  answered.problem = kernel->problem;
  answered.device_class = kernel->device_class;
  answered.config = kernel->plan->DefaultConfig(kernel->problem);
  const auto constants = kernel->plan->Constants(kernel->problem, answered.config, kernel->device_class);
  ASSERT_TRUE(constants.ok()) << MessageOf(constants.status());
  answered.constants = *constants;
  const auto defines = cli::DefinesText(answered);
  ASSERT_TRUE(defines.ok()) << MessageOf(defines.status());

  // As the worker compiles it, without the header of the config and the macros among the options.
  auto input = cuda::PlanCompile(*kernel, answered.config, (*nvrtc)->include_directories(), (*nvrtc)->major());
  ASSERT_TRUE(input.ok()) << MessageOf(input.status());
  const auto is_config = [](const std::string& option) {
    return option.rfind("--pre-include=", 0) == 0 || option.rfind("-D", 0) == 0;
  };
  input->options.erase(std::remove_if(input->options.begin(), input->options.end(), is_config), input->options.end());
  EXPECT_EQ((*nvrtc)->Compile(*input).outcome, v1::OUTCOME_COMPILE_ERROR);
  input->source = *defines + input->source;
  const cuda::NvrtcOutput output = (*nvrtc)->Compile(*input);
  EXPECT_EQ(output.outcome, v1::OUTCOME_OK) << output.log << "\n" << *defines;
}

INSTANTIATE_TEST_SUITE_P(Kernels, BestDefines, testing::Values("vector_add", "matmul"));

}  // namespace
}  // namespace tunefarm
