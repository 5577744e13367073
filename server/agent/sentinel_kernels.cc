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

constexpr char kCudaDefinition[] = R"pb(
  display_name: "sentinel"
  language: LANGUAGE_CUDA
  sources { path: "sentinel.cu" }
  dims {
    name: "arithmetic"
    type: VALUE_TYPE_BOOL
    default_value { bool_value: false }
    bind: BIND_RUN
  }
  derived { name: "n" expression: "262144 if arithmetic else 67108864" }
  arguments {
    name: "x"
    buffer {
      data_type: DATA_TYPE_F32
      length: "n"
      access: ACCESS_IN
      fill { uniform { low: -1 high: 1 } }
    }
  }
  arguments {
    name: "y"
    buffer { data_type: DATA_TYPE_F32 length: "n" access: ACCESS_OUT }
  }
  arguments {
    name: "count"
    scalar { data_type: DATA_TYPE_I64 value: "n" }
  }
  launches {
    kernel {
      entry: "sentinel_stream"
      grid: "ceil_div(n, 1024)"
      block: "256"
      arguments: [ "x", "y", "count" ]
    }
    when: "not arithmetic"
  }
  launches {
    kernel {
      entry: "sentinel_arithmetic"
      grid: "ceil_div(n, 256)"
      block: "256"
      arguments: [ "x", "y", "count" ]
    }
    when: "arithmetic"
  }
  reference {
    steps {
      kernel {
        entry: "sentinel_stream"
        grid: "ceil_div(n, 1024)"
        block: "256"
        arguments: [ "x", "y", "count" ]
      }
      when: "not arithmetic"
    }
    steps {
      kernel {
        entry: "sentinel_arithmetic"
        grid: "ceil_div(n, 256)"
        block: "256"
        arguments: [ "x", "y", "count" ]
      }
      when: "arithmetic"
    }
  }
  tolerance { atol: 0 rtol: 0 }
)pb";

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

constexpr char kHostDefinition[] = R"pb(
  display_name: "sentinel"
  language: LANGUAGE_HOST_CXX
  sources { path: "sentinel.cc" }
  compile_options: [ "-O2" ]
  dims {
    name: "arithmetic"
    type: VALUE_TYPE_BOOL
    default_value { bool_value: false }
    bind: BIND_RUN
  }
  derived { name: "n" expression: "4096 if arithmetic else 4194304" }
  arguments {
    name: "x"
    buffer {
      data_type: DATA_TYPE_F32
      length: "n"
      access: ACCESS_IN
      fill { uniform { low: -1 high: 1 } }
    }
  }
  arguments {
    name: "y"
    buffer { data_type: DATA_TYPE_F32 length: "n" access: ACCESS_OUT }
  }
  arguments {
    name: "count"
    scalar { data_type: DATA_TYPE_I64 value: "n" }
  }
  launches {
    kernel {
      entry: "sentinel_stream"
      arguments: [ "x", "y", "count" ]
    }
    when: "not arithmetic"
  }
  launches {
    kernel {
      entry: "sentinel_arithmetic"
      arguments: [ "x", "y", "count" ]
    }
    when: "arithmetic"
  }
  reference {
    steps {
      kernel {
        entry: "sentinel_stream"
        arguments: [ "x", "y", "count" ]
      }
      when: "not arithmetic"
    }
    steps {
      kernel {
        entry: "sentinel_arithmetic"
        arguments: [ "x", "y", "count" ]
      }
      when: "arithmetic"
    }
  }
  tolerance { atol: 0 rtol: 0 }
)pb";

}  // namespace

absl::StatusOr<std::vector<SentinelKernel>> SentinelKernels(DeviceKind kind) {
  const bool is_cuda = kind == DeviceKind::kCuda;
  ASSIGN_OR_RETURN(tunefarm::v1::Kernel kernel,
                   ParseKernelText(is_cuda ? kCudaDefinition : kHostDefinition, "sentinel.pbtxt"));
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
