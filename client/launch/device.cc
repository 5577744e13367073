#include "client/launch/device.h"

#include <sched.h>

#include <cstdio>
#include <memory>
#include <string_view>

#include "client/launch/failure.h"

namespace tunefarm::launch {

DeviceProperties ReadCudaDevice(const cuda::Driver& driver, cuda::Device device) {
  const auto attribute = [&](cuda::DeviceAttribute which) -> int64_t {
    int value = 0;
    return driver.cuDeviceGetAttribute(&value, which, device) == cuda::kSuccess ? value : 0;
  };
  DeviceProperties properties;
  char name[257] = {};
  (void)driver.cuDeviceGetName(name, sizeof(name) - 1, device);
  properties.name = name;
  // "NVIDIA A100-SXM4-40GB MIG 1g.5gb".
  const size_t mig = properties.name.find(" MIG ");
  if (mig != std::string::npos) properties.name.resize(mig);
  size_t bytes = 0;
  (void)driver.cuDeviceTotalMem(&bytes, device);
  int64_t* const values = properties.values;
  values[package::kComputeCapability] =
      10 * attribute(cuda::kComputeCapabilityMajor) + attribute(cuda::kComputeCapabilityMinor);
  values[package::kSmCount] = attribute(cuda::kMultiprocessorCount);
  values[package::kRegistersPerSm] = attribute(cuda::kMaxRegistersPerMultiprocessor);
  values[package::kRegistersPerBlock] = attribute(cuda::kMaxRegistersPerBlock);
  values[package::kSharedBytesPerSm] = attribute(cuda::kMaxSharedPerMultiprocessor);
  values[package::kSharedBytesPerBlock] = attribute(cuda::kMaxSharedPerBlock);
  values[package::kSharedBytesPerBlockOptin] = attribute(cuda::kMaxSharedPerBlockOptin);
  values[package::kReservedSharedBytesPerBlock] = attribute(cuda::kReservedSharedPerBlock);
  values[package::kThreadsPerSm] = attribute(cuda::kMaxThreadsPerMultiprocessor);
  values[package::kThreadsPerBlock] = attribute(cuda::kMaxThreadsPerBlock);
  values[package::kWarpSize] = attribute(cuda::kWarpSizeAttribute);
  values[package::kBlocksPerSm] = attribute(cuda::kMaxBlocksPerMultiprocessor);
  values[package::kL2Bytes] = attribute(cuda::kL2CacheSize);
  values[package::kMemoryGib] = static_cast<int64_t>((uint64_t{bytes} + (uint64_t{1} << 29)) >> 30);
  values[package::kGridMaxX] = attribute(cuda::kMaxGridDimX);
  values[package::kGridMaxY] = attribute(cuda::kMaxGridDimY);
  values[package::kGridMaxZ] = attribute(cuda::kMaxGridDimZ);
  values[package::kBlockMaxX] = attribute(cuda::kMaxBlockDimX);
  values[package::kBlockMaxY] = attribute(cuda::kMaxBlockDimY);
  values[package::kBlockMaxZ] = attribute(cuda::kMaxBlockDimZ);
  return properties;
}

DeviceProperties ReadCpu() {
  constexpr size_t kNameBytesMax = 128;
  DeviceProperties properties;
  properties.name = "CPU";
  cpu_set_t cores;
  properties.values[package::kSmCount] = sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 1;
  for (const std::string_view field : {"model name", "Model", "Hardware"}) {
    const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen("/proc/cpuinfo", "re"), std::fclose);
    char line[512];
    while (file != nullptr && std::fgets(line, sizeof(line), file.get()) != nullptr) {
      const std::string_view text(line);
      const size_t colon = text.find(':');
      if (text.substr(0, field.size()) != field || colon == std::string_view::npos) continue;
      const size_t value = text.find_first_not_of(" \t", colon + 1);
      if (value == std::string_view::npos || text[value] == '\n') continue;
      properties.name = text.substr(value, text.find('\n') - value).substr(0, kNameBytesMax);
      return properties;
    }
  }
  return properties;
}

LoadsInCaptures::LoadsInCaptures(const cuda::Driver& driver) : driver_(driver) {
  is_set_ = driver_.cuThreadExchangeStreamCaptureMode(&mode_) == cuda::kSuccess;
}

LoadsInCaptures::~LoadsInCaptures() {
  if (is_set_) (void)driver_.cuThreadExchangeStreamCaptureMode(&mode_);
}

CurrentContext::~CurrentContext() {
  cuda::Context context = nullptr;
  if (pushed_) (void)driver_.cuCtxPopCurrent(&context);
}

tunefarm_status CurrentContext::Enter(int number, cuda::Device* device, tunefarm_error* error) {
  cuda::Context current = nullptr;
  const bool has_current = driver_.cuCtxGetCurrent(&current) == cuda::kSuccess && current != nullptr &&
                           driver_.cuCtxGetDevice(device) == cuda::kSuccess;
  if (number < 0) {
    if (has_current) return TUNEFARM_OK;
    return Fail(error, TUNEFARM_NO_DEVICE,
                "No CUDA context is current in this thread; make one current (cudaSetDevice and a call of the runtime, "
                "or cuCtxSetCurrent), or name a device in tunefarm_load_options.");
  }
  cuda::Device wanted = 0;
  if (driver_.cuDeviceGet(&wanted, number) != cuda::kSuccess) {
    int count = 0;
    (void)driver_.cuDeviceGetCount(&count);
    return Fail(error, TUNEFARM_INVALID_ARGUMENT, "There is no CUDA device %d; the driver shows %d.", number, count);
  }
  if (has_current && *device == wanted) return TUNEFARM_OK;
  *device = wanted;
  // Held until the process ends, as everything that is loaded in it.
  cuda::Context primary = nullptr;
  tunefarm_status status =
      driver_.Check(driver_.cuDevicePrimaryCtxRetain(&primary, wanted), error, "The device's context cannot be made");
  if (status != TUNEFARM_OK) return status;
  status = driver_.Check(driver_.cuCtxPushCurrent(primary), error, "The device's context cannot be made current");
  pushed_ = status == TUNEFARM_OK;
  return status;
}

}  // namespace tunefarm::launch
