// The binary of a kernel in Triton, which a sandboxed interpreter has written, and how its functions are launched. Not
// a byte of it is trusted.
//
// Pure; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/definition/kernel_plan.h"
#include "tunefarm/worker/v1/worker.pb.h"

namespace tunefarm {

// By signature; every field within its limits (TritonKernel in worker.proto). InvalidArgument with the reason.
absl::StatusOr<std::map<std::string, tunefarm::worker::v1::TritonKernel>> ParseTritonBinary(std::string_view bytes);

// Bytes of device memory that a launch of `programs` needs beside its arguments, and its alignment; 0 bytes: none.
struct TritonScratch {
  uint64_t bytes = 0;
  uint64_t alignment = 1;
};
TritonScratch GlobalScratchOf(const tunefarm::worker::v1::TritonKernel& kernel, const StepPlan& step);
TritonScratch ProfileScratchOf(const tunefarm::worker::v1::TritonKernel& kernel, const StepPlan& step);

// How many parameters its launches pass.
int PassedParameters(const tunefarm::worker::v1::TritonKernel& kernel);

// Fills in what the compiled function says of a step that was evaluated: its entry becomes the signature, and tensor
// descriptors among its arguments become tensor maps, pointers and scalars. The addresses are those of the scratch
// memory, 0 for none. InvalidArgument if the function takes an argument that the step has not, or has as something
// else.
absl::Status CompleteTritonStep(const tunefarm::worker::v1::TritonKernel& kernel, uint64_t global_scratch,
                                uint64_t profile_scratch, StepPlan* step);

}  // namespace tunefarm
