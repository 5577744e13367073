#include "server/farm/agent_wakes.h"

#include <algorithm>
#include <utility>

namespace tunefarm {

void AgentWakes::Take(Waiter* waiter, bool woken, std::vector<Told>* told) {
  if (!waiter->answer) return;
  told->push_back({std::exchange(waiter->answer, nullptr), waiter->wakes, woken});
}

void AgentWakes::Tell(const std::vector<Told>& told) {
  for (const Told& one : told) one.answer(one.seen, one.woken);
}

uint64_t AgentWakes::Await(const std::string& agent_id, int64_t seen, Answer answer) {
  std::vector<Told> told;
  uint64_t ticket = 0;
  {
    MutexLock lock(&mutex_);
    if (waiters_.size() >= kAgentsMax && waiters_.count(agent_id) == 0) {
      const auto oldest = std::min_element(waiters_.begin(), waiters_.end(), [](const auto& a, const auto& b) {
        return a.second.ticket < b.second.ticket;
      });
      Take(&oldest->second, true, &told);
      waiters_.erase(oldest);
    }
    Waiter& waiter = waiters_[agent_id];
    Take(&waiter, false, &told);  // its connection was lost
    ticket = waiter.ticket = ++tickets_;
    waiter.answer = std::move(answer);
    if (closed_ || waiter.wakes != seen) {
      Take(&waiter, true, &told);
      ticket = 0;
    }
  }
  Tell(told);
  return ticket;
}

void AgentWakes::Expire(const std::string& agent_id, uint64_t ticket) {
  std::vector<Told> told;
  {
    MutexLock lock(&mutex_);
    const auto found = waiters_.find(agent_id);
    if (found == waiters_.end() || found->second.ticket != ticket) return;
    Take(&found->second, false, &told);
  }
  Tell(told);
}

int64_t AgentWakes::Seen(const std::string& agent_id) const {
  MutexLock lock(&mutex_);
  const auto found = waiters_.find(agent_id);
  return found == waiters_.end() ? 1 : found->second.wakes;
}

void AgentWakes::Wake(const std::string& agent_id) { Wake(std::vector<std::string>{agent_id}); }

void AgentWakes::Wake(const std::vector<std::string>& agent_ids) {
  std::vector<Told> told;
  {
    MutexLock lock(&mutex_);
    for (const std::string& agent_id : agent_ids) {
      const auto found = waiters_.find(agent_id);
      if (found == waiters_.end()) continue;  // it has not waited yet: its first Await is answered at once
      ++found->second.wakes;
      Take(&found->second, true, &told);
    }
  }
  Tell(told);
}

void AgentWakes::WakeAll() {
  std::vector<Told> told;
  {
    MutexLock lock(&mutex_);
    for (auto& [agent_id, waiter] : waiters_) {
      ++waiter.wakes;
      Take(&waiter, true, &told);
    }
  }
  Tell(told);
}

void AgentWakes::Forget(const std::string& agent_id) {
  std::vector<Told> told;
  {
    MutexLock lock(&mutex_);
    const auto found = waiters_.find(agent_id);
    if (found == waiters_.end()) return;
    Take(&found->second, true, &told);
    waiters_.erase(found);
  }
  Tell(told);
}

void AgentWakes::Close() {
  {
    MutexLock lock(&mutex_);
    closed_ = true;
  }
  WakeAll();
}

}  // namespace tunefarm
