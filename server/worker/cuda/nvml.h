// NVML, opened at run time, for what the driver API does not tell: clocks, throttling, the driver's version. Optional:
// without it everything reads as unknown.
//
// One thread.
#pragma once

#include <memory>
#include <string>

namespace tunefarm::cuda {

class Nvml {
 public:
  // Null if it is not there or refuses to start.
  static std::unique_ptr<Nvml> Open();
  ~Nvml();

  std::string DriverVersion() const;               // "580.159.04"; empty: unknown
  int ClockMhz(const std::string& uuid) const;     // of the multiprocessors now; 0: unknown
  int MaxClockMhz(const std::string& uuid) const;  // highest of the multiprocessors; 0: unknown
  // Whether heat or the power supply slows the device down right now. A power cap that is merely reached does not
  // count: that is how these devices run dense arithmetic.
  bool IsThrottled(const std::string& uuid) const;

 private:
  struct Functions;

  Nvml();
  void* Handle(const std::string& uuid) const;  // null: unknown

  std::unique_ptr<Functions> functions_;
};

}  // namespace tunefarm::cuda
