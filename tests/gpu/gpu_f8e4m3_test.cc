// Buffers of F8E4M3 on the device: quantised by a prepare step, passed by value and through a tensor map, compared.
#include <gtest/gtest.h>

#include <string>

#include "tests/gpu/kernel_bench.h"

namespace tunefarm {
namespace {

using tunefarm::worker::v1::Result;

void Expect(const std::string& outcome, const Result& result) {
  EXPECT_EQ(v1::Outcome_Name(result.outcome()), outcome) << result.message();
}

constexpr const char* kQuantised = R"pb(
  display_name: "quantised"
  language: LANGUAGE_CUDA
  sources { path: "quantised.cu" }
  dims {
    name: "N"
    default_value { int_value: 4096 }
  }
  dims {
    name: "dtype"
    type: VALUE_TYPE_STRING
    default_value { string_value: "fp8" }
    values { string_value: "fp8" }
    values { string_value: "bf16" }
  }
  parameters {
    name: "DOES"
    values { strings: [ "good", "two_codes", "leaves_one", "makes_nan", "touches_gap" ] }
  }
  arguments {
    name: "x"
    buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_IN }
  }
  arguments {
    name: "q"
    buffer {
      data_type_dim: "dtype"
      length: "N"
      access: ACCESS_IN
      fill { prepare_step: "quantise" }
    }
  }
  arguments {
    name: "w"
    buffer {
      data_type_dim: "dtype"
      length: "N"
      access: ACCESS_IN
      fill { uniform { low: 0.5 high: 2 } }
    }
  }
  arguments {
    name: "y"
    buffer { data_type_dim: "dtype" length: "N" access: ACCESS_OUT }
  }
  arguments {
    name: "factor"
    scalar { data_type: DATA_TYPE_F8E4M3 value: "1.5" }
  }
  arguments {
    name: "n"
    scalar { data_type: DATA_TYPE_I32 value: "N" }
  }
  prepare {
    step {
      name: "quantise"
      kernel {
        entry: "quantise"
        grid: "ceil_div(N, 256)"
        block: "256"
        arguments: [ "x", "q", "n" ]
      }
    }
  }
  launches {
    kernel {
      entry: "scale"
      grid: "ceil_div(N, 256)"
      block: "256"
      arguments: [ "q", "w", "y", "factor", "n" ]
    }
  }
  reference {
    steps {
      kernel {
        entry: "plain"
        grid: "1"
        block: "256"
        arguments: [ "q", "w", "y", "factor", "n" ]
      }
    }
  }
  # Neighbouring codes differ by at most an eighth.
  tolerance { atol: 0 rtol: 0.13 }
)pb";

// The last element stays untouched.
constexpr const char* kQuantisedSource = R"cu(
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#if defined(dtype_fp8)
using Element = __nv_fp8_e4m3;
#else
using Element = __nv_bfloat16;
#endif
extern "C" __global__ void quantise(const float* x, Element* q, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) q[i] = Element(x[i]);
}
extern "C" __global__ void scale(const Element* q, const Element* w, Element* y, __nv_fp8_e4m3 factor, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n - 1) {
#if defined(DOES_touches_gap)
    if (i == n - 1) y[i] = Element(0.0f);
#endif
    return;
  }
#if defined(DOES_leaves_one)
  if (i == 3) return;
#endif
  y[i] = Element(float(factor) * float(q[i]) * float(w[i]));
#if defined(DOES_two_codes)
  if (i == 7) *reinterpret_cast<unsigned char*>(y + i) += 2;
#elif defined(DOES_makes_nan)
  if (i == 5) y[i] = Element(__int_as_float(0x7fc00000));
#endif
}
extern "C" __global__ void plain(const Element* q, const Element* w, Element* y, __nv_fp8_e4m3 factor, int n) {
  for (int i = threadIdx.x; i < n - 1; i += 256) y[i] = Element(float(factor) * float(q[i]) * float(w[i]));
}
)cu";

