// NVML, opened at run time, for what the driver API does not tell: clocks, throttling, energy, the driver's version.
// Optional: without it everything reads as unknown. It also holds the clock of the multiprocessors (clock_lock.h).
//
// One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace tunefarm::cuda {

class Nvml {
 public:
  // Null if it is not there or refuses to start.
  static std::unique_ptr<Nvml> Open();
  ~Nvml();

  std::string DriverVersion() const;               // "580.159.04"; empty: unknown
  int MaxClockMhz(const std::string& uuid) const;  // highest of the multiprocessors; 0: unknown
  // What the device does now. False if even the clock is unknown. Takes as long as the driver likes: the caller decides
  // when that disturbs nothing.
  struct Conditions {
    int clock_mhz = 0;
    double power_watts = 0;  // 0: unknown
    int temperature_c = 0;   // 0: unknown
    unsigned long long throttle_reasons = 0;
  };
  bool Read(const std::string& uuid, Conditions* conditions) const;
  // The gravest of the reasons, in words: "thermal", "power brake", "hardware slowdown", "power cap"; empty: none.
  static std::string ReasonText(unsigned long long throttle_reasons);
  // Whether one of the reasons is that heat or the power supply slows the device down. A power cap that is merely
  // reached does not count: that is how these devices run dense arithmetic.
  static bool IsThrottledBy(unsigned long long throttle_reasons);
  static bool IsAtPowerLimit(unsigned long long throttle_reasons);
  // The clock was read while the device had nothing to do, so that it says nothing of work.
  static bool IsIdle(unsigned long long throttle_reasons);

  // Processes that have the device open, this one among them; -1: unknown. Names cannot be had across the namespaces of
  // processes, so that only their number tells.
  int ProcessCount(const std::string& uuid) const;

  // What the device has used since its driver was loaded. It changes every 20 to 100 ms. False: the device has no such
  // counter, as before Volta and where it is partitioned (MIG).
  bool EnergyMillijoules(const std::string& uuid, uint64_t* millijoules) const;
  // Holds the clock of the multiprocessors at `mhz` until ResetClock, also when this process has ended by then. Empty
  // on success, else NVML's reason: kNoPermission, "not supported", ...
  std::string LockClock(const std::string& uuid, int mhz) const;
  std::string ResetClock(const std::string& uuid) const;
  static constexpr std::string_view kNoPermission = "no permission";

 private:
  struct Functions;

  Nvml();
  void* Handle(const std::string& uuid) const;  // null: unknown

  std::unique_ptr<Functions> functions_;
  mutable std::string handle_uuid_;
  mutable void* handle_ = nullptr;
};

}  // namespace tunefarm::cuda
