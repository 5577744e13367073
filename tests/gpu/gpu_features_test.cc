// What definitions may ask of the CUDA runner.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "server/base/status.h"
#include "server/worker/cuda/harness.h"
#include "server/worker/verify/fill.h"
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
  EXPECT_OK_RESULT(bench.Run("WIDTH=1"));
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
    const Result result = bench.Run(config);
    EXPECT_OK_RESULT(result) << config;
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

struct FillCase {
  const char* name;
  v1::DataType type;
  v1::Fill fill;
  bool exact;
};

std::vector<FillCase> FillCases() {
  std::vector<FillCase> cases;
  for (int number = v1::DATA_TYPE_I8; number <= v1::DATA_TYPE_F64; ++number) {
    const auto type = static_cast<v1::DataType>(number);
    v1::Fill fill;
    fill.mutable_uniform()->set_low(-3);
    fill.mutable_uniform()->set_high(100);
    const bool is_unsigned = number <= v1::DATA_TYPE_U64 && number % 2 == 0;
    if (is_unsigned) fill.mutable_uniform()->set_low(3);
    cases.push_back({"uniform", type, fill, true});
    fill.mutable_iota()->set_start(1);
    fill.mutable_iota()->set_step(0.25);
    cases.push_back({"iota", type, fill, true});
    fill.mutable_constant()->set_value(42.5);
    cases.push_back({"constant", type, fill, true});
    if (number >= v1::DATA_TYPE_F16) {
      fill.mutable_normal()->set_deviation(2);
      cases.push_back({"normal", type, fill, false});
    }
  }
  return cases;
}

// The worker's own kernels, without a definition around them.
class DeviceHarness : public testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<cuda::GpuContext>> gpu = cuda::GpuContext::Open("");
    ASSERT_TRUE(gpu.ok()) << MessageOf(gpu.status());
    gpu_ = *std::move(gpu);
    auto nvrtc = cuda::Nvrtc::Open(cuda::SearchPlaces(cuda::SearchEnvironment::FromProcess("")));
    ASSERT_TRUE(nvrtc.ok()) << MessageOf(nvrtc.status());
    auto harness = cuda::Harness::Create(*gpu_, **nvrtc);
    ASSERT_TRUE(harness.ok()) << MessageOf(harness.status());
    harness_ = *std::move(harness);
  }

  void Upload(const std::vector<std::byte>& bytes, cuda::GuardedBuffer* buffer) {
    ASSERT_FALSE(cuda::GuardedBuffer::Allocate(*gpu_, bytes.size(), buffer));
    ASSERT_EQ(gpu_->driver().cuMemcpyHtoDAsync(buffer->data(), bytes.data(), bytes.size(), gpu_->stream()),
              CUDA_SUCCESS);
    ASSERT_FALSE(gpu_->Synchronize("upload"));
  }

  std::unique_ptr<cuda::GpuContext> gpu_;
  std::unique_ptr<cuda::Harness> harness_;
};

TEST_F(DeviceHarness, FillsAreTheHostsBits) {
  constexpr uint64_t kElements = 100'003;
  for (const FillCase& test : FillCases()) {
    const absl::StatusOr<TunefarmFill> fill = PlanFill(test.fill, test.type, "x", 12345678901ull);
    ASSERT_TRUE(fill.ok()) << MessageOf(fill.status());
    std::vector<std::byte> host(kElements * SizeOf(test.type)), device(host.size());
    FillElements(*fill, 0, host);
    cuda::GuardedBuffer buffer;
    ASSERT_FALSE(cuda::GuardedBuffer::Allocate(*gpu_, host.size(), &buffer));
    ASSERT_FALSE(harness_->Fill(*fill, buffer.data(), kElements));
    ASSERT_FALSE(gpu_->CopyToHost(buffer.data(), device.data(), device.size()));
    if (test.exact) {
      EXPECT_EQ(std::memcmp(host.data(), device.data(), host.size()), 0) << test.name << " " << NameOf(test.type);
      continue;
    }
    double largest = 0;
    for (uint64_t i = 0; i < kElements; ++i) {
      const size_t at = i * SizeOf(test.type);
      const double difference = ElementToDouble(test.type, &host[at]) - ElementToDouble(test.type, &device[at]);
      largest = std::max(largest, std::abs(difference));
    }
    EXPECT_LT(largest, test.type == v1::DATA_TYPE_BF16 ? 0.07 : 0.01) << test.name << " " << NameOf(test.type);
  }
}

