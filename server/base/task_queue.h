#pragma once

// What an executor holds: tasks in the order in which they became ready, and timers by due time. The one queue behind
// every executor, with or without a thread.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "server/base/clock.h"

namespace tunefarm {

// Names one timer. 0 is never issued, so it can stand for "no timer".
using TimerId = uint64_t;

// Longer delays count as this one: a due time must fit the clock's time line.
inline constexpr Duration kTimerDelayMax = std::chrono::hours(24 * 365 * 100);

// Not thread-safe: its owner's lock guards it. Tasks that leave it are destroyed by the caller, who first releases that
// lock: a task may own what calls back when it goes.
class TaskQueue {
 public:
  using Task = std::function<void()>;

  void Post(Task task) { ready_.push_back({0, std::move(task)}); }

  // Ready at now + delay; a negative delay counts as 0. Timers of one due time become ready in the order of the calls.
  TimerId PostAfter(MonotonicTime now, Duration delay, Task task);
  // An id whose task never runs.
  TimerId NextId() { return ++last_timer_; }
  // The task, which will not run; null if it was taken or cancelled before, or the id is unknown.
  Task Cancel(TimerId timer);
  // All timers that are not ready.
  std::map<std::pair<MonotonicTime, TimerId>, Task> TakeTimers() { return std::exchange(timers_, {}); }

  // Moves the timers that are due behind the tasks that are ready.
  void MoveDue(MonotonicTime now);
  size_t ready() const { return ready_.size(); }
  // The next task that is ready; ready() must not be 0.
  Task Take();

  // When the earliest timer is due; none without timers.
  std::optional<MonotonicTime> NextDue() const;
  size_t timers() const { return timers_.size(); }

 private:
  struct Ready {
    TimerId timer;  // 0: posted without one
    Task task;
  };

  TimerId last_timer_ = 0;
  std::deque<Ready> ready_;
  // Ids grow, so the key orders timers of one due time by their PostAfter calls.
  std::map<std::pair<MonotonicTime, TimerId>, Task> timers_;
};

}  // namespace tunefarm
