// What definitions may ask of the CUDA runner.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "tests/gpu/kernel_bench.h"

namespace tunefarm {
namespace {

using tunefarm::worker::v1::Result;

#define EXPECT_OK_RESULT(result) EXPECT_EQ(v1::Outcome_Name((result).outcome()), "OUTCOME_OK") << (result).message()

constexpr const char* kSteps = R"pb(
  display_name: "steps"
  language: LANGUAGE_CUDA
  sources { path: "steps.cu" }
  dims {
    name: "N"
    default_value { int_value: 65536 }
  }
  parameters {
    name: "MODE"
    values { strings: [ "good", "no_memset" ] }
  }
  arguments {
    name: "x"
    buffer {
      data_type: DATA_TYPE_I32
      length: "N"
      access: ACCESS_INOUT
      restore: RESTORE_PER_SAMPLE
      fill { iota {} }
    }
  }
  arguments {
    name: "sum"
    buffer { data_type: DATA_TYPE_U64 length: "2" access: ACCESS_OUT }
  }
  arguments {
    name: "picked"
    buffer { data_type: DATA_TYPE_I32 length: "N" access: ACCESS_OUT }
  }
  arguments {
    name: "scaled"
    buffer { data_type: DATA_TYPE_F32 length: "16" access: ACCESS_OUT }
  }
  arguments {
    name: "weights"
    constant_symbol {
      symbol: "weights"
      data_type: DATA_TYPE_F32
      length: "16"
      fill { iota { start: 1 step: 0.5 } }
    }
  }
  arguments {
    name: "n"
    scalar { data_type: DATA_TYPE_I32 value: "N" }
  }
  launches {
    memset { buffer: "sum" }
    when: "MODE != 'no_memset'"
    untimed: true
  }
  launches {
    kernel {
      entry: "steps<int>"
      grid: "ceil_div(N, 256)"
      block: "256"
      arguments: [ "x", "sum", "picked", "scaled", "n" ]
    }
  }
  reference {
    steps { memset { buffer: "sum" } }
    steps {
      kernel {
        entry: "reference"
        grid: "1"
        block: "1"
        arguments: [ "x", "sum", "picked", "scaled", "n" ]
      }
    }
  }
  tolerance { atol: 0 rtol: 0 }
)pb";

constexpr const char* kStepsSource = R"cu(
__constant__ float weights[16];
template <typename T>
__global__ void steps(T* x, unsigned long long* sum, T* picked, float* scaled, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  atomicAdd(&sum[0], (unsigned long long)x[i]);
  if (i == 0) sum[1] = 0xA5A5A5A5A5A5A5A5ull;  // what poisoned memory looks like, on purpose
  x[i] = x[i] + 1;
  if (i % 3 == 0) picked[i] = i;  // the rest must stay untouched
  if (i < 16) scaled[i] = 2.0f * weights[i];
}
extern "C" __global__ void reference(int* x, unsigned long long* sum, int* picked, float* scaled, int n) {
  for (int i = 0; i < n; ++i) {
    sum[0] += x[i];
    x[i] += 1;
    if (i % 3 == 0) picked[i] = i;
  }
  sum[1] = 0xA5A5A5A5A5A5A5A5ull;
  for (int i = 0; i < 16; ++i) scaled[i] = 2.0f + i;
}
)cu";

TEST(Features, MemsetInOutConstantsTemplatesAndUntouchedElements) {
  KernelBench bench(kSteps, {{"steps.cu", kStepsSource}});
  ASSERT_TRUE(bench.ok()) << bench.prepared().message();
  const Result good = bench.Run();
  EXPECT_OK_RESULT(good);
  EXPECT_GE(good.measurement().samples(), 10);
  const Result bad = bench.Run("MODE=no_memset");
  EXPECT_EQ(v1::Outcome_Name(bad.outcome()), "OUTCOME_WRONG_RESULT") << bad.message();
  // Another input set, and back.
  bench.input.input_seed = 7;
  EXPECT_OK_RESULT(bench.Run());
  bench.input.input_seed = 1;
  EXPECT_OK_RESULT(bench.Run());
}