TEST(F8E4M3, IsFilledPoisonedAndCompared) {
  KernelBench bench(kQuantised, {{"quantised.cu", kQuantisedSource}});
  ASSERT_TRUE(bench.ok()) << bench.prepared().message();
  const Result good = bench.Run();
  Expect("OUTCOME_OK", good);
  EXPECT_EQ(good.verification().elements(), 4096u);
  for (const char* does : {"two_codes", "leaves_one", "makes_nan", "touches_gap"}) {
    SCOPED_TRACE(does);
    Expect("OUTCOME_WRONG_RESULT", bench.Run(std::string("DOES=") + does));
  }
  Expect("OUTCOME_OK", bench.Run());
}

TEST(F8E4M3, ADimChoosesAnotherType) {
  v1::Problem problem;
  (*problem.mutable_dims())["dtype"].set_string_value("bf16");
  KernelBench bench(kQuantised, {{"quantised.cu", kQuantisedSource}}, problem);
  ASSERT_TRUE(bench.ok()) << bench.prepared().message();
  Expect("OUTCOME_OK", bench.Run());
}

TEST(F8E4M3, CublasIsNoBaseline) {
  const std::string definition = std::string(kQuantised) + R"pb(
    baseline {
      steps { library_op { op: LIBRARY_OP_KIND_GEMM a: "q" b: "w" c: "y" m: "64" n: "64" k: "64" } }
      label: "cuBLAS"
    }
  )pb";
  KernelBench bench(definition, {{"quantised.cu", kQuantisedSource}});
  ASSERT_TRUE(bench.ok()) << bench.prepared().message();
  const Result baseline = bench.RunBaseline();
  Expect("OUTCOME_LOAD_ERROR", baseline);
  EXPECT_NE(baseline.message().find("cuBLAS products are of f16, bf16, f32 or f64 matrices"), std::string::npos)
      << baseline.message();
}

constexpr const char* kMapped = R"pb(
  display_name: "mapped"
  language: LANGUAGE_CUDA
  sources { path: "mapped.cu" }
  parameters {
    name: "P"
    values { ints: [ 1, 2 ] }
  }
  arguments {
    name: "x"
    buffer { data_type: DATA_TYPE_F8E4M3 length: "128 * 64" access: ACCESS_IN }
  }
  arguments {
    name: "y"
    buffer { data_type: DATA_TYPE_F8E4M3 length: "128 * 64" access: ACCESS_OUT }
  }
  arguments {
    name: "map"
    tensor_map {
      buffer: "x"
      dims: [ "128", "64" ]
      byte_strides: "128"
      box: [ "128", "32" ]
    }
  }
  launches {
    kernel {
      entry: "copy"
      grid: "2"
      block: "128"
      arguments: [ "map", "y" ]
    }
  }
  reference {
    steps {
      kernel {
        entry: "plain"
        grid: "64"
        block: "128"
        arguments: [ "x", "y" ]
      }
    }
  }
  tolerance { atol: 0 rtol: 0 }
  resources { exact_compute_capability: 90 }
)pb";

constexpr const char* kMappedSource = R"cu(
struct alignas(64) Map { char bytes[128]; };
__device__ inline unsigned Address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
extern "C" __global__ void copy(const __grid_constant__ Map map, unsigned char* y) {
  __shared__ alignas(128) unsigned char tile[128 * 32];
  __shared__ alignas(8) unsigned long long barrier;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(Address(&barrier)));
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 4096;" ::"r"(Address(&barrier)) : "memory");
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
            Address(tile)), "l"(&map), "r"(0), "r"(blockIdx.x * 32), "r"(Address(&barrier)) : "memory");
  }
  __syncthreads();
  unsigned done = 0;
  while (!done) {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(Address(&barrier)) : "memory");
  }
  for (int i = threadIdx.x; i < 4096; i += 128) y[blockIdx.x * 4096 + i] = tile[i];
}
extern "C" __global__ void plain(const unsigned char* x, unsigned char* y) {
  y[blockIdx.x * 128 + threadIdx.x] = x[blockIdx.x * 128 + threadIdx.x];
}
)cu";

TEST(F8E4M3, ATensorMapSeesBytes) {
  if (TheGpu(nullptr)->device_class.compute_capability != 90) GTEST_SKIP() << "needs compute capability 9.0";
  KernelBench bench(kMapped, {{"mapped.cu", kMappedSource}});
  ASSERT_TRUE(bench.ok()) << bench.prepared().message();
  Expect("OUTCOME_OK", bench.Run());
}

}  // namespace
}  // namespace tunefarm
