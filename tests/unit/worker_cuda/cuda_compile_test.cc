#include "server/worker/cuda/cuda_compile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/base/file_set.h"
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

TEST_F(CudaCompile, GivesPtxOfTheSameSource) {
  const Config config = kernel_->plan->DefaultConfig(kernel_->problem);
  const Result result = backend_->CompilePtx(*kernel_, config, &reporter_, &artifact_);
  ASSERT_EQ(result.outcome(), v1::OUTCOME_OK) << result.message() << "\n" << result.log();
  EXPECT_THAT(artifact_, HasSubstr(".target sm_90"));
  EXPECT_THAT(artifact_, HasSubstr(".entry " + result.lowered_names().at("scale::Run<float, BLOCK>")));
  EXPECT_EQ(artifact_.find('\0'), std::string::npos);
  EXPECT_EQ(result.resources().registers(), 0);
  EXPECT_THAT(result.compile_options(), Contains("--gpu-architecture=compute_90"));
  const Result cubin = Compile("none");
  EXPECT_THAT(cubin.compile_options(), Contains("--gpu-architecture=sm_90"));
}

TEST_F(CudaCompile, HeadersOfTheToolkitAreWhatABinaryIsMadeOf) {
  const Result result = Compile("none");
  ASSERT_EQ(result.outcome(), v1::OUTCOME_OK) << result.log();
  const absl::StatusOr<std::vector<std::string>> paths = UnpackPaths(result.inputs().packed_paths());
  ASSERT_TRUE(paths.ok());
  EXPECT_THAT(*paths, Contains(testing::EndsWith("/cuda_bf16.h")));
  // What that header includes.
  EXPECT_THAT(*paths, Contains(testing::EndsWith("/cuda_bf16.hpp")));
  EXPECT_TRUE(IsUnchanged(
      {result.inputs().packed_paths(), result.inputs().state_checksum(), result.inputs().content_checksum()}));
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
       {"-use_fast_math", "-std=c++17", "--gpu-architecture=sm_90", "-I/include", "--pre-include=../tunefarm_config.h",
        "--device-as-default-execution-space", "--ptxas-options=-v", "--no-cache"}) {
    EXPECT_THAT(input->options, Contains(option));
  }
  EXPECT_THAT(input->options, Not(Contains("--std=c++20")));
  EXPECT_THAT(input->headers, Contains(testing::Pair("../tunefarm_config.h", HasSubstr("#define BLOCK 64\n"))));
  EXPECT_THAT(input->headers, Contains(testing::Pair("../tunefarm_config.h", HasSubstr("#define FAULT_none 1\n"))));
  EXPECT_THAT(input->headers, Contains(testing::Pair("math.h", HasSubstr("INFINITY"))));
  EXPECT_THAT(input->name_expressions, testing::ElementsAre("&weights", "plain", "scale::Run<float, BLOCK>"));
  input = cuda::PlanCompile(*kernel_, config, {}, 12);
  EXPECT_THAT(input->options, Not(Contains("--no-cache")));
}

// One kernel of one entry, with these parameters (one value each) and options, and this text.
constexpr const char* kSmallDefinition = R"pb(
  display_name: "small"
  language: LANGUAGE_CUDA
  unverified_reason: "only compiled"
  launches { kernel { entry: "k" grid: "1" block: "1" } }
)pb";

Result CompileSmall(CompileBackend* backend, const std::string& fields,
                    const std::vector<std::pair<std::string, std::string>>& sources) {
  const auto kernel = PrepareText(kSmallDefinition + fields, sources, "H200");
  if (kernel == nullptr) return {};
  SilentReporter reporter;
  std::string artifact;
  return backend->Compile(*kernel, kernel->plan->DefaultConfig(kernel->problem), &reporter, &artifact);
}

TEST_F(CudaCompile, ParametersMayHaveNamesOfTheCompilersOwnHeaders) {
  std::string fields, sum = "0";
  for (const char* name :
       {"pad",    "T",     "mode",  "mask", "offset", "op", "src", "dst", "val",  "value", "type", "result",
        "format", "layer", "level", "p",    "a",      "b",  "f",   "v",   "size", "x",     "y",    "width"}) {
    fields += std::string("parameters { name: \"") + name + "\" values { ints: [ 3 ] } }\n";
    sum += std::string(" + ") + name;
  }
  const std::string source =
      "#include <cuda_fp16.h>\n#include <cooperative_groups.h>\n"
      "__device__ int out_;\nextern \"C\" __global__ void k() { out_ = " +
      sum + " + LEVEL; }\n";
  const Result result =
      CompileSmall(backend_.get(), fields + "compile_options: \"-Dwidth_of_option=1\"\ncompile_options: \"-DLEVEL=5\"",
                   {{"k.cu", source}});
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.log();
  EXPECT_EQ(result.log(), "");
}