// Work between two timed steps is not timed.
TEST(Features, UntimedStepsAreLeftOut) {
  const auto median_ns = [](const std::string& untimed) {
    const std::string definition = R"(
      display_name: "stretches" language: LANGUAGE_CUDA sources { path: "s.cu" }
      parameters { name: "P" values { ints: [1] } }
      arguments { name: "y" buffer { data_type: DATA_TYPE_I32 length: "32" access: ACCESS_OUT } }
      launches { kernel { entry: "quick" grid: "1" block: "32" arguments: ["y"] } }
      launches { kernel { entry: "slow" grid: "1" block: "32" arguments: ["y"] } )" +
                                   untimed + R"( }
      launches { kernel { entry: "quick" grid: "1" block: "32" arguments: ["y"] } }
      reference { steps { kernel { entry: "quick" grid: "1" block: "32" arguments: ["y"] } } }
      tolerance { atol: 0 rtol: 0 })";
    KernelBench bench(definition, {{"s.cu", R"cu(
      extern "C" __global__ void quick(int* y) { y[threadIdx.x] = threadIdx.x; }
      extern "C" __global__ void slow(int* y) { for (int i = 0; i < 400; ++i) __nanosleep(1000); }
    )cu"}});
    const Result result = bench.Run();
    EXPECT_OK_RESULT(result);
    return result.measurement().median_ns();
  };
  EXPECT_GT(median_ns(""), 200e3);
  EXPECT_LT(median_ns("untimed: true"), 100e3);
}

constexpr const char* kPrepare = R"pb(
  display_name: "prepared"
  language: LANGUAGE_CUDA
  sources { path: "prepared.cu" }
  dims {
    name: "N"
    default_value { int_value: 4096 }
  }
  parameters {
    name: "WIDTH"
    values { ints: [ 1, 2 ] }
  }
  arguments {
    name: "x"
    buffer {
      data_type: DATA_TYPE_F32
      length: "N"
      access: ACCESS_IN
      fill { prepare_step: "make" }
    }
  }
  arguments {
    name: "copy"
    buffer { data_type: DATA_TYPE_F32 length: "N * WIDTH" access: ACCESS_SCRATCH }
  }
  arguments {
    name: "y"
    buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_OUT }
  }
  arguments {
    name: "n"
    scalar { data_type: DATA_TYPE_I32 value: "N" }
  }
  prepare {
    step {
      name: "make"
      kernel {
        entry: "make"
        grid: "ceil_div(N, 128)"
        block: "128"
        arguments: [ "x", "n" ]
      }
    }
    per: PREPARE_PER_PROBLEM
  }
  prepare {
    step {
      name: "layout"
      kernel {
        entry: "layout"
        grid: "ceil_div(N, 128)"
        block: "128"
        arguments: [ "x", "copy", "n" ]
      }
    }
    per: PREPARE_PER_CONFIG
  }
  launches {
    kernel {
      entry: "doubled"
      grid: "min(device.sm_count * kernel.max_active_blocks, ceil_div(N, 128))"
      block: "128"
      arguments: [ "copy", "y", "n" ]
      attributes { cooperative: true }
    }
  }
  reference {
    steps {
      kernel {
        entry: "reference"
        grid: "ceil_div(N, 128)"
        block: "128"
        arguments: [ "x", "y", "n" ]
      }
    }
  }
  tolerance { atol: 0 rtol: 0 row_norm_bound: 0.001 row_length: "64" }
)pb";

constexpr const char* kPrepareSource = R"cu(
extern "C" __global__ void make(float* x, int n) {
  const int i = blockIdx.x * 128 + threadIdx.x;
  if (i < n) x[i] = i * 0.5f;
}
extern "C" __global__ void layout(const float* x, float* copy, int n) {
  const int i = blockIdx.x * 128 + threadIdx.x;
  if (i < n) for (int j = 0; j < WIDTH; ++j) copy[i * WIDTH + j] = x[i];
}
extern "C" __global__ void doubled(const float* copy, float* y, int n) {
  for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128) y[i] = copy[i * WIDTH] + copy[i * WIDTH + WIDTH - 1];
}
extern "C" __global__ void reference(const float* x, float* y, int n) {
  const int i = blockIdx.x * 128 + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i];
}
)cu";

