// A definition that uses most of what there is, as text, for tests to change.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "server/base/status.h"
#include "server/definition/kernel_plan.h"

namespace tunefarm {

inline constexpr std::string_view kSampleText = R"kernel(
display_name: "sample"
description: "y = a * x, in tiles"
language: LANGUAGE_CUDA
sources { path: "sample.cu" content: "__global__ void scale();" }
sources { path: "z.cuh" content: "#pragma once" }
sources { path: "a.cuh" content: "#pragma once" }
compile_options: ["--fmad=true", "-DEXTRA=1"]
dims { name: "N" default_value { int_value: 4096 } max: 1048576 lookup: LOOKUP_RULE_LOG }
dims { name: "K" bind: BIND_COMPILE }
dims { name: "dtype" type: VALUE_TYPE_STRING default_value { string_value: "f32" }
       values { string_value: "f32" } values { string_value: "bf16" } }
dims { name: "causal" type: VALUE_TYPE_BOOL default_value { bool_value: false } }
parameters { name: "BLOCK" powers_of_two { first: 32 last: 1024 } default_value { int_value: 128 } description: "Threads." }
parameters { name: "STAGES" range { first: 1 last: 4 } }
parameters { name: "SCALE" values { doubles: [0.5, 2.0] } }
parameters { name: "ORDER" values { strings: ["row", "2.5"] } }
parameters { name: "VECTOR" values { bools: [false, true] } bind: BIND_RUN }
derived { name: "element_bytes" expression: "2 if dtype == 'bf16' else 4" bind: BIND_COMPILE }
derived { name: "tile" expression: "BLOCK * STAGES" }
constraints { expression: "tile <= 2048" reason: "small tiles" }
arguments { name: "x" buffer { data_type_dim: "dtype" length: "N * K" access: ACCESS_IN } }
arguments { name: "y" buffer { data_type_dim: "dtype" length: "N * K" access: ACCESS_OUT } }
arguments { name: "sum" buffer { data_type: DATA_TYPE_I64 length: "N" access: ACCESS_INOUT restore: RESTORE_PER_SAMPLE } }
arguments { name: "work" buffer { data_type: DATA_TYPE_U8 length: "tile * device.sm_count" access: ACCESS_SCRATCH init: INIT_ZERO } }
arguments { name: "n" scalar { data_type: DATA_TYPE_I32 value: "N" } }
arguments { name: "scale" scalar { data_type: DATA_TYPE_F32 value: "SCALE" } }
arguments { name: "resident" scalar { data_type: DATA_TYPE_U32 value: "kernel.max_active_blocks * device.sm_count" } }
arguments { name: "table" constant_symbol { symbol: "table" data_type: DATA_TYPE_F32 length: "16" fill { iota {} } } }
arguments { name: "map" tensor_map { buffer: "x" dims: ["K", "N"] byte_strides: ["K * element_bytes"] box: ["16", "STAGES"]
                                     swizzle: "'128B' if STAGES > 2 else 'none'" } }
prepare { step { name: "zero" memset { buffer: "work" } } }
prepare { step { kernel { entry: "relayout" grid: "1" block: "BLOCK" arguments: ["x", "work"] } } per: PREPARE_PER_CONFIG }
launches { name: "clear" memset { buffer: "y" byte: 7 } when: "VECTOR" untimed: true }
launches { kernel { entry: "scale<BLOCK>" grid: ["ceil_div(N, tile)", "2"] block: ["BLOCK", "1", "1"]
                    dynamic_shared_bytes: "tile * 64" arguments: ["x", "y", "n", "scale", "map"] } }
launches { name: "finish" kernel { entry: "finish" grid: "kernel.max_active_blocks * device.sm_count" block: "64"
                    arguments: ["sum", "resident"] } when: "STAGES > 1" }
reference { steps { kernel { entry: "scale_reference" grid: "ceil_div(N, 256)" block: "256" arguments: ["x", "y", "n"] } } }
tolerance { atol: 0.001 conditional { when: "dtype == 'bf16'" tolerance { rtol: 0.01 row_norm_bound: 0.1 row_length: "K" } } }
baseline { steps { library_op { op: LIBRARY_OP_KIND_GEMM a: "x" b: "x" c: "y" m: "N" n: "K" k: "K" } } label: "cuBLAS" }
flops: "N * K"
bytes: "2 * N * K * element_bytes"
resources { registers_per_thread: "32 * STAGES" static_shared_bytes: "1024" min_compute_capability: 80 }
)kernel";

// The sample with the first `from` replaced by `to`; `from` must be there.
inline std::string SampleWith(std::string_view from, std::string_view to) {
  std::string text(kSampleText);
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << "the sample has no '" << from << "'";
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

inline absl::StatusOr<std::shared_ptr<const KernelPlan>> CompileText(std::string_view text) {
  auto kernel = ParseKernelText(text, "kernel.pbtxt");
  if (!kernel.ok()) return kernel.status();
  return KernelPlan::Compile(*kernel);
}

inline std::shared_ptr<const KernelPlan> SamplePlan(std::string_view from = "", std::string_view to = "") {
  auto plan = CompileText(from.empty() ? std::string(kSampleText) : SampleWith(from, to));
  EXPECT_TRUE(plan.ok()) << MessageOf(plan.status());
  return plan.ok() ? *plan : nullptr;
}

// N = 4096, K = 64, f32.
inline ResolvedProblem SampleProblem(const KernelPlan& plan) {
  v1::Problem problem;
  (*problem.mutable_dims())["K"].set_int_value(64);
  auto resolved = plan.ResolveProblem(problem);
  EXPECT_TRUE(resolved.ok()) << MessageOf(resolved.status());
  return resolved.ok() ? *resolved : ResolvedProblem();
}

inline std::string Message(const absl::Status& status) { return std::string(MessageOf(status)); }

}  // namespace tunefarm
