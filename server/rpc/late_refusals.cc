#include "server/rpc/late_refusals.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "server/base/check.h"

namespace tunefarm {
namespace {

// Those whose refusals are paid for are forgotten beyond it.
constexpr size_t kCallersMax = 10'000;
// Refusals are sent in groups this far apart, so that many of them wake the thread seldom.
constexpr Duration kGroup = std::chrono::milliseconds(20);

}  // namespace

LateRefusals::LateRefusals(Executor* executor) : executor_(executor) {}

LateRefusals::~LateRefusals() {
  MutexLock lock(&mutex_);
  TUNEFARM_CHECK(held_.empty());
}

Duration LateRefusals::Next(const std::string& caller, MonotonicTime now) {
  if (paid_at_.size() >= kCallersMax) {
    for (auto at = paid_at_.begin(); at != paid_at_.end();) {
      at = at->second <= now ? paid_at_.erase(at) : std::next(at);
    }
  }
  MonotonicTime& paid_at = paid_at_.try_emplace(caller, now).first->second;
  paid_at = std::min(std::max(paid_at, now) + kInterval, now + kAtOnceMax * kInterval + kLateMax);
  return std::max(paid_at - now - kAtOnceMax * kInterval, Duration::zero());
}

void LateRefusals::Send(const std::string& caller, Duration time_left, std::function<void()> send) {
  {
    MutexLock lock(&mutex_);
    const MonotonicTime now = executor_->clock()->Now();
    const Duration wait = std::min(Next(caller, now), time_left / 2);
    if (!is_ended_ && wait > Duration::zero() && held_.size() < kHeldMax) {
      held_.emplace(now + wait, std::move(send));
      Schedule();
      return;
    }
  }
  send();
}

void LateRefusals::End() {
  decltype(held_) due;
  {
    MutexLock lock(&mutex_);
    is_ended_ = true;
    due.swap(held_);
  }
  for (auto& [time, send] : due) send();
}

void LateRefusals::Schedule() {
  if (is_scheduled_ || held_.empty()) return;
  is_scheduled_ = true;
  executor_->PostAfter(std::max(held_.begin()->first - executor_->clock()->Now(), kGroup), [this] { SendDue(); });
}

void LateRefusals::SendDue() {
  decltype(held_) due;
  {
    MutexLock lock(&mutex_);
    is_scheduled_ = false;
    const MonotonicTime now = executor_->clock()->Now();
    while (!held_.empty() && held_.begin()->first <= now) due.insert(held_.extract(held_.begin()));
    Schedule();
  }
  for (auto& [time, send] : due) send();
}

}  // namespace tunefarm
