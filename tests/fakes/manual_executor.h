#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "server/base/check.h"
#include "server/base/executor.h"
#include "server/base/mutex.h"
#include "tests/fakes/fake_clock.h"

namespace tunefarm {

// An executor that runs tasks only inside RunOne, RunUntilIdle and AdvanceBy, on the calling thread, in an order that
// depends on nothing but the calls made. Several may share one FakeClock. Posting and cancelling are thread-safe; the
// Run methods belong to one thread and must not be called from a task. Tasks left over are destroyed with it.
class ManualExecutor : public Executor {
 public:
  explicit ManualExecutor(FakeClock* clock) : clock_(clock) {}

  void Post(std::function<void()> task) override {
    MutexLock lock(&mutex_);
    ready_.push_back({0, std::move(task)});
  }

  TimerId PostAfter(Duration delay, std::function<void()> task) override {
    MutexLock lock(&mutex_);
    const TimerId id = ++last_timer_;
    const MonotonicTime due = clock_->Now() + std::clamp(delay, Duration::zero(), kTimerDelayMax);
    timers_.emplace(std::make_pair(due, id), std::move(task));
    return id;
  }

  bool Cancel(TimerId timer) override {
    std::function<void()> dropped;  // Destroyed after the lock is released: it may own what calls back here.
    MutexLock lock(&mutex_);
    if (timer == 0) return false;
    for (auto it = timers_.begin(); it != timers_.end(); ++it) {
      if (it->first.second != timer) continue;
      dropped = std::move(it->second);
      timers_.erase(it);
      return true;
    }
    for (auto it = ready_.begin(); it != ready_.end(); ++it) {
      if (it->timer != timer) continue;
      dropped = std::move(it->run);
      ready_.erase(it);
      return true;
    }
    return false;
  }

  FakeClock* clock() override { return clock_; }

  // Runs the next task or due timer, without moving the clock. False when there is none.
  bool RunOne() {
    Task task;
    {
      MutexLock lock(&mutex_);
      TUNEFARM_CHECK(!running_);
      while (!timers_.empty() && timers_.begin()->first.first <= clock_->Now()) {
        auto due = timers_.extract(timers_.begin());
        ready_.push_back({due.key().second, std::move(due.mapped())});
      }
      if (ready_.empty()) return false;
      task = std::move(ready_.front());
      ready_.pop_front();
      running_ = true;
    }
    task.run();
    task.run = nullptr;
    MutexLock lock(&mutex_);
    running_ = false;
    return true;
  }

  // Runs everything that is ready or due, and what that posts in turn; the clock does not move. Returns how many tasks
  // ran. Aborts after a million: tasks that keep posting each other would never end.
  size_t RunUntilIdle() {
    size_t count = 0;
    while (RunOne()) TUNEFARM_CHECK(++count < kTasksMax);
    return count;
  }

  // Lets `by` pass: stops at each timer's due time on the way, so that a task sees the time it asked for.
  size_t AdvanceBy(Duration by) {
    const MonotonicTime end = clock_->Now() + by;
    size_t count = RunUntilIdle();
    for (std::optional<MonotonicTime> due = NextDue(); due.has_value() && *due <= end; due = NextDue()) {
      clock_->AdvanceTo(*due);
      count += RunUntilIdle();
      TUNEFARM_CHECK(count < kTasksMax);
    }
    clock_->AdvanceTo(end);
    return count + RunUntilIdle();
  }

  // When the earliest timer is due; none without timers.
  std::optional<MonotonicTime> NextDue() const {
    MutexLock lock(&mutex_);
    if (timers_.empty()) return std::nullopt;
    return timers_.begin()->first.first;
  }

  size_t timer_count() const {
    MutexLock lock(&mutex_);
    return timers_.size();
  }

 private:
  static constexpr size_t kTasksMax = 1'000'000;

  struct Task {
    TimerId timer = 0;
    std::function<void()> run;
  };

  FakeClock* const clock_;

  mutable Mutex mutex_;
  bool running_ GUARDED_BY(mutex_) = false;
  TimerId last_timer_ GUARDED_BY(mutex_) = 0;
  std::deque<Task> ready_ GUARDED_BY(mutex_);
  std::map<std::pair<MonotonicTime, TimerId>, std::function<void()>> timers_ GUARDED_BY(mutex_);
};

}  // namespace tunefarm
