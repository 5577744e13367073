#include "server/base/task_queue.h"

#include <algorithm>

namespace tunefarm {

TimerId TaskQueue::PostAfter(MonotonicTime now, Duration delay, Task task) {
  const TimerId id = NextId();
  const MonotonicTime due = now + std::clamp(delay, Duration::zero(), kTimerDelayMax);
  timers_.emplace(std::make_pair(due, id), std::move(task));
  return id;
}

TaskQueue::Task TaskQueue::Cancel(TimerId timer) {
  if (timer == 0) return nullptr;
  const auto waiting =
      std::find_if(timers_.begin(), timers_.end(), [timer](const auto& entry) { return entry.first.second == timer; });
  if (waiting != timers_.end()) return std::move(timers_.extract(waiting).mapped());
  const auto ready =
      std::find_if(ready_.begin(), ready_.end(), [timer](const Ready& entry) { return entry.timer == timer; });
  if (ready == ready_.end()) return nullptr;
  Task task = std::move(ready->task);
  ready_.erase(ready);
  return task;
}

void TaskQueue::MoveDue(MonotonicTime now) {
  while (!timers_.empty() && timers_.begin()->first.first <= now) {
    auto due = timers_.extract(timers_.begin());
    ready_.push_back({due.key().second, std::move(due.mapped())});
  }
}

TaskQueue::Task TaskQueue::Take() {
  Task task = std::move(ready_.front().task);
  ready_.pop_front();
  return task;
}

std::optional<MonotonicTime> TaskQueue::NextDue() const {
  if (timers_.empty()) return std::nullopt;
  return timers_.begin()->first.first;
}

}  // namespace tunefarm