// The device's comparison and the host's are one rule.
TEST_F(DeviceHarness, ComparesAsTheHostDoes) {
  TolerancePlan tolerance;
  tolerance.atol = 0.5;
  tolerance.rtol = 0.01;
  tolerance.catastrophic_bound = 0.5;
  tolerance.row_norm_bound = 0.2;
  constexpr uint64_t kElements = 200'001;
  for (int number = v1::DATA_TYPE_I8; number <= v1::DATA_TYPE_F64; ++number) {
    const auto type = static_cast<v1::DataType>(number);
    const size_t size = SizeOf(type);
    for (const int64_t row_length : {int64_t{0}, int64_t{1000}}) {
      tolerance.row_length = row_length;
      v1::Fill message;
      message.mutable_uniform()->set_low(0);
      message.mutable_uniform()->set_high(100);
      const absl::StatusOr<TunefarmFill> fill = PlanFill(message, type, "x", 3);
      ASSERT_TRUE(fill.ok());
      std::vector<std::byte> expected(kElements * size);
      FillElements(*fill, 0, expected);
      std::vector<std::byte> actual = expected;
      const uint64_t poison = PoisonBits(type, PoisonPattern::kFirst);
      const auto set = [&](std::vector<std::byte>* bytes, uint64_t index, uint64_t bits) {
        std::memcpy(bytes->data() + index * size, &bits, size);
      };
      const auto copy = [&](uint64_t to, uint64_t from) {
        std::memcpy(&actual[to * size], &expected[from * size], size);
      };
      copy(70'000, 70'001), copy(131'072, 5), copy(199'999, 17), copy(65'535, 65'537), copy(150'000, 150'001);
      set(&expected, 10, poison), set(&actual, 10, poison);  // untouched by both
      set(&expected, 11, poison);                            // overwritten
      set(&actual, 140'000, poison);                         // unwritten
      const BufferComparison host = Compare("x", type, actual, expected, PoisonPattern::kFirst, tolerance);
      cuda::GuardedBuffer device_actual, device_expected;
      Upload(actual, &device_actual);
      Upload(expected, &device_expected);
      cuda::Harness::CompareInput input{"x",
                                        type,
                                        kElements,
                                        device_actual.data(),
                                        device_expected.data(),
                                        PoisonPattern::kFirst,
                                        PoisonPattern::kFirst};
      BufferComparison device;
      const cuda::Failure failure = harness_->Compare(input, tolerance, &device);
      ASSERT_FALSE(failure) << failure.message;
      SCOPED_TRACE(std::string(NameOf(type)) + " row_length " + std::to_string(row_length));
      EXPECT_GE(host.mismatches, 4u);
      EXPECT_EQ(device.elements, host.elements);
      EXPECT_EQ(device.mismatches, host.mismatches);
      EXPECT_EQ(device.hard_mismatches, host.hard_mismatches);
      EXPECT_EQ(device.max_absolute_error, host.max_absolute_error);
      EXPECT_DOUBLE_EQ(device.max_relative_error, host.max_relative_error);
      EXPECT_EQ(device.bad_row, host.bad_row);
      EXPECT_NEAR(device.bad_row_norm, host.bad_row_norm, 1e-9);
      ASSERT_EQ(device.first.size(), host.first.size());
      for (size_t i = 0; i < host.first.size(); ++i) EXPECT_EQ(device.first[i].index, host.first[i].index);
    }
  }
}

TEST_F(DeviceHarness, GuardsAreFilledAndCheckedByteByByte) {
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{4096}, uint64_t{12'347}}) {
    cuda::GuardedBuffer buffer;
    ASSERT_FALSE(cuda::GuardedBuffer::Allocate(*gpu_, bytes, &buffer));
    ASSERT_FALSE(harness_->FillGuards(buffer));
    std::vector<std::byte> zone(kGuardBytes), expected(kGuardBytes);
    FillGuard(expected);
    ASSERT_FALSE(gpu_->CopyToHost(buffer.guard_after(), zone.data(), zone.size()));
    EXPECT_EQ(std::memcmp(zone.data(), expected.data(), zone.size()), 0);
    ASSERT_EQ(gpu_->driver().cuMemsetD8Async(buffer.guard_after() + 100, 1, 7, gpu_->stream()), CUDA_SUCCESS);
    std::vector<std::optional<cuda::GuardDamage>> damages;
    ASSERT_FALSE(harness_->CheckGuards({buffer.guard_before(), buffer.guard_after()}, &damages));
    ASSERT_EQ(damages.size(), 2u);
    EXPECT_FALSE(damages[0].has_value());
    ASSERT_TRUE(damages[1].has_value());
    EXPECT_EQ(damages[1]->first, 100u);
    EXPECT_EQ(damages[1]->last, 106u);
  }
}

}  // namespace
}  // namespace tunefarm
