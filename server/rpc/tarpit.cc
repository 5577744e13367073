#include "server/rpc/tarpit.h"

#include <utility>
#include <vector>

#include "server/base/check.h"

namespace tunefarm {

Tarpit::~Tarpit() {
  MutexLock lock(&mutex_);
  TUNEFARM_CHECK(held_.empty());
}

void Tarpit::Hold(std::function<void()> refuse) {
  {
    MutexLock lock(&mutex_);
    if (!is_drained_ && held_.size() < kHeldMax) {
      held_.push_back({executor_->clock()->Now() + delay_, std::move(refuse)});
      if (held_.size() == 1) executor_->PostAfter(delay_, [this] { Release(); });
      return;
    }
  }
  refuse();
}

void Tarpit::Release() {
  std::vector<Held> due;
  {
    MutexLock lock(&mutex_);
    const MonotonicTime now = executor_->clock()->Now();
    while (!held_.empty() && held_.front().due <= now) {
      due.push_back(std::move(held_.front()));
      held_.pop_front();
    }
    if (!held_.empty()) executor_->PostAfter(held_.front().due - now, [this] { Release(); });
  }
  for (const Held& held : due) held.refuse();
}

void Tarpit::Drain() {
  std::deque<Held> held;
  {
    MutexLock lock(&mutex_);
    is_drained_ = true;
    held.swap(held_);
  }
  for (const Held& one : held) one.refuse();
}

}  // namespace tunefarm
