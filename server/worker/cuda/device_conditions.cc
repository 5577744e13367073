#include "server/worker/cuda/device_conditions.h"

#include <algorithm>
#include <chrono>

namespace tunefarm::cuda {
namespace {

// Between two readings passes this many times what one costs.
constexpr int kRestPerRead = 20;

double SlowBelowMhz(const Nvml* nvml, const std::string& uuid, double min_clock_share, int locked_clock_mhz) {
  if (nvml == nullptr || min_clock_share <= 0) return 0;
  return min_clock_share * (locked_clock_mhz > 0 ? locked_clock_mhz : nvml->MaxClockMhz(uuid));
}

}  // namespace

DeviceConditions::DeviceConditions(const Nvml* nvml, const std::string& uuid, double min_clock_share,
                                   int locked_clock_mhz)
    : nvml_(nvml), uuid_(uuid), slow_below_mhz_(SlowBelowMhz(nvml, uuid, min_clock_share, locked_clock_mhz)) {}

void DeviceConditions::Read() {
  if (nvml_ == nullptr) return;
  const MonotonicTime start = Clock::Real()->Now();
  if (reads_ > 0 && start < not_before_) return;
  Nvml::Conditions now;
  const bool known = nvml_->Read(uuid_, &now);
  const MonotonicTime end = Clock::Real()->Now();
  not_before_ = end + (end - start) * kRestPerRead;
  read_ms_ += std::chrono::duration<double, std::milli>(end - start).count();
  ++reads_;
  if (!known) return;
  last_ = now;
  power_watts_ = std::max(power_watts_, now.power_watts);
  temperature_c_ = std::max(temperature_c_, now.temperature_c);
  reasons_ |= now.throttle_reasons;
  is_slow_ = now.clock_mhz < slow_below_mhz_ && !Nvml::IsIdle(now.throttle_reasons);
}

void DeviceConditions::Describe(tunefarm::v1::Measurement* measurement) const {
  measurement->set_clock_mhz(last_.clock_mhz);
  measurement->set_power_watts(power_watts_);
  measurement->set_temperature_c(temperature_c_);
  measurement->set_throttle_reason(Nvml::ReasonText(reasons_));
  if (Nvml::IsThrottledBy(reasons_)) measurement->set_throttled(true);
}

}  // namespace tunefarm::cuda
