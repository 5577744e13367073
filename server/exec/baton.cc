#include "server/exec/baton.h"

#include <algorithm>

#include "server/base/check.h"

namespace tunefarm {

void Baton::Take(const void* who, std::function<void()> granted) {
  TUNEFARM_CHECK(who != nullptr && !IsHeldBy(who) && !IsWaiting(who));
  if (holder_ != nullptr) {
    waiting_.emplace_back(who, std::move(granted));
    return;
  }
  holder_ = who;
  granted();
}

bool Baton::IsWaiting(const void* who) const {
  return std::any_of(waiting_.begin(), waiting_.end(), [who](const auto& entry) { return entry.first == who; });
}

void Baton::Drop(const void* who) {
  if (!IsHeldBy(who)) {
    std::erase_if(waiting_, [who](const auto& entry) { return entry.first == who; });
    return;
  }
  holder_ = nullptr;
  if (waiting_.empty()) return;
  auto next = std::move(waiting_.front());
  waiting_.pop_front();
  holder_ = next.first;
  next.second();
}

}  // namespace tunefarm
