#include "server/worker/cuda/outcome_of_cuda_error.h"

#include <cuda.h>

namespace tunefarm::cuda {
namespace {

struct Row {
  int error;
  v1::Outcome outcome;
  bool sticky;
};

// By number, so that errors newer than the oldest toolkit we build with have their row too.
constexpr Row kRows[] = {
    // The launch was refused.
    {CUDA_ERROR_INVALID_VALUE, v1::OUTCOME_INFEASIBLE_LAUNCH, false},
    {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, v1::OUTCOME_INFEASIBLE_LAUNCH, false},
    {CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, v1::OUTCOME_INFEASIBLE_LAUNCH, false},
    {CUDA_ERROR_INVALID_CLUSTER_SIZE, v1::OUTCOME_INFEASIBLE_LAUNCH, false},
    {CUDA_ERROR_NOT_SUPPORTED, v1::OUTCOME_INFEASIBLE_LAUNCH, false},
    {CUDA_ERROR_NOT_PERMITTED, v1::OUTCOME_INFEASIBLE_LAUNCH, false},
    {CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING, v1::OUTCOME_INFEASIBLE_LAUNCH, false},
    {CUDA_ERROR_OUT_OF_MEMORY, v1::OUTCOME_OUT_OF_MEMORY, false},
    // The binary is not for this device, or lacks something.
    {CUDA_ERROR_INVALID_IMAGE, v1::OUTCOME_LOAD_ERROR, false},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, v1::OUTCOME_LOAD_ERROR, false},
    {CUDA_ERROR_INVALID_PTX, v1::OUTCOME_LOAD_ERROR, false},
    {CUDA_ERROR_UNSUPPORTED_PTX_VERSION, v1::OUTCOME_LOAD_ERROR, false},
    {CUDA_ERROR_JIT_COMPILER_NOT_FOUND, v1::OUTCOME_LOAD_ERROR, false},
    {CUDA_ERROR_JIT_COMPILATION_DISABLED, v1::OUTCOME_LOAD_ERROR, false},
    {CUDA_ERROR_INVALID_SOURCE, v1::OUTCOME_LOAD_ERROR, false},
    {CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, v1::OUTCOME_LOAD_ERROR, false},
    {CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, v1::OUTCOME_LOAD_ERROR, false},
    {CUDA_ERROR_NOT_FOUND, v1::OUTCOME_LOAD_ERROR, false},
    {CUDA_ERROR_FUNCTION_NOT_LOADED, v1::OUTCOME_LOAD_ERROR, false},
    // The kernel broke the context.
    {CUDA_ERROR_ILLEGAL_ADDRESS, v1::OUTCOME_RUN_CRASH, true},
    {CUDA_ERROR_MISALIGNED_ADDRESS, v1::OUTCOME_RUN_CRASH, true},
    {CUDA_ERROR_INVALID_ADDRESS_SPACE, v1::OUTCOME_RUN_CRASH, true},
    {CUDA_ERROR_INVALID_PC, v1::OUTCOME_RUN_CRASH, true},
    {CUDA_ERROR_LAUNCH_FAILED, v1::OUTCOME_RUN_CRASH, true},
    {CUDA_ERROR_ASSERT, v1::OUTCOME_RUN_CRASH, true},
    {CUDA_ERROR_ILLEGAL_INSTRUCTION, v1::OUTCOME_RUN_CRASH, true},
    {CUDA_ERROR_HARDWARE_STACK_ERROR, v1::OUTCOME_RUN_CRASH, true},
    {CUDA_ERROR_LAUNCH_TIMEOUT, v1::OUTCOME_RUN_CRASH, true},
    {CUDA_ERROR_ECC_UNCORRECTABLE, v1::OUTCOME_RUN_CRASH, true},
    {721, v1::OUTCOME_RUN_CRASH, true},  // CUDA_ERROR_CONTAINED
    {CUDA_ERROR_EXTERNAL_DEVICE, v1::OUTCOME_RUN_CRASH, true},
    {CUDA_ERROR_NVLINK_UNCORRECTABLE, v1::OUTCOME_RUN_CRASH, true},
    // The machinery: nothing about the config, but no process can go on after these.
    {CUDA_ERROR_NOT_INITIALIZED, v1::OUTCOME_LOST, true},
    {CUDA_ERROR_DEINITIALIZED, v1::OUTCOME_LOST, true},
    {CUDA_ERROR_INVALID_CONTEXT, v1::OUTCOME_LOST, true},
    {CUDA_ERROR_CONTEXT_IS_DESTROYED, v1::OUTCOME_LOST, true},
    {CUDA_ERROR_MPS_CLIENT_TERMINATED, v1::OUTCOME_LOST, true},
    {CUDA_ERROR_SYSTEM_NOT_READY, v1::OUTCOME_LOST, true},
    {CUDA_ERROR_UNKNOWN, v1::OUTCOME_LOST, true},
};

}  // namespace

ErrorMeaning MeaningOf(int error, CallKind kind) {
  for (const Row& row : kRows) {
    if (row.error != error) continue;
    // A refused launch or load is the config's doing only where its launch or its binary was at stake. Sticky errors
    // surface in whatever call comes next, so they mean the same everywhere.
    const bool refused = row.outcome == v1::OUTCOME_INFEASIBLE_LAUNCH || row.outcome == v1::OUTCOME_LOAD_ERROR;
    if (!refused) return {row.outcome, row.sticky};
    if (kind == CallKind::kLoad) return {v1::OUTCOME_LOAD_ERROR, false};
    if (kind == CallKind::kLaunch) return {row.outcome, false};
    return {v1::OUTCOME_LOST, false};
  }
  return {v1::OUTCOME_LOST, false};
}

}  // namespace tunefarm::cuda