TEST_F(CudaCompile, MacrosOfOptionsComeBehindTheCompilersOwnHeadersToo) {
  const Result result = CompileSmall(
      backend_.get(), "compile_options: \"-DT=float\" compile_options: \"-Dpad\" compile_options: \"-DNDEBUG\"",
      {{"k.cu", "__device__ T out_;\nextern \"C\" __global__ void k() { assert(false); out_ = pad; }\n"}});
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.log();
}

TEST_F(CudaCompile, AQuotedHeaderIsFoundBesideItsIncluder) {
  const Result result =
      CompileSmall(backend_.get(), "",
                   {{"k.cu",
                     "#include \"./detail/one.cuh\"\n#include \"detail/../two.cuh\"\n"
                     "static_assert(kOne == 11 && kTwo == 2);\nextern \"C\" __global__ void k() {}\n"},
                    {"detail/one.cuh", "#pragma once\n#include \"two.cuh\"\nconstexpr int kOne = kTwoOfDetail + 1;\n"},
                    {"detail/two.cuh", "#pragma once\nconstexpr int kTwoOfDetail = 10;\n"},
                    {"two.cuh", "#pragma once\nconstexpr int kTwo = 2;\n"}});
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.log();
}

TEST_F(CudaCompile, AHeaderThatAMacroNamesIsFoundBesideItsIncluder) {
  const Result result = CompileSmall(
      backend_.get(), "",
      {{"src/k.cu",
        "#define HDR \"inc/y.h\"\n#include HDR\nextern \"C\" __global__ void k() { static_assert(kY == 1); }\n"},
       {"src/inc/y.h", "constexpr int kY = 1;\n"}});
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.log();
}

TEST_F(CudaCompile, ParametersThatBreakALibraryHeaderAreNamed) {
  const Result result = CompileSmall(
      backend_.get(),
      "parameters { name: \"x\" values { ints: [ 1 ] } } parameters { name: \"y\" values { ints: [ 2 ] } }",
      {{"k.cu", "#define LOCAL 1\n#include <cuda_fp16.h>\nextern \"C\" __global__ void k() {}\n"}});
  EXPECT_EQ(result.outcome(), v1::OUTCOME_COMPILE_ERROR);
  EXPECT_THAT(result.message(), HasSubstr("macros (x, y), also in library headers"));
  EXPECT_THAT(result.message(), HasSubstr("<cuda_fp16.h> in k.cu"));
}

TEST_F(CudaCompile, Fp8IsThere) {
  const Result result =
      CompileSmall(backend_.get(), "parameters { name: \"BLOCK\" values { ints: [ 3 ] } }", {{"k.cu", R"cu(
#include <cuda_fp8.h>
static_assert(sizeof(__nv_fp8_e4m3) == 1);
__device__ __nv_fp8_e4m3 out;
extern "C" __global__ void k() { out = __nv_fp8_e4m3(BLOCK * static_cast<float>(out)); }
)cu"}});
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.log();
}

TEST_F(CudaCompile, StandardHeadersAreThere) {
  const Result result = CompileSmall(backend_.get(), "", {{"k.cu", R"cu(
#include <algorithm>
#include <array>
#include <assert.h>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <float.h>
#include <limits.h>
#include <limits>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <type_traits>
#include <utility>
__device__ float out;
static_assert(std::is_same_v<std::decay_t<const int[3]>, const int*>);
static_assert(std::is_unsigned_v<uint8_t> && std::is_signed_v<float> && !std::is_integral_v<float>);
static_assert(std::numeric_limits<int>::max() == INT32_MAX && std::numeric_limits<uint64_t>::max() == UINT64_MAX);
static_assert(std::numeric_limits<float>::max() == FLT_MAX && INFINITY > FLT_MAX && sizeof(std::uintptr_t) == 8);
static_assert(std::make_index_sequence<3>::size() == 3 && std::max(1, 2) == 2);
extern "C" __global__ void k() {
  std::array<int, 2> pair{1, 2};
  std::swap(pair[0], pair[1]);
  out = std::sqrt(out) + std::abs(out) + pair[0] + static_cast<float>(M_PI);
}
)cu"}});
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.log();
}

TEST_F(CudaCompile, AHeaderOfTheDefinitionTakesAStandardOnesPlace) {
  const Result result = CompileSmall(backend_.get(), "",
                                     {{"k.cu", "#include <math.h>\nextern \"C\" __global__ void k() { Mine(); }\n"},
                                      {"math.h", "#pragma once\n__device__ inline void Mine() {}\n"}});
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.log();
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
    EXPECT_FALSE(output.binary.empty());
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
