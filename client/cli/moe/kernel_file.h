// The fused mixture-of-experts kernel of a user's vLLM or SGLang in place of that of kernels/fused_moe.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "tunefarm/v1/kernel.pb.h"

namespace tunefarm::cli {

// Makes the definition kernels/fused_moe launch the function fused_moe_kernel of `file`, a Python source that python3
// of PATH reads without running it. Its parameters are bound by name. Unlike the built-in kernel it is specialised on
// counts that depend on M, as the frameworks launch it. `kernel` is that definition with its sources; it changes only
// on success. Any thread; blocks for at most 20 s.
//
// NotFound if there is no such file, InvalidArgument with one sentence if its kernel cannot be used, FailedPrecondition
// without python3.
absl::Status UseKernelFile(const std::string& file, v1::Kernel* kernel);

}  // namespace tunefarm::cli
