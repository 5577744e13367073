#include "server/worker/cuda/device_conditions.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace tunefarm::cuda {
namespace {

// Between two readings passes this many times what one costs.
constexpr int kRestPerRead = 20;
constexpr Duration kRecent = std::chrono::seconds(1);

}  // namespace

DeviceConditions::DeviceConditions(const Nvml* nvml, const std::string& uuid)
    : nvml_(nvml), uuid_(uuid), max_clock_mhz_(nvml == nullptr ? 0 : nvml->MaxClockMhz(uuid)) {}

void DeviceConditions::Begin(double min_clock_share, int locked_clock_mhz, bool exact) {
  min_clock_share_ = std::max(min_clock_share, 0.0);
  is_held_ = locked_clock_mhz > 0;
  slow_below_mhz_ = min_clock_share_ * (locked_clock_mhz > 0 ? locked_clock_mhz : max_clock_mhz_);
  const bool is_recent = was_read_ && Clock::Real()->Now() - read_at_ < kRecent;
  if (!is_recent) last_ = {};
  if (!is_recent || exact) not_before_ = {};
  power_watts_ = 0;
  temperature_c_ = 0;
  reasons_ = reasons_when_slow_ = 0;
  clocks_mhz_ = 0;
  clocks_ = reads_ = 0;
  read_ms_ = 0;
  is_slow_ = false;
  if (is_recent) Count(last_);
}

bool DeviceConditions::Read() {
  if (nvml_ == nullptr) return false;
  const MonotonicTime start = Clock::Real()->Now();
  if (start < not_before_) return false;
  Nvml::Conditions now;
  const bool known = nvml_->Read(uuid_, &now);
  const MonotonicTime end = Clock::Real()->Now();
  not_before_ = end + (end - start) * kRestPerRead;
  read_ms_ += std::chrono::duration<double, std::milli>(end - start).count();
  ++reads_;
  if (!known) return false;
  last_ = now;
  read_at_ = end;
  was_read_ = true;
  Count(now);
  return true;
}

void DeviceConditions::Count(const Nvml::Conditions& now) {
  power_watts_ = std::max(power_watts_, now.power_watts);
  temperature_c_ = std::max(temperature_c_, now.temperature_c);
  reasons_ |= now.throttle_reasons;
  const bool is_idle = Nvml::IsIdle(now.throttle_reasons);
  is_slow_ = now.clock_mhz < slow_below_mhz_ && !is_idle;
  if (is_slow_) reasons_when_slow_ |= now.throttle_reasons;
  if (is_idle) return;
  clocks_mhz_ += now.clock_mhz;
  ++clocks_;
}

void DeviceConditions::Describe(tunefarm::v1::Measurement* measurement) const {
  const double clock_mhz = clocks_ > 0 ? clocks_mhz_ / clocks_ : last_.clock_mhz;
  measurement->set_clock_mhz(static_cast<int>(std::lround(clock_mhz)));
  if (clocks_ > 0 && max_clock_mhz_ > 0) {
    measurement->set_clock_normalized_ns(measurement->median_ns() * clock_mhz / max_clock_mhz_);
  }
  if (measurement->discarded_samples() > 0) {
    const std::string reason = Nvml::ReasonText(reasons_when_slow_);
    measurement->set_discard_reason(fmt::format("the clock was below {:.0f} % of the {}{}{}", 100 * min_clock_share_,
                                                is_held_ ? "held one" : "highest", reason.empty() ? "" : ": ", reason));
  }
  measurement->set_power_watts(power_watts_);
  measurement->set_temperature_c(temperature_c_);
  measurement->set_throttle_reason(Nvml::ReasonText(reasons_));
  if (Nvml::IsThrottledBy(reasons_)) measurement->set_throttled(true);
}

}  // namespace tunefarm::cuda
