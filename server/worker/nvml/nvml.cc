#include "server/worker/nvml/nvml.h"

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
  int (*compute_processes)(void*, unsigned int*, void*) = nullptr;
  int (*graphics_processes)(void*, unsigned int*, void*) = nullptr;
  int (*power)(void*, unsigned int*) = nullptr;
  int (*temperature)(void*, int, unsigned int*) = nullptr;
  int (*energy)(void*, unsigned long long*) = nullptr;
  int (*lock_clock)(void*, unsigned int, unsigned int) = nullptr;
  int (*reset_clock)(void*) = nullptr;
};

namespace {

constexpr int kInvalidArgument = 2, kNotSupported = 3, kNotPermitted = 4, kNotFound = 6, kInsufficientSize = 7,
              kGpuIsLost = 15;
constexpr int kSmClock = 1;
constexpr int kGpuSensor = 0;
// NVML's bits.
constexpr unsigned long long kIdle = 0x01, kPowerCap = 0x04, kHardwareSlowdown = 0x08, kSoftwareThermal = 0x20,
                             kHardwareThermal = 0x40, kPowerBrake = 0x80;
constexpr unsigned long long kThrottled = kSoftwareThermal | kHardwareSlowdown | kHardwareThermal | kPowerBrake;

template <typename Function>
bool Resolve(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

// Of an error that a call for a clock returns; empty: none.
std::string ClockErrorText(int error) {
  switch (error) {
    case 0:
      return "";
    case kInvalidArgument:
      return "invalid argument";
    case kNotSupported:
      return "not supported";
    case kNotPermitted:
      return std::string(Nvml::kNoPermission);
    case kNotFound:
      return "no such device";
    case kGpuIsLost:
      return "the GPU is lost";
    default:
      return "error " + std::to_string(error);
  }
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
  if (!Resolve(library, "nvmlDeviceGetComputeRunningProcesses_v3", &found.compute_processes)) {
    (void)Resolve(library, "nvmlDeviceGetComputeRunningProcesses", &found.compute_processes);
  }
  if (!Resolve(library, "nvmlDeviceGetGraphicsRunningProcesses_v3", &found.graphics_processes)) {
    (void)Resolve(library, "nvmlDeviceGetGraphicsRunningProcesses", &found.graphics_processes);
  }
  (void)Resolve(library, "nvmlDeviceGetPowerUsage", &found.power);
  (void)Resolve(library, "nvmlDeviceGetTemperature", &found.temperature);
  (void)Resolve(library, "nvmlDeviceGetTotalEnergyConsumption", &found.energy);
  (void)Resolve(library, "nvmlDeviceSetGpuLockedClocks", &found.lock_clock);
  (void)Resolve(library, "nvmlDeviceResetGpuLockedClocks", &found.reset_clock);
  if (found.init() != 0) return nullptr;
  std::unique_ptr<Nvml> nvml(new Nvml);
  *nvml->functions_ = found;
  return nvml;
}

void* Nvml::Handle(const std::string& uuid) const {
  // Looking it up walks over all devices.
  if (handle_ == nullptr || handle_uuid_ != uuid) {
    handle_uuid_ = uuid;
    if (functions_->handle_by_uuid(uuid.c_str(), &handle_) != 0) handle_ = nullptr;
  }
  return handle_;
}

std::string Nvml::DriverVersion() const {
  char version[96] = {};
  if (functions_->driver_version(version, sizeof(version) - 1) != 0) return "";
  return version;
}

int Nvml::MaxClockMhz(const std::string& uuid) const {
  void* const handle = Handle(uuid);
  unsigned int mhz = 0;
  return handle != nullptr && functions_->max_clock(handle, kSmClock, &mhz) == 0 ? static_cast<int>(mhz) : 0;
}

bool Nvml::Read(const std::string& uuid, Conditions* conditions) const {
  void* const handle = Handle(uuid);
  unsigned int mhz = 0, milliwatts = 0, celsius = 0;
  if (handle == nullptr || functions_->clock(handle, kSmClock, &mhz) != 0) return false;
  *conditions = {};
  conditions->clock_mhz = static_cast<int>(mhz);
  if (functions_->power != nullptr && functions_->power(handle, &milliwatts) == 0) {
    conditions->power_watts = milliwatts / 1000.0;
  }
  if (functions_->temperature != nullptr && functions_->temperature(handle, kGpuSensor, &celsius) == 0) {
    conditions->temperature_c = static_cast<int>(celsius);
  }
  if (functions_->throttle_reasons != nullptr) {
    (void)functions_->throttle_reasons(handle, &conditions->throttle_reasons);
  }
  return true;
}

std::string Nvml::ReasonText(unsigned long long throttle_reasons) {
  if ((throttle_reasons & (kSoftwareThermal | kHardwareThermal)) != 0) return "thermal";
  if ((throttle_reasons & kPowerBrake) != 0) return "power brake";
  if ((throttle_reasons & kHardwareSlowdown) != 0) return "hardware slowdown";
  return (throttle_reasons & kPowerCap) != 0 ? "power cap" : "";
}

bool Nvml::IsThrottledBy(unsigned long long throttle_reasons) { return (throttle_reasons & kThrottled) != 0; }

bool Nvml::IsAtPowerLimit(unsigned long long throttle_reasons) { return (throttle_reasons & kPowerCap) != 0; }

bool Nvml::IsIdle(unsigned long long throttle_reasons) { return (throttle_reasons & kIdle) != 0; }

int Nvml::ProcessCount(const std::string& uuid) const {
  void* const handle = Handle(uuid);
  if (handle == nullptr || functions_->compute_processes == nullptr) return -1;
  int count = 0;
  for (const auto list : {functions_->compute_processes, functions_->graphics_processes}) {
    if (list == nullptr) continue;
    // Without room for any it only tells how many there are.
    unsigned int found = 0;
    const int error = list(handle, &found, nullptr);
    if (error != 0 && error != kInsufficientSize) return -1;
    count += static_cast<int>(found);
  }
  return count;
}

bool Nvml::EnergyMillijoules(const std::string& uuid, uint64_t* millijoules) const {
  void* const handle = Handle(uuid);
  unsigned long long value = 0;
  if (handle == nullptr || functions_->energy == nullptr || functions_->energy(handle, &value) != 0) return false;
  *millijoules = value;
  return true;
}

std::string Nvml::LockClock(const std::string& uuid, int mhz) const {
  if (functions_->lock_clock == nullptr) return ClockErrorText(kNotSupported);
  void* const handle = Handle(uuid);
  if (handle == nullptr) return ClockErrorText(kNotFound);
  return ClockErrorText(functions_->lock_clock(handle, static_cast<unsigned>(mhz), static_cast<unsigned>(mhz)));
}

std::string Nvml::ResetClock(const std::string& uuid) const {
  if (functions_->reset_clock == nullptr) return ClockErrorText(kNotSupported);
  void* const handle = Handle(uuid);
  return ClockErrorText(handle == nullptr ? kNotFound : functions_->reset_clock(handle));
}

}  // namespace tunefarm::cuda
