#include "server/worker/cuda/gpu_context.h"

#include <fmt/core.h>

#include <utility>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/worker/verify/poison.h"

namespace tunefarm::cuda {
namespace {

absl::Status ToStatus(const Failure& failure) {
  return failure ? FailedPrecondition("{}", failure.message) : absl::OkStatus();
}

absl::StatusOr<CUdevice> FindDevice(const Driver& driver, const std::string& uuid) {
  int count = 0;
  RETURN_IF_ERROR(ToStatus(driver.Check(driver.cuDeviceGetCount(&count), "The GPUs could not be counted")));
  for (int i = 0; i < count; ++i) {
    CUdevice device = 0;
    CUuuid found = {};
    RETURN_IF_ERROR(ToStatus(driver.Check(driver.cuDeviceGet(&device, i), "A GPU could not be opened")));
    RETURN_IF_ERROR(ToStatus(driver.Check(driver.cuDeviceGetUuid(&found, device), "A GPU's UUID could not be read")));
    if (uuid.empty() || UuidText(found, false) == uuid || UuidText(found, true) == uuid) return device;
  }
  return FailedPrecondition("no GPU of the {} visible ones has the UUID '{}'", count, uuid);
}

}  // namespace

absl::StatusOr<std::unique_ptr<GpuContext>> GpuContext::Open(const std::string& uuid) {
  std::unique_ptr<GpuContext> gpu(new GpuContext);
  ASSIGN_OR_RETURN(gpu->driver_, Driver::Open());
  const Driver& driver = *gpu->driver_;
  RETURN_IF_ERROR(ToStatus(driver.Check(driver.cuInit(0), "The NVIDIA driver could not be started")));
  ASSIGN_OR_RETURN(const CUdevice device, FindDevice(driver, uuid));
  CUuuid found = {};
  RETURN_IF_ERROR(ToStatus(driver.Check(driver.cuDeviceGetUuid(&found, device), "The GPU's UUID could not be read")));
  gpu->uuid_ = uuid.empty() ? UuidText(found, false) : uuid;
  RETURN_IF_ERROR(ToStatus(
      driver.Check(driver.cuDevicePrimaryCtxRetain(&gpu->context_, device), "The GPU's context could not be made")));
  RETURN_IF_ERROR(ToStatus(driver.Check(driver.cuCtxSetCurrent(gpu->context_), "The GPU's context could not be used")));
  RETURN_IF_ERROR(ToStatus(
      driver.Check(driver.cuStreamCreate(&gpu->stream_, CU_STREAM_NON_BLOCKING), "A stream could not be made")));
  const auto attribute = [&](CUdevice_attribute which) {
    int value = 0;
    return driver.cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
  };
  gpu->compute_capability_ = 10 * attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                             attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  gpu->sm_count_ = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  gpu->l2_bytes_ = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  gpu->shared_bytes_per_block_optin_ = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  return gpu;
}

Failure GpuContext::Synchronize(std::string_view what) const {
  return driver_->Check(driver_->cuStreamSynchronize(stream_), CallKind::kLaunch, what);
}

Failure GpuContext::SynchronizeAll(std::string_view what) const {
  return driver_->Check(driver_->cuCtxSynchronize(), CallKind::kLaunch, what);
}

Failure GpuContext::FreeBytes(uint64_t* free, uint64_t* total) const {
  size_t free_bytes = 0, total_bytes = 0;
  TUNEFARM_RETURN_IF_FAILED(
      driver_->Check(driver_->cuMemGetInfo(&free_bytes, &total_bytes), "The free device memory could not be read"));
  *free = free_bytes;
  if (total != nullptr) *total = total_bytes;
  return {};
}

Failure GpuContext::CopyToDevice(const void* from, CUdeviceptr to, size_t bytes) const {
  TUNEFARM_RETURN_IF_FAILED(
      driver_->Check(driver_->cuMemcpyHtoDAsync(to, from, bytes, stream_), "A copy to the device failed"));
  return Synchronize("A copy to the device failed");
}

Failure GpuContext::CopyToHost(CUdeviceptr from, void* to, size_t bytes) const {
  TUNEFARM_RETURN_IF_FAILED(
      driver_->Check(driver_->cuMemcpyDtoHAsync(to, from, bytes, stream_), "A copy from the device failed"));
  return Synchronize("A copy from the device failed");
}

GuardedBuffer& GuardedBuffer::operator=(GuardedBuffer&& other) noexcept {
  std::swap(gpu_, other.gpu_);
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

GuardedBuffer::~GuardedBuffer() {
  // Fails after a sticky error, when the process is about to end anyway.
  if (base_ != 0) (void)gpu_->driver().cuMemFree(base_);
}

uint64_t GuardedBuffer::FootprintBytes(uint64_t bytes) { return 2 * kGuardBytes + bytes; }

CUdeviceptr GuardedBuffer::data() const { return base_ + kGuardBytes; }

Failure GuardedBuffer::Allocate(const GpuContext& gpu, uint64_t bytes, GuardedBuffer* buffer) {
  GuardedBuffer made;
  made.gpu_ = &gpu;
  made.bytes_ = bytes;
  uint64_t free = 0;
  TUNEFARM_RETURN_IF_FAILED(gpu.FreeBytes(&free));
  CUresult error = CUDA_ERROR_OUT_OF_MEMORY;
  if (bytes < free) error = gpu.driver().cuMemAlloc(&made.base_, FootprintBytes(bytes));
  if (error == CUDA_ERROR_OUT_OF_MEMORY) {
    return {v1::OUTCOME_OUT_OF_MEMORY,
            fmt::format("A buffer of {:.0f} MiB does not fit into the {:.0f} MiB of free device memory.",
                        static_cast<double>(bytes) / (1 << 20), static_cast<double>(free) / (1 << 20))};
  }
  TUNEFARM_RETURN_IF_FAILED(gpu.driver().Check(error, "Device memory could not be allocated"));
  *buffer = std::move(made);
  return {};
}

}  // namespace tunefarm::cuda
