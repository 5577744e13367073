// How many runs of one device the evaluator may hold at once. A run of milliseconds needs no other behind it: the next
// one is handed over when its result has come. Runs far shorter than what a result takes on its way (through the agent,
// into the store, and back as the next run) would leave the device idle most of the time, so some wait in the
// evaluator, which begins the next as soon as the device is free. Deadlines and times of a run begin when it begins.
//
// Not thread-safe: a DeviceRunner owns it.
#pragma once

#include <algorithm>
#include <cmath>

namespace tunefarm {

class RunAhead {
 public:
  // How long a run held the device, in milliseconds. Only ended runs count; what is not a positive number does not.
  void Note(double run_ms) {
    if (!std::isfinite(run_ms) || run_ms <= 0) return;
    // One slow run among short ones ends the haste at once; it comes back over a few short ones.
    mean_ms_ = mean_ms_ == 0 || run_ms > mean_ms_ ? run_ms : mean_ms_ + (run_ms - mean_ms_) / kMemoryRuns;
  }

  // At least 1, and 1 until something is known.
  int Bound() const {
    return mean_ms_ == 0 ? 1 : static_cast<int>(std::clamp(kAheadMs / mean_ms_, 1.0, static_cast<double>(kRunsMax)));
  }

  // How many runs the device ends in so many milliseconds, as far as is known.
  int RunsDuring(double ms) const {
    return mean_ms_ == 0 ? 0 : static_cast<int>(std::clamp(ms / mean_ms_, 0.0, static_cast<double>(kRunsDuringMax)));
  }

  bool hurries() const { return Bound() > 1; }
  // Of recent runs, in milliseconds; 0: none yet.
  double mean_ms() const { return mean_ms_; }

  static constexpr int kRunsMax = 32;
  static constexpr int kRunsDuringMax = 256;

 private:
  // Longer than a commit to the disk and what lies around it.
  static constexpr double kAheadMs = 8;
  static constexpr double kMemoryRuns = 8;

  double mean_ms_ = 0;  // of recent runs; 0: none yet
};

}  // namespace tunefarm
