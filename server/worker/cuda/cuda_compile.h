// What NVRTC is told for a config; apart from the backend so that tests can see it. Pure.
#pragma once

#include "absl/status/statusor.h"
#include "server/worker/backend.h"
#include "server/worker/cuda/nvrtc.h"

namespace tunefarm::cuda {

enum class Target { kCubin, kPtx };

// "sm_90a" for a definition that asks for the architecture-specific target, else "sm_90"; of PTX "compute_90a" and
// "compute_90".
std::string ArchitectureOf(const PreparedKernel& kernel, Target target = Target::kCubin);

absl::StatusOr<NvrtcInput> PlanCompile(const PreparedKernel& kernel, const Config& config,
                                       const std::vector<std::string>& include_directories, int nvrtc_major,
                                       Target target = Target::kCubin);

}  // namespace tunefarm::cuda
