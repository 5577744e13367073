#pragma once

#include <cstdint>

#include "server/base/check.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"

namespace tunefarm {

// A clock that moves only when told to. Monotonic time starts at one hour (so that "now - 5 min" is no special case)
// and wall time at 2026-01-01T00:00:00Z; both advance together. Thread-safe.
class FakeClock : public Clock {
 public:
  static constexpr int64_t kStartWallMs = 1767225600000;

  MonotonicTime Now() const override {
    MutexLock lock(&mutex_);
    return now_;
  }

  int64_t WallMs() const override {
    MutexLock lock(&mutex_);
    return (wall_ + std::chrono::duration_cast<std::chrono::milliseconds>(now_ - kStart)).count();
  }

  // Never back.
  void Advance(Duration by) {
    TUNEFARM_CHECK(by >= Duration::zero());
    MutexLock lock(&mutex_);
    now_ += by;
  }

  // No effect when `time` has passed already.
  void AdvanceTo(MonotonicTime time) {
    MutexLock lock(&mutex_);
    if (time > now_) now_ = time;
  }

  // A wall clock step (either way), as NTP or an administrator makes one; monotonic time does not move.
  void StepWallMs(int64_t by_ms) {
    MutexLock lock(&mutex_);
    wall_ += std::chrono::milliseconds(by_ms);
  }

 private:
  static constexpr MonotonicTime kStart{std::chrono::hours(1)};

  mutable Mutex mutex_;
  MonotonicTime now_ GUARDED_BY(mutex_) = kStart;
  std::chrono::milliseconds wall_ GUARDED_BY(mutex_){kStartWallMs};
};

}  // namespace tunefarm
