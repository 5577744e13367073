// What a launch of a kernel in Triton is specialised on: the name that its compiled function has in a binary.
//
// "mm(*bf16,*bf16,i32:16,i32=1,i32,fp32)": the function, and for each argument its type as Triton calls it, with ":16"
// for an integer divisible by 16 and "=1" for one that is 1, unless the scalar has do_not_specialize. Buffers are
// always aligned. A tensor descriptor is "tensordesc<bf16[128,64]>", with its block. A function may respect less of it
// by its own do_not_specialize, which only Triton knows; so there may be more binaries than it needs, and never fewer.
//
// Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/definition/kernel_plan.h"

namespace tunefarm {

// Of a kernel step; `buffers` are all of the definition.
std::string TritonSignature(const StepPlan& step, const std::vector<BufferPlan>& buffers);

// What a binary must hold, sorted, each once: for the launches of a config and its prepare steps; or, `for_reference`,
// for all other steps, with the default config. These have a binary of their own, so that they do not depend on whether
// the launches of the default config compile. Fails with the error of an expression.
absl::StatusOr<std::vector<std::string>> TritonSignatures(const KernelPlan& plan, const ResolvedProblem& problem,
                                                          const Config& config, const DeviceClass& device,
                                                          bool for_reference = false);

}  // namespace tunefarm
