// libcuda, opened at run time, with the few of its declarations that are needed: the library is built without a CUDA
// Toolkit. tests/gpu/launch_api_test.cc compares them with cuda.h.
//
// Threads: any. libcuda is never unloaded, and nothing here runs when the process ends.
#pragma once

#include <cstddef>
#include <cstdint>

#include "client/launch/include/tunefarm/launch.h"

namespace tunefarm::launch::cuda {

inline constexpr int kApiVersion = 12040;

using Result = int;
using Device = int;
using DevicePointer = unsigned long long;
using Context = struct OpaqueContext*;
using Library = struct OpaqueLibrary*;
using Kernel = struct OpaqueKernel*;      // of a library, for any context
using Function = struct OpaqueFunction*;  // where one is taken, a Kernel may be given, cast
using Stream = struct OpaqueStream*;

enum : Result {
  kSuccess = 0,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeinitialized = 4,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoBinaryForGpu = 209,
  kUnsupportedPtxVersion = 222,
  kNotFound = 500,
  kContextIsDestroyed = 709,
};

enum DeviceAttribute : int {
  kMaxThreadsPerBlock = 1,
  kMaxBlockDimX = 2,
  kMaxBlockDimY = 3,
  kMaxBlockDimZ = 4,
  kMaxGridDimX = 5,
  kMaxGridDimY = 6,
  kMaxGridDimZ = 7,
  kMaxSharedPerBlock = 8,
  kWarpSizeAttribute = 10,
  kMaxRegistersPerBlock = 12,
  kMultiprocessorCount = 16,
  kL2CacheSize = 38,
  kMaxThreadsPerMultiprocessor = 39,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kMaxSharedPerMultiprocessor = 81,
  kMaxRegistersPerMultiprocessor = 82,
  kMaxSharedPerBlockOptin = 97,
  kMaxBlocksPerMultiprocessor = 106,
  kReservedSharedPerBlock = 111,
};

enum CaptureStatus : int { kCaptureNone = 0 };
enum CaptureMode : int { kCaptureRelaxed = 2 };

enum FunctionAttribute : int {
  kSharedSizeBytes = 1,
  kNumRegs = 4,
  kMaxDynamicSharedSizeBytes = 8,
  kPreferredSharedCarveout = 9,
  kNonPortableClusterAllowed = 14,
};

struct LaunchAttribute {
  int id;
  char padding[4];
  char value[64];
};
static_assert(sizeof(LaunchAttribute) == 72 && offsetof(LaunchAttribute, value) == 8);

struct LaunchConfig {
  unsigned int gridDimX, gridDimY, gridDimZ;
  unsigned int blockDimX, blockDimY, blockDimZ;
  unsigned int sharedMemBytes;
  Stream hStream;
  LaunchAttribute* attrs;
  unsigned int numAttrs;
};
static_assert(sizeof(LaunchConfig) == 56 && offsetof(LaunchConfig, hStream) == 32);

struct alignas(128) TensorMap {
  uint64_t opaque[16];
};

// X(function, parameters), as in cuda.h.
#define TUNEFARM_LAUNCH_FUNCTIONS(X)                                                                              \
  X(cuInit, (unsigned int))                                                                                       \
  X(cuDriverGetVersion, (int*))                                                                                   \
  X(cuGetErrorName, (Result, const char**))                                                                       \
  X(cuDeviceGetCount, (int*))                                                                                     \
  X(cuDeviceGet, (Device*, int))                                                                                  \
  X(cuDeviceGetName, (char*, int, Device))                                                                        \
  X(cuDeviceGetAttribute, (int*, int, Device))                                                                    \
  X(cuDeviceTotalMem, (size_t*, Device))                                                                          \
  X(cuDevicePrimaryCtxRetain, (Context*, Device))                                                                 \
  X(cuCtxGetCurrent, (Context*))                                                                                  \
  X(cuCtxPushCurrent, (Context))                                                                                  \
  X(cuCtxPopCurrent, (Context*))                                                                                  \
  X(cuCtxGetDevice, (Device*))                                                                                    \
  X(cuLibraryLoadData, (Library*, const void*, int*, void**, unsigned int, int*, void**, unsigned int))           \
  X(cuLibraryGetKernel, (Kernel*, Library, const char*))                                                          \
  X(cuLibraryGetGlobal, (DevicePointer*, size_t*, Library, const char*))                                          \
  X(cuKernelGetFunction, (Function*, Kernel))                                                                     \
  X(cuKernelGetAttribute, (int*, int, Kernel, Device))                                                            \
  X(cuKernelSetAttribute, (int, int, Kernel, Device))                                                             \
  X(cuFuncLoad, (Function))                                                                                       \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor, (int*, Function, int, size_t))                                   \
  X(cuLaunchKernelEx, (const LaunchConfig*, Function, void**, void**))                                            \
  X(cuStreamIsCapturing, (Stream, CaptureStatus*))                                                                \
  X(cuThreadExchangeStreamCaptureMode, (CaptureMode*))                                                            \
  X(cuMemcpyDtoDAsync, (DevicePointer, DevicePointer, size_t, Stream))                                            \
  X(cuMemsetD8Async, (DevicePointer, unsigned char, size_t, Stream))                                              \
  X(cuMemsetD16Async, (DevicePointer, unsigned short, size_t, Stream))                                            \
  X(cuMemsetD32Async, (DevicePointer, unsigned int, size_t, Stream))                                              \
  X(cuMemsetD2D32Async, (DevicePointer, size_t, unsigned int, size_t, size_t, Stream))                            \
  X(cuTensorMapEncodeTiled, (TensorMap*, int, uint32_t, void*, const uint64_t*, const uint64_t*, const uint32_t*, \
                             const uint32_t*, int, int, int, int))

struct Driver {
#define TUNEFARM_DECLARE(function, parameters) Result(*function) parameters = nullptr;
  TUNEFARM_LAUNCH_FUNCTIONS(TUNEFARM_DECLARE)
#undef TUNEFARM_DECLARE
  int version = 0;  // 13000 for 13.0

  // "CUDA_ERROR_ILLEGAL_ADDRESS".
  const char* ErrorName(Result result) const;
  // OK, or the status that goes with the result, with the sentence "`what`: NAME."
  tunefarm_status Check(Result result, tunefarm_error* error, const char* what, const char* name = "") const;
};

// The driver of this process, started at the first call. NO_DEVICE or INCOMPATIBLE.
tunefarm_status GetDriver(const Driver** driver, tunefarm_error* error);

}  // namespace tunefarm::launch::cuda
