#include "server/worker/cuda/nvml.h"

#include <dlfcn.h>

#include <string_view>

namespace tunefarm::cuda {

// The ABI that NVML has kept since 2013; its header is not part of every toolkit.
struct Nvml::Functions {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*driver_version)(char*, unsigned int) = nullptr;
  int (*handle_by_uuid)(const char*, void**) = nullptr;
  int (*clock)(void*, int, unsigned int*) = nullptr;
  int (*max_clock)(void*, int, unsigned int*) = nullptr;
  int (*throttle_reasons)(void*, unsigned long long*) = nullptr;
};

namespace {

constexpr int kSmClock = 1;
// SW thermal, HW slowdown, HW thermal, HW power brake.
constexpr unsigned long long kThrottled = 0x20 | 0x08 | 0x40 | 0x80;

template <typename Function>
bool Resolve(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

}  // namespace

Nvml::Nvml() : functions_(std::make_unique<Functions>()) {}

Nvml::~Nvml() { (void)functions_->shutdown(); }

std::unique_ptr<Nvml> Nvml::Open() {
  void* library = nullptr;
  for (const char* name :
       {"libnvidia-ml.so.1", "/usr/local/nvidia/lib64/libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1"}) {
    if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) return nullptr;
  Functions found;
  if (!Resolve(library, "nvmlInit_v2", &found.init) || !Resolve(library, "nvmlShutdown", &found.shutdown) ||
      !Resolve(library, "nvmlDeviceGetHandleByUUID", &found.handle_by_uuid) ||
      !Resolve(library, "nvmlSystemGetDriverVersion", &found.driver_version) ||
      !Resolve(library, "nvmlDeviceGetClockInfo", &found.clock) ||
      !Resolve(library, "nvmlDeviceGetMaxClockInfo", &found.max_clock)) {
    return nullptr;
  }
  if (!Resolve(library, "nvmlDeviceGetCurrentClocksEventReasons", &found.throttle_reasons)) {
    (void)Resolve(library, "nvmlDeviceGetCurrentClocksThrottleReasons", &found.throttle_reasons);
  }
  if (found.init() != 0) return nullptr;
  std::unique_ptr<Nvml> nvml(new Nvml);
  *nvml->functions_ = found;
  return nvml;
}

void* Nvml::Handle(const std::string& uuid) const {
  void* handle = nullptr;
  return functions_->handle_by_uuid(uuid.c_str(), &handle) == 0 ? handle : nullptr;
}

std::string Nvml::DriverVersion() const {
  char version[96] = {};
  if (functions_->driver_version(version, sizeof(version) - 1) != 0) return "";
  return version;
}

int Nvml::ClockMhz(const std::string& uuid) const {
  void* const handle = Handle(uuid);
  unsigned int mhz = 0;
  return handle != nullptr && functions_->clock(handle, kSmClock, &mhz) == 0 ? static_cast<int>(mhz) : 0;
}

int Nvml::MaxClockMhz(const std::string& uuid) const {
  void* const handle = Handle(uuid);
  unsigned int mhz = 0;
  return handle != nullptr && functions_->max_clock(handle, kSmClock, &mhz) == 0 ? static_cast<int>(mhz) : 0;
}

bool Nvml::IsThrottled(const std::string& uuid) const {
  void* const handle = Handle(uuid);
  unsigned long long reasons = 0;
  if (handle == nullptr || functions_->throttle_reasons == nullptr) return false;
  return functions_->throttle_reasons(handle, &reasons) == 0 && (reasons & kThrottled) != 0;
}

}  // namespace tunefarm::cuda
