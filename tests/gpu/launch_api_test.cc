// What the launch library declares by itself of cuda.h is what cuda.h says.
#include <cuda.h>
#include <gtest/gtest.h>

#include <type_traits>

#include "client/launch/cuda_driver.h"

namespace tunefarm::launch::cuda {
namespace {

// Of two enumerations.
constexpr bool Same(int ours, int theirs) { return ours == theirs; }

static_assert(Same(kSuccess, CUDA_SUCCESS) && Same(kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY));
static_assert(Same(kNotInitialized, CUDA_ERROR_NOT_INITIALIZED) && Same(kDeinitialized, CUDA_ERROR_DEINITIALIZED));
static_assert(Same(kNoDevice, CUDA_ERROR_NO_DEVICE) && Same(kInvalidDevice, CUDA_ERROR_INVALID_DEVICE));
static_assert(Same(kInvalidImage, CUDA_ERROR_INVALID_IMAGE) && Same(kInvalidContext, CUDA_ERROR_INVALID_CONTEXT));
static_assert(Same(kNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU) && Same(kNotFound, CUDA_ERROR_NOT_FOUND));
static_assert(Same(kUnsupportedPtxVersion, CUDA_ERROR_UNSUPPORTED_PTX_VERSION));
static_assert(Same(kContextIsDestroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED));

static_assert(Same(kMaxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
static_assert(Same(kMaxBlockDimX, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X));
static_assert(Same(kMaxBlockDimZ, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z));
static_assert(Same(kMaxGridDimX, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X));
static_assert(Same(kMaxGridDimZ, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z));
static_assert(Same(kMaxSharedPerBlock, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK));
static_assert(Same(kWarpSizeAttribute, CU_DEVICE_ATTRIBUTE_WARP_SIZE));
static_assert(Same(kMaxRegistersPerBlock, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK));
static_assert(Same(kMultiprocessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
static_assert(Same(kL2CacheSize, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE));
static_assert(Same(kMaxThreadsPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR));
static_assert(Same(kComputeCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
static_assert(Same(kComputeCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
static_assert(Same(kMaxSharedPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR));
static_assert(Same(kMaxRegistersPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR));
static_assert(Same(kMaxSharedPerBlockOptin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
static_assert(Same(kMaxBlocksPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR));
static_assert(Same(kReservedSharedPerBlock, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK));

static_assert(Same(kSharedSizeBytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES) &&
              Same(kNumRegs, CU_FUNC_ATTRIBUTE_NUM_REGS));
static_assert(Same(kMaxDynamicSharedSizeBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES));
static_assert(Same(kPreferredSharedCarveout, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT));
static_assert(Same(kNonPortableClusterAllowed, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED));

static_assert(Same(kCaptureNone, CU_STREAM_CAPTURE_STATUS_NONE) &&
              Same(kCaptureRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED));
static_assert(sizeof(CaptureStatus) == sizeof(CUstreamCaptureStatus) &&
              sizeof(CaptureMode) == sizeof(CUstreamCaptureMode));
static_assert(sizeof(LaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(offsetof(LaunchAttribute, value) == offsetof(CUlaunchAttribute, value));
static_assert(sizeof(LaunchConfig) == sizeof(CUlaunchConfig));
static_assert(offsetof(LaunchConfig, blockDimX) == offsetof(CUlaunchConfig, blockDimX));
static_assert(offsetof(LaunchConfig, sharedMemBytes) == offsetof(CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(LaunchConfig, hStream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(LaunchConfig, attrs) == offsetof(CUlaunchConfig, attrs));
static_assert(offsetof(LaunchConfig, numAttrs) == offsetof(CUlaunchConfig, numAttrs));
static_assert(sizeof(TensorMap) == sizeof(CUtensorMap));
static_assert(std::is_same_v<DevicePointer, CUdeviceptr> && std::is_same_v<Device, CUdevice>);

TEST(LaunchApi, TheDriverStarts) {
  const Driver* driver = nullptr;
  tunefarm_error error = TUNEFARM_ERROR_INIT;
  ASSERT_EQ(GetDriver(&driver, &error), TUNEFARM_OK) << error.message;
  EXPECT_GE(driver->version, kApiVersion);
  EXPECT_STREQ(driver->ErrorName(CUDA_ERROR_ILLEGAL_ADDRESS), "CUDA_ERROR_ILLEGAL_ADDRESS");
}

}  // namespace
}  // namespace tunefarm::launch::cuda
