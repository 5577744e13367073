// The GPU that a run worker owns: driver, primary context, one stream, and what the device is.
//
// One thread; the context is current on it. The context lives until the process ends: tearing it down could hang after
// a kernel's fault, and the driver does it anyway.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/worker/cuda/driver.h"

namespace tunefarm::cuda {

class GpuContext {
 public:
  // By UUID ("GPU-..."); the first device if empty. FailedPrecondition with one sentence.
  static absl::StatusOr<std::unique_ptr<GpuContext>> Open(const std::string& uuid);

  const Driver& driver() const { return *driver_; }
  CUstream stream() const { return stream_; }
  const std::string& uuid() const { return uuid_; }
  int compute_capability() const { return compute_capability_; }  // times ten
  int sm_count() const { return sm_count_; }
  int64_t l2_bytes() const { return l2_bytes_; }
  int shared_bytes_per_block_optin() const { return shared_bytes_per_block_optin_; }

  Failure Synchronize(std::string_view what) const;
  // The same for everything that is at work in the context, whatever its stream.
  Failure SynchronizeAll(std::string_view what) const;
  // Of device memory now. `total` may be null.
  Failure FreeBytes(uint64_t* free, uint64_t* total = nullptr) const;
  Failure CopyToHost(CUdeviceptr from, void* to, size_t bytes) const;          // waits
  Failure CopyToDevice(const void* from, CUdeviceptr to, size_t bytes) const;  // waits

 private:
  GpuContext() = default;

  std::unique_ptr<Driver> driver_;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  std::string uuid_;
  int compute_capability_ = 0, sm_count_ = 0, shared_bytes_per_block_optin_ = 0;
  int64_t l2_bytes_ = 0;
};

// Device memory between two guard zones. Move-only; freed with the object. Contents are not set.
class GuardedBuffer {
 public:
  GuardedBuffer() = default;
  GuardedBuffer(GuardedBuffer&& other) noexcept { *this = std::move(other); }
  GuardedBuffer& operator=(GuardedBuffer&& other) noexcept;
  ~GuardedBuffer();

  // OUT_OF_MEMORY with both numbers when it cannot fit.
  static Failure Allocate(const GpuContext& gpu, uint64_t bytes, GuardedBuffer* buffer);
  // With its guards.
  static uint64_t FootprintBytes(uint64_t bytes);

  bool empty() const { return base_ == 0; }
  CUdeviceptr data() const;
  uint64_t bytes() const { return bytes_; }
  CUdeviceptr guard_before() const { return base_; }
  CUdeviceptr guard_after() const { return data() + bytes_; }

 private:
  const GpuContext* gpu_ = nullptr;
  CUdeviceptr base_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace tunefarm::cuda
