#include "server/base/executor.h"

#include <algorithm>

#include "server/base/check.h"

namespace tunefarm {

ThreadExecutor::ThreadExecutor(std::string_view name, Clock* clock) : clock_(clock), thread_(name, [this] { Run(); }) {}

ThreadExecutor::~ThreadExecutor() {
  Stop();
  thread_.Join();
}

void ThreadExecutor::Stop() {
  // Destroyed after the lock is released: a task may own something that calls back here when it goes.
  decltype(timers_) dropped;
  MutexLock lock(&mutex_);
  stopped_ = true;
  dropped.swap(timers_);
  wake_.NotifyAll();
}

void ThreadExecutor::Post(std::function<void()> task) {
  TUNEFARM_CHECK(task != nullptr);
  MutexLock lock(&mutex_);
  if (stopped_) return;
  ready_.push_back({0, std::move(task)});
  wake_.NotifyOne();
}

TimerId ThreadExecutor::PostAfter(Duration delay, std::function<void()> task) {
  TUNEFARM_CHECK(task != nullptr);
  const MonotonicTime due = clock_->Now() + std::clamp(delay, Duration::zero(), kTimerDelayMax);
  MutexLock lock(&mutex_);
  const TimerId id = ++last_timer_;
  if (stopped_) return id;
  timers_.emplace(std::make_pair(due, id), std::move(task));
  wake_.NotifyOne();
  return id;
}

bool ThreadExecutor::Cancel(TimerId timer) {
  std::function<void()> dropped;  // As in Stop.
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

void ThreadExecutor::Run() {
  Task task;
  while (NextTask(&task)) {
    task.run();
    task.run = nullptr;  // What it captured goes now, not when the next task comes.
  }
}

bool ThreadExecutor::NextTask(Task* task) {
  MutexLock lock(&mutex_);
  while (true) {
    const MonotonicTime now = clock_->Now();
    while (!timers_.empty() && timers_.begin()->first.first <= now) {
      auto due = timers_.extract(timers_.begin());
      ready_.push_back({due.key().second, std::move(due.mapped())});
    }
    if (!ready_.empty()) {
      *task = std::move(ready_.front());
      ready_.pop_front();
      return true;
    }
    if (stopped_) return false;
    if (timers_.empty()) {
      wake_.Wait(&mutex_);
    } else {
      // In steps: the end of a very long wait would not fit the clock.
      wake_.WaitFor(&mutex_, std::min<Duration>(timers_.begin()->first.first - now, std::chrono::hours(1)));
    }
  }
}

}  // namespace tunefarm
