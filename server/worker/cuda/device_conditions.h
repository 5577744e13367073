// Clock, power, temperature and throttle reasons of the device while it measures, as NVML tells them. They are read
// while the device works on a batch that is already enqueued, so that reading delays nothing; a driver that takes long
// to answer is asked more seldom.
//
// One thread. NVML must outlive it.
#pragma once

#include <string>

#include "server/base/clock.h"
#include "server/worker/nvml/nvml.h"
#include "tunefarm/v1/measurement.pb.h"

namespace tunefarm::cuda {

class DeviceConditions {
 public:
  // `nvml` null: everything stays unknown.
  DeviceConditions(const Nvml* nvml, const std::string& uuid);

  // A measurement begins, of which all below speaks. `min_clock_share` and `locked_clock_mhz` as in MeasurementPolicy:
  // where the clock is held, the share is one of that clock. What was read less than a second ago stands until the next
  // reading, which for one that is to be `exact` is due at once.
  void Begin(double min_clock_share, int locked_clock_mhz, bool exact);
  // To be called while a batch runs. Skipped while reading would take more than a twentieth of the time, that of
  // earlier measurements included. Whether they were read.
  bool Read();
  // At the last reading that was made; nothing is known: all of it 0.
  const Nvml::Conditions& last() const { return last_; }
  bool is_at_power_limit() const { return Nvml::IsAtPowerLimit(last_.throttle_reasons); }
  // Whether the clock was below the policy's share at the last reading. False when it is unknown.
  bool is_slow() const { return is_slow_; }

  // Fills clock (mean), power (highest), temperature (highest), throttled, throttle_reason, the reason of what was
  // discarded, and from the median the clock-normalized time.
  void Describe(tunefarm::v1::Measurement* measurement) const;

  int reads() const { return reads_; }
  double read_ms() const { return read_ms_; }  // all of them

 private:
  void Count(const Nvml::Conditions& now);

  const Nvml* const nvml_;
  const std::string uuid_;
  const double max_clock_mhz_;  // 0: unknown
  double min_clock_share_ = 0;
  bool is_held_ = false;
  double slow_below_mhz_ = 0;  // 0: never slow
  Nvml::Conditions last_;
  double power_watts_ = 0;
  int temperature_c_ = 0;
  unsigned long long reasons_ = 0, reasons_when_slow_ = 0;
  double clocks_mhz_ = 0;  // the sum of what was read
  int clocks_ = 0;
  bool is_slow_ = false;
  int reads_ = 0;
  double read_ms_ = 0;
  MonotonicTime read_at_{}, not_before_{};
  bool was_read_ = false;  // ever
};

}  // namespace tunefarm::cuda
