// What a launch takes that is commanded and timed from outside of its process, beside the work itself: two processes
// wake up, and perhaps the cores that they run on. Measured on a process that has loaded nothing foreign.
//
// One thread.
#pragma once

#include <functional>
#include <optional>

#include "absl/status/statusor.h"
#include "server/worker/host/trial/trial_process.h"

namespace tunefarm {

class LaunchOverhead {
 public:
  // In nanoseconds, around no work: the shortest of several, measured once. Unavailable if no process could be had.
  absl::StatusOr<double> Idle();
  // Around so many nanoseconds of work, now. `before_each` takes what lies between two launches.
  absl::StatusOr<double> Around(double busy_ns, const std::function<void()>& before_each) const;

 private:
  std::optional<double> idle_ns_;
};

}  // namespace tunefarm
