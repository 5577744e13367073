// libcuda, opened at run time: one binary serves machines with and without a GPU. Every function is resolved by
// cuGetProcAddress for the API version below and has the type that it had there; the names in cuda.h may be macros for
// newer ones, which older drivers lack.
//
// One thread. Driver is copied around by pointer and lives as long as its process: libcuda is never unloaded.
#pragma once

#include <cuda.h>

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/worker/cuda/outcome_of_cuda_error.h"
#include "server/worker/verify/failure.h"

namespace tunefarm::cuda {

using tunefarm::Failure;

inline constexpr int kApiVersion = 12040;

// X(function, parameters). Each is a member of Driver, called as in cuda.h.
#define TUNEFARM_CUDA_FUNCTIONS(X)                                                                                  \
  X(cuInit, (unsigned int))                                                                                         \
  X(cuDriverGetVersion, (int*))                                                                                     \
  X(cuGetErrorName, (CUresult, const char**))                                                                       \
  X(cuDeviceGetCount, (int*))                                                                                       \
  X(cuDeviceGet, (CUdevice*, int))                                                                                  \
  X(cuDeviceGetName, (char*, int, CUdevice))                                                                        \
  X(cuDeviceGetUuid, (CUuuid*, CUdevice))                                                                           \
  X(cuDeviceGetAttribute, (int*, CUdevice_attribute, CUdevice))                                                     \
  X(cuDeviceTotalMem, (size_t*, CUdevice))                                                                          \
  X(cuDevicePrimaryCtxRetain, (CUcontext*, CUdevice))                                                               \
  X(cuDevicePrimaryCtxRelease, (CUdevice))                                                                          \
  X(cuCtxSetCurrent, (CUcontext))                                                                                   \
  X(cuCtxSynchronize, (void))                                                                                       \
  X(cuMemGetInfo, (size_t*, size_t*))                                                                               \
  X(cuMemAlloc, (CUdeviceptr*, size_t))                                                                             \
  X(cuMemFree, (CUdeviceptr))                                                                                       \
  X(cuMemcpyHtoDAsync, (CUdeviceptr, const void*, size_t, CUstream))                                                \
  X(cuMemcpyDtoHAsync, (void*, CUdeviceptr, size_t, CUstream))                                                      \
  X(cuMemcpyDtoDAsync, (CUdeviceptr, CUdeviceptr, size_t, CUstream))                                                \
  X(cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t, CUstream))                                                \
  X(cuModuleLoadData, (CUmodule*, const void*))                                                                     \
  X(cuModuleUnload, (CUmodule))                                                                                     \
  X(cuModuleGetFunction, (CUfunction*, CUmodule, const char*))                                                      \
  X(cuModuleGetGlobal, (CUdeviceptr*, size_t*, CUmodule, const char*))                                              \
  X(cuFuncGetAttribute, (int*, CUfunction_attribute, CUfunction))                                                   \
  X(cuFuncSetAttribute, (CUfunction, CUfunction_attribute, int))                                                    \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor, (int*, CUfunction, int, size_t))                                   \
  X(cuLaunchKernelEx, (const CUlaunchConfig*, CUfunction, void**, void**))                                          \
  X(cuStreamCreate, (CUstream*, unsigned int))                                                                      \
  X(cuStreamSynchronize, (CUstream))                                                                                \
  X(cuEventCreate, (CUevent*, unsigned int))                                                                        \
  X(cuEventDestroy, (CUevent))                                                                                      \
  X(cuEventRecordWithFlags, (CUevent, CUstream, unsigned int))                                                      \
  X(cuEventElapsedTime, (float*, CUevent, CUevent))                                                                 \
  X(cuStreamBeginCapture, (CUstream, CUstreamCaptureMode))                                                          \
  X(cuStreamEndCapture, (CUstream, CUgraph*))                                                                       \
  X(cuGraphInstantiateWithFlags, (CUgraphExec*, CUgraph, unsigned long long))                                       \
  X(cuGraphLaunch, (CUgraphExec, CUstream))                                                                         \
  X(cuGraphExecDestroy, (CUgraphExec))                                                                              \
  X(cuGraphDestroy, (CUgraph))                                                                                      \
  X(cuTensorMapEncodeTiled,                                                                                         \
    (CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*, const cuuint32_t*, \
     const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill))

// cuda.h defines some of these names as macros; the members must have the plain ones.
#undef cuDeviceGetUuid
#undef cuDeviceTotalMem
#undef cuDevicePrimaryCtxRelease
#undef cuCtxSynchronize
#undef cuMemGetInfo
#undef cuMemAlloc
#undef cuMemFree
#undef cuMemcpyHtoDAsync
#undef cuMemcpyDtoHAsync
#undef cuMemcpyDtoDAsync
#undef cuMemsetD8Async
#undef cuModuleGetGlobal
#undef cuStreamSynchronize
#undef cuEventDestroy
#undef cuEventRecordWithFlags
#undef cuStreamBeginCapture
#undef cuStreamEndCapture
#undef cuGraphInstantiateWithFlags
#undef cuGraphLaunch
#undef cuGraphExecDestroy
#undef cuGraphDestroy
#undef cuEventElapsedTime
#undef cuLaunchKernelEx

class Driver {
 public:
  // Opens libcuda and resolves the table. Does not call cuInit. FailedPrecondition with one sentence when there is no
  // driver or it is older than the API version.
  static absl::StatusOr<std::unique_ptr<Driver>> Open();

#define TUNEFARM_DECLARE(function, parameters) CUresult(*function) parameters = nullptr;
  TUNEFARM_CUDA_FUNCTIONS(TUNEFARM_DECLARE)
#undef TUNEFARM_DECLARE

  // "CUDA_ERROR_ILLEGAL_ADDRESS".
  std::string ErrorName(CUresult error) const;

  // No failure for CUDA_SUCCESS; else the meaning of the error with "`what`: CUDA_ERROR_...". `what` begins a sentence.
  Failure Check(CUresult error, CallKind kind, std::string_view what) const;
  Failure Check(CUresult error, std::string_view what) const { return Check(error, CallKind::kMachinery, what); }

 private:
  Driver() = default;
};

// As drivers print it: "GPU-01234567-89ab-...".
std::string UuidText(const CUuuid& uuid, bool is_mig);

}  // namespace tunefarm::cuda
