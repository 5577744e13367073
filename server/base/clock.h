#pragma once

// Time as the project sees it. Code that waits, expires or stamps takes a Clock*, so that tests and the simulation can
// run it on a fake one.

#include <chrono>
#include <cstdint>

namespace tunefarm {

using Duration = std::chrono::nanoseconds;

// Names the time line of Clock::Now(); it has no now() of its own on purpose.
struct MonotonicTimeline {
  using rep = Duration::rep;
  using period = Duration::period;
  using duration = Duration;
  static constexpr bool is_steady = true;
};

// A point on the monotonic time line: comparable, +/- Duration, and a difference of two is a Duration. Meaningless in
// another process and after a reboot: never stored.
using MonotonicTime = std::chrono::time_point<MonotonicTimeline, Duration>;

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;

  // Never goes back; does not count time suspended.
  virtual MonotonicTime Now() const = 0;

  // UTC milliseconds since 1970, for stamps that are stored or shown. It may jump: never subtract two of them to time
  // something.
  virtual int64_t WallMs() const = 0;

  // The machine's clock; lives forever.
  static Clock* Real();
};

}  // namespace tunefarm