TEST(Features, PrepareStepsCooperativeLaunchAndScratchByConfig) {
  KernelBench bench(kPrepare, {{"prepared.cu", kPrepareSource}});
  ASSERT_TRUE(bench.ok()) << bench.prepared().message();
  EXPECT_OK_RESULT(bench.Run("WIDTH=1"));
  EXPECT_OK_RESULT(bench.Run("WIDTH=2"));
  bench.input.second_input_seed = 5;  // the work space is made anew meanwhile
  EXPECT_OK_RESULT(bench.Run("WIDTH=2"));
  bench.input.policy.set_method(v1::TIMING_METHOD_CUDA_GRAPH);
  const Result graph = bench.Run("WIDTH=1");
  EXPECT_OK_RESULT(graph);
  EXPECT_EQ(graph.measurement().method(), v1::TIMING_METHOD_CUDA_GRAPH) << "a cooperative launch";
}

constexpr const char* kHopper = R"pb(
  display_name: "hopper"
  language: LANGUAGE_CUDA
  sources { path: "hopper.cu" }
  parameters {
    name: "CLUSTER"
    values { ints: [ 2, 4, 8, 16, 3, 64 ] }
  }
  arguments {
    name: "x"
    buffer { data_type: DATA_TYPE_F32 length: "64 * 64" access: ACCESS_IN }
  }
  arguments {
    name: "y"
    buffer { data_type: DATA_TYPE_F32 length: "64 * 64" access: ACCESS_OUT }
  }
  arguments {
    name: "ranks"
    buffer { data_type: DATA_TYPE_I32 length: "192" access: ACCESS_OUT }
  }
  arguments {
    name: "map"
    tensor_map {
      buffer: "x"
      dims: [ "64", "64" ]
      byte_strides: "256"
      box: [ "32", "32" ]
    }
  }
  arguments {
    name: "shifted"
    tensor_map {
      buffer: "x"
      dims: [ "64", "32" ]
      byte_strides: "256"
      box: [ "32", "32" ]
      base_offset_bytes: "32 * 256"
    }
  }
  launches {
    kernel {
      entry: "copy"
      grid: [ "2", "2" ]
      block: "128"
      arguments: [ "map", "shifted", "y" ]
    }
  }
  launches {
    kernel {
      entry: "ranks"
      grid: "192"
      block: "32"
      cluster: "CLUSTER"
      arguments: [ "ranks" ]
      attributes { non_portable_cluster: true programmatic_stream_serialization: true }
    }
  }
  reference {
    steps {
      kernel {
        entry: "plain_copy"
        grid: "64"
        block: "64"
        arguments: [ "x", "y" ]
      }
    }
    steps {
      kernel {
        entry: "plain_ranks"
        grid: "1"
        block: "192"
        arguments: [ "ranks" ]
      }
    }
  }
  tolerance { atol: 0 rtol: 0 }
  resources { exact_compute_capability: 90 }
)pb";

constexpr const char* kHopperSource = R"cu(
struct alignas(64) Map { char bytes[128]; };
__device__ inline unsigned Address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
extern "C" __global__ void copy(const __grid_constant__ Map map, const __grid_constant__ Map shifted, float* y) {
  __shared__ alignas(128) float tile[32 * 32];
  __shared__ alignas(8) unsigned long long barrier;
  // The lower half of the matrix comes through the map that begins there.
  const bool lower = blockIdx.y == 1;
  const Map* which = lower ? &shifted : &map;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(Address(&barrier)));
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 4096;" ::"r"(Address(&barrier)) : "memory");
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
            Address(tile)), "l"(which), "r"(blockIdx.x * 32), "r"(0), "r"(Address(&barrier)) : "memory");
  }
  __syncthreads();
  unsigned done = 0;
  while (!done) {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(Address(&barrier)) : "memory");
  }
  for (int i = threadIdx.x; i < 1024; i += 128) {
    y[(blockIdx.y * 32 + i / 32) * 64 + blockIdx.x * 32 + i % 32] = tile[i];
  }
}
extern "C" __global__ void ranks(int* out) {
  unsigned rank, size;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  asm volatile("griddepcontrol.wait;" ::: "memory");
  if (threadIdx.x == 0) out[blockIdx.x] = size == CLUSTER && rank == blockIdx.x % CLUSTER ? 1 : -1;
}
extern "C" __global__ void plain_copy(const float* x, float* y) {
  y[blockIdx.x * 64 + threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
}
extern "C" __global__ void plain_ranks(int* out) { out[threadIdx.x] = 1; }
)cu";

