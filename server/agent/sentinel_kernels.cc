#include "server/agent/sentinel_kernels.h"

#include <fmt/core.h>

#include <utility>

#include "server/base/status_macros.h"

namespace tunefarm {

namespace {

constexpr char kCudaSource[] = R"cuda(
extern "C" __global__ void sentinel_stream(const float* x, float* y, long long n) {
  const long long first = (long long)blockIdx.x * 1024 + threadIdx.x;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const long long at = first + i * 256;
    if (at < n) y[at] = x[at] * 0.5f;
  }
}

// Eight chains of a thread, so that a multiplication never waits for the one before it.
extern "C" __global__ void sentinel_arithmetic(const float* x, float* y, long long n) {
  const long long at = (long long)blockIdx.x * 256 + threadIdx.x;
  if (at >= n) return;
  float chain[8];
#pragma unroll
  for (int k = 0; k < 8; ++k) chain[k] = x[at] + k;
  for (int i = 0; i < 2048; ++i) {
#pragma unroll
    for (int k = 0; k < 8; ++k) chain[k] = fmaf(chain[k], 0.999f, 0.001f);
  }
  float sum = 0;
#pragma unroll
  for (int k = 0; k < 8; ++k) sum += chain[k];
  y[at] = sum;
}
)cuda";

constexpr char kHostSource[] = R"cc(
  extern "C" void sentinel_stream(const float* x, float* y, long n) {
    for (long i = 0; i < n; ++i) y[i] = x[i] * 0.5f;
  }

  extern "C" void sentinel_arithmetic(const float* x, float* y, long n) {
    for (long i = 0; i < n; ++i) {
      float chain[8];
      for (int k = 0; k < 8; ++k) chain[k] = x[i] + k;
      for (int turn = 0; turn < 256; ++turn) {
        for (int k = 0; k < 8; ++k) chain[k] = chain[k] * 0.999f + 0.001f;
      }
      float sum = 0;
      for (int k = 0; k < 8; ++k) sum += chain[k];
      y[i] = sum;
    }
  }
)cc";

// A step's text, of the one sentinel or the other.
std::string Step(bool is_cuda, bool arithmetic) {
  const std::string geometry =
      is_cuda ? fmt::format("grid: \"ceil_div(n, {})\" block: \"256\"", arithmetic ? 256 : 1024) : "";
  return fmt::format(R"(kernel {{ entry: "sentinel_{}" {} arguments: ["x", "y", "count"] }} when: "{}arithmetic")",
                     arithmetic ? "arithmetic" : "stream", geometry, arithmetic ? "" : "not ");
}

// On a GPU 256 MiB are moved and 8.6 Gflop computed, on a CPU 32 MiB and 17 Mflop. What the output is compared with is
// the same again: it must not change from run to run.
std::string Definition(bool is_cuda) {
  return fmt::format(
      R"(
      display_name: "sentinel"
      language: {0}
      sources {{ path: "{1}" }}
      compile_options: [{2}]
      dims {{ name: "arithmetic" type: VALUE_TYPE_BOOL default_value {{ bool_value: false }} bind: BIND_RUN }}
      derived {{ name: "n" expression: "{3}" }}
      arguments {{
        name: "x"
        buffer {{ data_type: DATA_TYPE_F32 length: "n" access: ACCESS_IN fill {{ uniform {{ low: -1 high: 1 }} }} }}
      }}
      arguments {{ name: "y" buffer {{ data_type: DATA_TYPE_F32 length: "n" access: ACCESS_OUT }} }}
      arguments {{ name: "count" scalar {{ data_type: DATA_TYPE_I64 value: "n" }} }}
      launches {{ {4} }}
      launches {{ {5} }}
      reference {{ steps {{ {4} }} steps {{ {5} }} }}
      tolerance {{ atol: 0 rtol: 0 }})",
      is_cuda ? "LANGUAGE_CUDA" : "LANGUAGE_HOST_CXX", is_cuda ? "sentinel.cu" : "sentinel.cc",
      is_cuda ? "" : "\"-O2\"", is_cuda ? "262144 if arithmetic else 33554432" : "4096 if arithmetic else 4194304",
      Step(is_cuda, false), Step(is_cuda, true));
}

}  // namespace

absl::StatusOr<std::vector<SentinelKernel>> SentinelKernels(DeviceKind kind) {
  const bool is_cuda = kind == DeviceKind::kCuda;
  ASSIGN_OR_RETURN(tunefarm::v1::Kernel kernel, ParseKernelText(Definition(is_cuda), "sentinel.pbtxt"));
  kernel.mutable_sources(0)->set_content(is_cuda ? kCudaSource : kHostSource);
  ASSIGN_OR_RETURN(const std::shared_ptr<const KernelPlan> plan, KernelPlan::Compile(kernel));
  std::vector<SentinelKernel> kernels;
  for (const bool arithmetic : {false, true}) {
    tunefarm::v1::Problem problem;
    (*problem.mutable_dims())["arithmetic"].set_bool_value(arithmetic);
    ASSIGN_OR_RETURN(ResolvedProblem resolved, plan->ResolveProblem(problem));
    kernels.push_back({fmt::format("{}-{}", arithmetic ? "arithmetic" : "stream", plan->program_digest().substr(0, 8)),
                       plan, std::make_shared<const ResolvedProblem>(std::move(resolved))});
  }
  return kernels;
}

}  // namespace tunefarm
