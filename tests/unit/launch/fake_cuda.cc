#include "tests/unit/launch/fake_cuda.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "client/launch/cuda_driver.h"

namespace tunefarm::launch::cuda {
namespace {

FakeCuda state;
thread_local CaptureMode capture_mode = CaptureMode{0};

// Handles are only compared with nullptr.
template <typename Handle>
Result Give(Handle* handle) {
  static int object;
  *handle = reinterpret_cast<Handle>(&object);
  return kSuccess;
}
template <typename Number>
Result Say(Number* number, Number value) {
  *number = value;
  return kSuccess;
}

Result cuInit(unsigned int) { return kSuccess; }
Result cuDriverGetVersion(int* version) { return Say(version, 13'000); }
Result cuGetErrorName(Result, const char** name) { return Say<const char*>(name, "FAKE_ERROR"); }
Result cuDeviceGetCount(int* count) { return Say(count, 1); }
Result cuDeviceGet(Device* device, int number) { return number == 0 ? Say(device, 0) : Result{kInvalidDevice}; }
Result cuDeviceGetName(char* name, int bytes, Device) {
  std::strncpy(name, "Fake", static_cast<size_t>(bytes));
  return kSuccess;
}
Result cuDeviceGetAttribute(int* value, int which, Device) {
  return Say(value, which == kComputeCapabilityMajor ? 9 : 0);
}
Result cuDeviceTotalMem(size_t* bytes, Device) { return Say(bytes, size_t{0}); }
Result cuDevicePrimaryCtxRetain(Context* context, Device) { return Give(context); }
Result cuCtxGetCurrent(Context* context) { return Give(context); }
Result cuCtxPushCurrent(Context) { return kSuccess; }
Result cuCtxPopCurrent(Context* context) { return Give(context); }
Result cuCtxGetDevice(Device* device) { return Say(device, 0); }
Result cuLibraryLoadData(Library* library, const void*, int*, void**, unsigned int, int*, void**, unsigned int) {
  ++state.loads;
  if (capture_mode != kCaptureRelaxed) ++state.unsafe_loads;
  return Give(library);
}
Result cuLibraryGetKernel(Kernel* kernel, Library, const char*) { return Give(kernel); }
Result cuLibraryGetGlobal(DevicePointer* address, size_t* size, Library, const char*) {
  *size = 0;
  return Say(address, DevicePointer{0});
}
Result cuKernelGetFunction(Function* function, Kernel) { return Give(function); }
Result cuKernelGetAttribute(int* value, int, Kernel, Device) { return Say(value, 0); }
Result cuKernelSetAttribute(int, int, Kernel, Device) { return kSuccess; }
Result cuFuncLoad(Function) { return kSuccess; }
Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Function, int, size_t) { return Say(blocks, 1); }
Result cuLaunchKernelEx(const LaunchConfig* config, Function, void**, void**) {
  state.grid = config->gridDimX;
  return kSuccess;
}
Result cuStreamIsCapturing(Stream, CaptureStatus* status) {
  ++state.capture_questions;
  return Say(status, static_cast<CaptureStatus>(state.capture_status.load()));
}
Result cuThreadExchangeStreamCaptureMode(CaptureMode* mode) {
  const CaptureMode before = capture_mode;
  capture_mode = *mode;
  return Say(mode, before);
}
Result cuMemcpyDtoDAsync(DevicePointer, DevicePointer, size_t, Stream) { return kSuccess; }
Result cuMemsetD8Async(DevicePointer, unsigned char, size_t, Stream) { return kSuccess; }
Result cuMemsetD16Async(DevicePointer, unsigned short, size_t, Stream) { return kSuccess; }
Result cuMemsetD32Async(DevicePointer, unsigned int, size_t, Stream) { return kSuccess; }
Result cuMemsetD2D32Async(DevicePointer, size_t, unsigned int, size_t, size_t, Stream) { return kSuccess; }
Result cuTensorMapEncodeTiled(TensorMap*, int, uint32_t, void*, const uint64_t*, const uint64_t*, const uint32_t*,
                              const uint32_t*, int, int, int, int) {
  return kSuccess;
}

struct Named {
  const char* name;
  void* function;
};
const Named kFunctions[] = {
#define TUNEFARM_NAMED(function, parameters) \
  {#function, reinterpret_cast<void*>(static_cast<Result(*) parameters>(&function))},
    TUNEFARM_LAUNCH_FUNCTIONS(TUNEFARM_NAMED)
#undef TUNEFARM_NAMED
};

}  // namespace

extern "C" {
Result cuGetProcAddress_v2(const char* name, void** function, int, uint64_t, int* found);
FakeCuda* TheFakeCuda();

Result cuGetProcAddress_v2(const char* name, void** function, int, uint64_t, int* found) {
  *found = 0;
#define TUNEFARM_OWN(known, parameters)                               \
  if (state.own.known != nullptr && std::strcmp(name, #known) == 0) { \
    return Say(function, reinterpret_cast<void*>(state.own.known));   \
  }
  TUNEFARM_LAUNCH_FUNCTIONS(TUNEFARM_OWN)
#undef TUNEFARM_OWN
  for (const Named& known : kFunctions) {
    if (std::strcmp(known.name, name) == 0) return Say(function, known.function);
  }
  return kNotFound;
}

FakeCuda* TheFakeCuda() { return &state; }
}

}  // namespace tunefarm::launch::cuda