TEST(Features, TensorMapsAndClusters) {
  if (TheGpu(nullptr)->device_class.compute_capability != 90) GTEST_SKIP() << "needs compute capability 9.0";
  KernelBench bench(kHopper, {{"hopper.cu", kHopperSource}});
  ASSERT_TRUE(bench.ok()) << bench.prepared().message();
  for (const char* config : {"CLUSTER=2", "CLUSTER=8", "CLUSTER=16"}) {
    for (const v1::TimingMethod method : {v1::TIMING_METHOD_CUDA_EVENTS, v1::TIMING_METHOD_CUDA_GRAPH}) {
      bench.input.policy.set_method(method);
      const Result result = bench.Run(config);
      EXPECT_OK_RESULT(result) << config;
      EXPECT_EQ(v1::TimingMethod_Name(result.measurement().method()), v1::TimingMethod_Name(method));
    }
  }
  const Result result = bench.Run("CLUSTER=64");
  EXPECT_EQ(v1::Outcome_Name(result.outcome()), "OUTCOME_INFEASIBLE_LAUNCH") << result.message();
  EXPECT_FALSE(result.worker_is_damaged());
  EXPECT_OK_RESULT(bench.Run("CLUSTER=4"));
}

// A definition of the catalog, as far as the checkout is here.
std::string ReadSource(const std::string& path) {
  const char* const directory = getenv("TUNEFARM_SOURCE_DIR");
  std::ifstream file((directory == nullptr ? "." : std::string(directory)) + "/kernels/" + path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Features, MatmulAgainstItsReferenceAndCublas) {
  const std::string definition = ReadSource("matmul/kernel.pbtxt");
  if (definition.empty()) GTEST_SKIP() << "kernels/ is not here";
  std::vector<std::pair<std::string, std::string>> sources;
  for (const char* name :
       {"matmul.cu", "element.cuh", "tile.cuh", "matmul_f32.cuh", "matmul_bf16.cuh", "reference.cuh"}) {
    sources.emplace_back(name, ReadSource(std::string("matmul/") + name));
  }
  for (const char* dtype : {"f32", "bf16"}) {
    v1::Problem problem;
    (*problem.mutable_dims())["dtype"].set_string_value(dtype);
    KernelBench bench(definition, sources, problem);
    ASSERT_TRUE(bench.ok()) << bench.prepared().message();
    const Result own = bench.Run();
    EXPECT_OK_RESULT(own);
    const Result baseline = bench.RunBaseline();
    if (baseline.outcome() == v1::OUTCOME_LOAD_ERROR) {
      std::printf("no baseline: %s\n", baseline.message().c_str());
      continue;
    }
    EXPECT_OK_RESULT(baseline);
    for (const Result* result : {&own, &baseline}) {
      std::printf(
          "matmul %s 4096 %s: %.3f ms (%.3f to %.3f, %d samples, %d MHz), load %.0f verify %.0f measure %.0f ms\n",
          dtype, result == &own ? "default" : "cuBLAS", result->measurement().median_ns() / 1e6,
          result->measurement().ci_low_ns() / 1e6, result->measurement().ci_high_ns() / 1e6,
          result->measurement().samples(), result->measurement().clock_mhz(), result->load_ms(), result->verify_ms(),
          result->measure_ms());
    }
  }
}

TEST(Features, VectorAddRunsAtMemorySpeed) {
  const std::string definition = ReadSource("vector_add/kernel.pbtxt");
  if (definition.empty()) GTEST_SKIP() << "kernels/ is not here";
  KernelBench bench(definition, {{"vector_add.cu", ReadSource("vector_add/vector_add.cu")}});
  ASSERT_TRUE(bench.ok()) << bench.prepared().message();
  const Result result = bench.Run("VECTOR_WIDTH=4");
  EXPECT_OK_RESULT(result);
  const double rate = 3.0 * 67108864 * 4 / (result.measurement().median_ns() * 1e-9);
  const double peak = TheGpu(nullptr)->device.peak_bytes_per_second();
  std::printf("vector_add: %.0f GB/s of %.0f\n", rate / 1e9, peak / 1e9);
  EXPECT_GT(rate, 0.3 * peak);
  EXPECT_LT(rate, 1.05 * peak);
}

}  // namespace
}  // namespace tunefarm
