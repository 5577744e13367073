#include "client/launch/cuda_driver.h"

#include <dlfcn.h>

#include "client/launch/failure.h"
#include "client/launch/load_lock.h"

namespace tunefarm::launch::cuda {
namespace {

// The last two are where containers and WSL mount the driver without telling ldconfig.
constexpr const char* kLibraryNames[] = {"libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1",
                                         "/usr/lib/wsl/lib/libcuda.so.1"};

using GetProcAddress = Result (*)(const char*, void**, int, uint64_t, int*);

tunefarm_status Open(Driver* driver, tunefarm_error* error) {
  void* library = nullptr;
  for (const char* name : kLibraryNames) {
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
  }
  if (library == nullptr) {
    return Fail(error, TUNEFARM_NO_DEVICE,
                "There is no NVIDIA driver: libcuda.so.1 is not found; a CUDA kernel needs a machine with an NVIDIA "
                "GPU.");
  }
  const auto get = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  const char* missing = get == nullptr ? "cuGetProcAddress_v2" : nullptr;
  const auto resolve = [&](const char* name, void** function) {
    if (missing != nullptr) return;
    int found = 1;
    if (get(name, function, kApiVersion, 0, &found) != kSuccess || found != 0 || *function == nullptr) missing = name;
  };
#define TUNEFARM_RESOLVE(function, parameters) resolve(#function, reinterpret_cast<void**>(&driver->function));
  TUNEFARM_LAUNCH_FUNCTIONS(TUNEFARM_RESOLVE)
#undef TUNEFARM_RESOLVE
  if (missing != nullptr) {
    return Fail(error, TUNEFARM_INCOMPATIBLE,
                "The NVIDIA driver is too old: it has no %s of CUDA %d.%d; install driver 550 or newer.", missing,
                kApiVersion / 1000, kApiVersion % 1000 / 10);
  }
  if (const Result result = driver->cuInit(0); result != kSuccess) {
    return Fail(error, TUNEFARM_NO_DEVICE, "The NVIDIA driver does not start: %s.", driver->ErrorName(result));
  }
  int count = 0;
  if (driver->cuDeviceGetCount(&count) != kSuccess || count == 0) {
    return Fail(error, TUNEFARM_NO_DEVICE, "The NVIDIA driver shows no device.");
  }
  (void)driver->cuDriverGetVersion(&driver->version);
  return TUNEFARM_OK;
}

}  // namespace

const char* Driver::ErrorName(Result result) const {
  const char* name = nullptr;
  return cuGetErrorName(result, &name) == kSuccess && name != nullptr ? name : "an unknown CUDA error";
}

tunefarm_status Driver::Check(Result result, tunefarm_error* error, const char* what, const char* name) const {
  switch (result) {
    case kSuccess:
      return TUNEFARM_OK;
    case kNotInitialized:
    case kInvalidContext:
    case kContextIsDestroyed:
      return Fail(error, TUNEFARM_NO_DEVICE,
                  "%s%s: %s; make a context of the kernel's device current in this thread (cuCtxSetCurrent, or "
                  "cudaSetDevice and a call of the runtime).",
                  what, name, ErrorName(result));
    case kDeinitialized:
      return Fail(error, TUNEFARM_NO_DEVICE, "%s%s: the NVIDIA driver is shut down, since the process ends.", what,
                  name);
    case kNoDevice:
      return Fail(error, TUNEFARM_NO_DEVICE, "%s%s: %s.", what, name, ErrorName(result));
    case kOutOfMemory:
      return Fail(error, TUNEFARM_OUT_OF_MEMORY, "%s%s: the device has no memory left.", what, name);
    default:
      return Fail(error, TUNEFARM_DEVICE_ERROR, "%s%s: %s.", what, name, ErrorName(result));
  }
}

tunefarm_status GetDriver(const Driver** driver, tunefarm_error* error) {
  // Never freed: kernels hold it until the process ends.
  static Driver* opened = nullptr;
  const LoadLock lock;
  if (opened == nullptr) {
    auto* const fresh = new Driver;
    const tunefarm_status status = Open(fresh, error);
    if (status != TUNEFARM_OK) {
      delete fresh;
      return status;
    }
    opened = fresh;
  }
  *driver = opened;
  return TUNEFARM_OK;
}

}  // namespace tunefarm::launch::cuda
