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
  decltype(tasks_.TakeTimers()) dropped;  // Destroyed after the lock is released.
  MutexLock lock(&mutex_);
  stopped_ = true;
  dropped = tasks_.TakeTimers();
  wake_.NotifyAll();
}

void ThreadExecutor::Post(std::function<void()> task) {
  TUNEFARM_CHECK(task != nullptr);
  MutexLock lock(&mutex_);
  if (stopped_) return;
  tasks_.Post(std::move(task));
  wake_.NotifyOne();
}

TimerId ThreadExecutor::PostAfter(Duration delay, std::function<void()> task) {
  TUNEFARM_CHECK(task != nullptr);
  MutexLock lock(&mutex_);
  if (stopped_) return tasks_.NextId();
  const TimerId id = tasks_.PostAfter(clock_->Now(), delay, std::move(task));
  wake_.NotifyOne();
  return id;
}

bool ThreadExecutor::Cancel(TimerId timer) {
  std::function<void()> dropped;  // Destroyed after the lock is released.
  MutexLock lock(&mutex_);
  dropped = tasks_.Cancel(timer);
  return dropped != nullptr;
}

void ThreadExecutor::Run() {
  while (std::function<void()> task = NextTask()) task();
}

std::function<void()> ThreadExecutor::NextTask() {
  MutexLock lock(&mutex_);
  while (true) {
    const MonotonicTime now = clock_->Now();
    tasks_.MoveDue(now);
    if (tasks_.ready() > 0) return tasks_.Take();
    if (stopped_) return nullptr;
    if (const auto due = tasks_.NextDue(); due.has_value()) {
      // In steps: the end of a very long wait would not fit the clock.
      wake_.WaitFor(&mutex_, std::min<Duration>(*due - now, std::chrono::hours(1)));
    } else {
      wake_.Wait(&mutex_);
    }
  }
}

}  // namespace tunefarm
