// What a compiled binary says about the entries of its definition, without loading it.
//
// Pure; any thread. The binary is a worker's, so everything in it is checked.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "server/definition/kernel_plan.h"

namespace tunefarm {

// The first entry of the definition that the config's binary lacks, or that takes another number of arguments than a
// step passes (known of CUDA kernels), in one sentence; empty if there is none, also for a binary that is no 64-bit ELF
// file.
// Steps whose `when` is false for the config are left out. `symbols`: entries as the definition writes them, to their
// names in the binary.
std::string WhyEntriesDoNotFit(const KernelPlan& plan, const ResolvedProblem& problem, const Config& config,
                               const DeviceClass& device, std::string_view binary,
                               const std::map<std::string, std::string>& symbols);

// Exposed for tests. The number of parameters of a kernel of a cubin; -1: not known.
int ParametersOf(std::string_view cubin, std::string_view symbol);

}  // namespace tunefarm
