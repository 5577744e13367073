#include "server/worker/cuda/cuda_compile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/worker/cuda/harness.h"
#include "tests/unit/worker_cuda/cuda_kernel.h"

namespace tunefarm {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using tunefarm::worker::v1::Result;

constexpr const char* kDefinition = R"pb(
  display_name: "scale"
  language: LANGUAGE_CUDA
  sources { path: "scale.cu" }
  sources { path: "detail/scale.cuh" }
  compile_options: "-use_fast_math"
  dims {
    name: "N"
    default_value { int_value: 1024 }
  }
  parameters {
    name: "BLOCK"
    values { ints: [ 64, 128 ] }
  }
  parameters {
    name: "FAULT"
    values { strings: [ "none", "syntax", "missing_entry", "too_much_shared", "spill" ] }
  }
  arguments {
    name: "x"
    buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_IN }
  }
  arguments {
    name: "y"
    buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_OUT }
  }
  arguments {
    name: "w"
    constant_symbol { symbol: "weights" data_type: DATA_TYPE_F32 length: "4" }
  }
  launches {
    kernel {
      entry: "scale::Run<float, BLOCK>"
      grid: "ceil_div(N, BLOCK)"
      block: "BLOCK"
      arguments: [ "x", "y" ]
    }
  }
  reference {
    steps {
      kernel {
        entry: "plain"
        grid: "N"
        block: "1"
        arguments: [ "x", "y" ]
      }
    }
  }
)pb";

constexpr const char* kSource = R"cu(
#include <cuda_bf16.h>
#include "detail/scale.cuh"
__constant__ float weights[4];
#if defined(FAULT_syntax)
this is no C++;
#endif
#if defined(FAULT_too_much_shared)
__shared__ float shared[65536];
#else
__shared__ float shared[64];
#endif
namespace scale {
template <typename T, int kBlock>
__global__ void Run(const T* x, T* y) {
  const int i = blockIdx.x * kBlock + threadIdx.x;
  shared[threadIdx.x % 64] = x[i];
  __syncthreads();
#if defined(FAULT_spill)
  T local[300];
  for (int j = 0; j < 300; ++j) local[j] = x[j];
  y[i] = local[(int)shared[0] % 300];
#else
  y[i] = Scaled(shared[(threadIdx.x + 1) % 64]);
#endif
}
}
#if !defined(FAULT_missing_entry)
extern "C" __global__ void plain(const float* x, float* y) { y[blockIdx.x] = Scaled(x[blockIdx.x]); }
#endif
)cu";

constexpr const char* kHeader =
    "#pragma once\nconstexpr float Factor() { return 2.0f; }\n"
    "__device__ inline float Scaled(float x) { return Factor() * x; }\n";

class CudaCompile : public testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<CompileBackend>> backend = MakeCudaCompileBackend({});
    if (!backend.ok()) GTEST_SKIP() << MessageOf(backend.status());
    backend_ = *std::move(backend);
    kernel_ = PrepareText(kDefinition, {{"scale.cu", kSource}, {"detail/scale.cuh", kHeader}}, "H200");
    ASSERT_NE(kernel_, nullptr);
  }

  Result Compile(const std::string& fault) {
    Config config = kernel_->plan->DefaultConfig(kernel_->problem);
    config.Set("FAULT", fault);
    artifact_.clear();
    return backend_->Compile(*kernel_, config, &reporter_, &artifact_);
  }

  std::unique_ptr<CompileBackend> backend_;
  std::shared_ptr<PreparedKernel> kernel_;
  SilentReporter reporter_;
  std::string artifact_;
};

TEST_F(CudaCompile, GivesABinaryItsEntriesAndItsNeeds) {
  const Result result = Compile("none");
  ASSERT_EQ(result.outcome(), v1::OUTCOME_OK) << result.message() << "\n" << result.log();
  EXPECT_EQ(artifact_.substr(0, 4),
            "\x7f"
            "ELF");
  EXPECT_TRUE(result.has_artifact());
  EXPECT_THAT(result.lowered_names().at("scale::Run<float, BLOCK>"), HasSubstr("Run"));
  EXPECT_EQ(result.lowered_names().at("plain"), "plain");
  EXPECT_EQ(result.lowered_names().at("&weights"), "weights");
  EXPECT_GT(result.resources().registers(), 0);
  EXPECT_EQ(result.resources().static_shared_bytes(), 256);
  EXPECT_EQ(result.resources().binary_bytes(), static_cast<int64_t>(artifact_.size()));
  EXPECT_EQ(result.resources().local_bytes(), 0);
  EXPECT_THAT(result.log(), Not(HasSubstr("ptxas info")));
  EXPECT_THAT(reporter_.phases, testing::ElementsAre(v1::PHASE_COMPILE));
  EXPECT_THAT(backend_->toolchain(), HasSubstr("NVRTC"));
}

TEST_F(CudaCompile, IsDeterministic) {
  ASSERT_EQ(Compile("none").outcome(), v1::OUTCOME_OK);
  const std::string first = artifact_;
  ASSERT_EQ(Compile("none").outcome(), v1::OUTCOME_OK);
  EXPECT_EQ(artifact_, first);
}

