// Clock, power, temperature and throttle reasons of the device while it measures, as NVML tells them. They are read
// while the device works on a batch that is already enqueued, so that reading delays nothing; a driver that takes long
// to answer is asked more seldom.
//
// One thread. NVML must outlive it.
#pragma once

#include <string>

#include "server/base/clock.h"
#include "server/worker/cuda/nvml.h"
#include "tunefarm/v1/measurement.pb.h"

namespace tunefarm::cuda {

class DeviceConditions {
 public:
  // `nvml` null: everything stays unknown. `min_clock_share` and `locked_clock_mhz` as in MeasurementPolicy: where the
  // clock is held, the share is one of that clock.
  DeviceConditions(const Nvml* nvml, const std::string& uuid, double min_clock_share, int locked_clock_mhz);

  // To be called while a batch runs. Skipped while reading would take more than a twentieth of the time.
  void Read();
  // Whether the clock was below the policy's share at the last reading. False when it is unknown.
  bool is_slow() const { return is_slow_; }

  // Fills clock, power (highest), temperature (highest), throttled and throttle_reason.
  void Describe(tunefarm::v1::Measurement* measurement) const;

  int reads() const { return reads_; }
  double read_ms() const { return read_ms_; }  // all of them

 private:
  const Nvml* const nvml_;
  const std::string uuid_;
  const double slow_below_mhz_;  // 0: never slow
  Nvml::Conditions last_;
  double power_watts_ = 0;
  int temperature_c_ = 0;
  unsigned long long reasons_ = 0;
  bool is_slow_ = false;
  int reads_ = 0;
  double read_ms_ = 0;
  MonotonicTime not_before_{};
};

}  // namespace tunefarm::cuda
