#pragma once

#include <cstddef>
#include <functional>
#include <optional>

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
    tasks_.Post(std::move(task));
  }

  TimerId PostAfter(Duration delay, std::function<void()> task) override {
    MutexLock lock(&mutex_);
    return tasks_.PostAfter(clock_->Now(), delay, std::move(task));
  }

  bool Cancel(TimerId timer) override {
    std::function<void()> dropped;  // Destroyed after the lock is released: it may own what calls back here.
    MutexLock lock(&mutex_);
    dropped = tasks_.Cancel(timer);
    return dropped != nullptr;
  }

  FakeClock* clock() override { return clock_; }

  // Runs the next task or due timer, without moving the clock. False when there is none.
  bool RunOne() {
    std::function<void()> task;
    {
      MutexLock lock(&mutex_);
      TUNEFARM_CHECK(!running_);
      tasks_.MoveDue(clock_->Now());
      if (tasks_.ready() == 0) return false;
      task = tasks_.Take();
      running_ = true;
    }
    task();
    task = nullptr;
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
    return tasks_.NextDue();
  }

  size_t timer_count() const {
    MutexLock lock(&mutex_);
    return tasks_.timers();
  }

 private:
  static constexpr size_t kTasksMax = 1'000'000;

  FakeClock* const clock_;

  mutable Mutex mutex_;
  bool running_ GUARDED_BY(mutex_) = false;
  TaskQueue tasks_ GUARDED_BY(mutex_);
};

}  // namespace tunefarm