TEST_F(CudaCompile, ReportsLocalMemory) {
  const Result result = Compile("spill");
  ASSERT_EQ(result.outcome(), v1::OUTCOME_OK) << result.message();
  EXPECT_GE(result.resources().local_bytes(), 1200);
}

TEST_F(CudaCompile, NamesTheFirstError) {
  Result result = Compile("syntax");
  EXPECT_EQ(result.outcome(), v1::OUTCOME_COMPILE_ERROR);
  EXPECT_THAT(result.message(), HasSubstr("scale.cu(6): error"));
  EXPECT_THAT(result.log(), HasSubstr("this is no C++"));
  EXPECT_FALSE(result.has_artifact());
  EXPECT_TRUE(artifact_.empty());
  result = Compile("missing_entry");
  EXPECT_EQ(result.outcome(), v1::OUTCOME_COMPILE_ERROR);
  EXPECT_THAT(result.message(), HasSubstr("\"plain\" is undefined"));
  result = Compile("too_much_shared");
  EXPECT_EQ(result.outcome(), v1::OUTCOME_COMPILE_ERROR);
  EXPECT_THAT(result.message(), HasSubstr("too much shared data"));
}

TEST_F(CudaCompile, PlansOptions) {
  const Config config = kernel_->plan->DefaultConfig(kernel_->problem);
  kernel_->compile_options = {"-std=c++17"};
  absl::StatusOr<cuda::NvrtcInput> input = cuda::PlanCompile(*kernel_, config, {"/include"}, 13);
  ASSERT_TRUE(input.ok());
  for (const char* option :
       {"-use_fast_math", "-std=c++17", "--gpu-architecture=sm_90", "-I/include", "-DBLOCK=64", "-DFAULT_none=1",
        "--device-as-default-execution-space", "--ptxas-options=-v", "--no-cache"}) {
    EXPECT_THAT(input->options, Contains(option));
  }
  EXPECT_THAT(input->options, Not(Contains("--std=c++20")));
  EXPECT_THAT(input->name_expressions, testing::ElementsAre("&weights", "plain", "scale::Run<float, BLOCK>"));
  input = cuda::PlanCompile(*kernel_, config, {}, 12);
  EXPECT_THAT(input->options, Not(Contains("--no-cache")));
}

TEST(CudaCompileTarget, IsArchitectureSpecificOnlyWhenAsked) {
  std::string definition = kDefinition;
  auto kernel = PrepareText(definition, {{"scale.cu", kSource}}, "A100");
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(cuda::ArchitectureOf(*kernel), "sm_80");
  kernel = PrepareText(definition + " resources { exact_compute_capability: 90 }", {{"scale.cu", kSource}}, "H200");
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(cuda::ArchitectureOf(*kernel), "sm_90a");
  // Where there is no such target, the usual one.
  const std::string specific = definition + " resources { architecture_specific: true }";
  kernel = PrepareText(specific, {{"scale.cu", kSource}}, "H200");
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(cuda::ArchitectureOf(*kernel), "sm_90a");
  kernel = PrepareText(specific, {{"scale.cu", kSource}}, "L40S");
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(cuda::ArchitectureOf(*kernel), "sm_89");
}

TEST(Harness, BinaryIsTakenOverOnlyWholeAndForTheSameKindOfDevice) {
  const cuda::HarnessBinary binary{std::string("cubin\0bytes", 11), "NVRTC 1.0 (somewhere)"};
  std::string packed = binary.Pack(90);
  const auto unpacked = cuda::HarnessBinary::Unpack(packed, 90);
  ASSERT_TRUE(unpacked.has_value());
  EXPECT_EQ(unpacked->cubin, binary.cubin);
  EXPECT_EQ(unpacked->toolchain, binary.toolchain);
  EXPECT_FALSE(cuda::HarnessBinary::Unpack(packed, 80).has_value());
  EXPECT_FALSE(cuda::HarnessBinary::Unpack("", 90).has_value());
  packed.back() ^= 1;
  EXPECT_FALSE(cuda::HarnessBinary::Unpack(packed, 90).has_value());
}

TEST(Harness, CompilesForOldAndNewDevices) {
  const auto nvrtc = cuda::Nvrtc::Open(cuda::SearchPlaces(cuda::SearchEnvironment::FromProcess("")));
  if (!nvrtc.ok()) GTEST_SKIP() << MessageOf(nvrtc.status());
  for (const int compute_capability : {80, 90}) {
    const cuda::NvrtcOutput output = (*nvrtc)->Compile(cuda::HarnessSource(compute_capability));
    EXPECT_EQ(output.outcome, v1::OUTCOME_OK) << compute_capability << ": " << output.log;
    EXPECT_EQ(output.log, "") << compute_capability;
    EXPECT_FALSE(output.cubin.empty());
  }
}

TEST(CudaRun, SaysWhyThereIsNoGpu) {
  const absl::StatusOr<std::unique_ptr<RunBackend>> run = MakeCudaRunBackend({});
  if (run.ok()) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_EQ(run.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(MessageOf(run.status()).empty());
  tunefarm::worker::v1::ProbeReport report;
  MakeCudaProbeBackend({})->Probe(&report);
  EXPECT_EQ(report.devices_size(), 0);
  EXPECT_THAT(report.notes(), Contains(HasSubstr("No CUDA device: ")));
}

}  // namespace
}  // namespace tunefarm
