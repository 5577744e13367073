#pragma once

#include <chrono>
#include <cstdint>

#include "server/base/clock.h"

namespace tunefarm::sqlite {

// The time of leases: the wall clock as it was when the store was opened, going on with the monotonic one, so that a
// step of the wall clock ends no lease. Thread-safe.
class LeaseClock {
 public:
  // The clock outlives it.
  explicit LeaseClock(Clock* clock) : clock_(clock), opened_at_ms_(clock->WallMs()), opened_at_(clock->Now()) {}

  int64_t NowMs() const {
    return opened_at_ms_ + std::chrono::duration_cast<std::chrono::milliseconds>(clock_->Now() - opened_at_).count();
  }

 private:
  Clock* const clock_;
  const int64_t opened_at_ms_;
  const MonotonicTime opened_at_;
};

}  // namespace tunefarm::sqlite
