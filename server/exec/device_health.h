#pragma once

// Whether a device may be trusted: judges the reports of health checks and says when the next is due. A check runs a
// kernel whose result is known and takes the fastest of several runs, so only two things count: a wrong result, and a
// time beyond kSlowFactor times the baseline. Clocks alone make a sound device differ by some ten percent, and a device
// that fell back to its lowest clocks or to half its units by more than two. A device that has rested needs a moment of
// work to raise its clocks, so it is slow only if it stays so through kSlowLooks checks at once. Two failures in a row
// make it sick. So do kLossesMax tasks in a row that the machine lost, each with another worker.
//
// Not thread-safe; pure but for the log.

#include <string>

#include "server/base/clock.h"
#include "tunefarm/worker/v1/worker.pb.h"

namespace tunefarm {

class DeviceHealth {
 public:
  static constexpr double kSlowFactor = 2;
  // Slower than this is worth a line in the log.
  static constexpr double kNoteFactor = 1.05;
  static constexpr int kSlowLooks = 20;
  // Two trials with all their attempts (agent/unit_work.h), so that one trial alone cannot do it.
  static constexpr int kLossesMax = 10;

  // `name` is for messages. baseline_ns: time of the check's kernel when the device was known to be good; 0: the first
  // good report sets it.
  DeviceHealth(std::string name, double baseline_ns) : name_(std::move(name)), baseline_ns_(baseline_ns) {}

  // A device is not trusted at first, nor after a crash, a hang or a release.
  bool is_due() const { return due_; }
  void RequireCheck() { due_ = true; }

  enum class Finding { kSound, kLookAtOnce, kLookAgain, kSick };
  Finding OnReport(const tunefarm::worker::v1::HealthReport& report);
  // The worker died or hung in the check; `how` is a sentence without its full stop.
  Finding OnWorkerLost(const std::string& how);
  // A task was lost for a reason of the machine; kSound until the device is sick of it.
  Finding OnTaskLost(const std::string& message);
  // A task had an end of its own.
  void OnTaskDone();
  // Of the last finding that was not kSound: one sentence without its full stop.
  const std::string& reason() const { return reason_; }

  double baseline_ns() const { return baseline_ns_; }
  // Another baseline than the present one makes a check due.
  void SetBaseline(double nanoseconds) {
    due_ = due_ || nanoseconds != baseline_ns_;
    baseline_ns_ = nanoseconds;
  }

  // How long a sick device rests before it is checked again: doubles from 30 s to 15 min, and is 30 s again after a
  // check that found it sound or a task that it finished.
  Duration NextRest();

 private:
  Finding Fail(std::string reason);

  const std::string name_;
  double baseline_ns_;
  bool due_ = true;
  int failures_ = 0;
  int slow_looks_ = 0;  // in a row
  int losses_ = 0;      // in a row
  int rests_ = 0;
  std::string reason_;
};

}  // namespace tunefarm
