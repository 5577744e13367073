// AgentWakes: who waits here for news, agent by agent. A wake that comes while nobody waits is not lost: each agent has
// a count of its wakes, and who waits says which it has seen.
//
// Thread-safe. Answers are given on the thread that causes them, with no lock held; they must not block.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "server/base/mutex.h"

namespace tunefarm {

class AgentWakes {
 public:
  // seen: for the next Await. woken: there may be news; false: the time is over.
  using Answer = std::function<void(int64_t seen, bool woken)>;

  // More are not told apart: the one that has waited longest is answered.
  static constexpr size_t kAgentsMax = 20'000;

  // Answers at once if the agent was woken since `seen`; else when it is woken, another Await of the same agent comes,
  // or Expire is called with the ticket. 0: it has been answered.
  uint64_t Await(const std::string& agent_id, int64_t seen, Answer answer) LOCKS_EXCLUDED(mutex_);
  // Answers that the time is over, unless it was answered before.
  void Expire(const std::string& agent_id, uint64_t ticket) LOCKS_EXCLUDED(mutex_);
  // Of an agent that never waited here yet.
  int64_t Seen(const std::string& agent_id) const LOCKS_EXCLUDED(mutex_);

  void Wake(const std::string& agent_id) LOCKS_EXCLUDED(mutex_);
  void Wake(const std::vector<std::string>& agent_ids) LOCKS_EXCLUDED(mutex_);
  void WakeAll() LOCKS_EXCLUDED(mutex_);
  // The agent is gone.
  void Forget(const std::string& agent_id) LOCKS_EXCLUDED(mutex_);
  // Wakes all; from now on every Await is answered at once.
  void Close() LOCKS_EXCLUDED(mutex_);

 private:
  struct Waiter {
    int64_t wakes = 1;
    uint64_t ticket = 0;
    Answer answer;  // empty: does not wait
  };
  struct Told {
    Answer answer;
    int64_t seen = 0;
    bool woken = false;
  };

  static void Take(Waiter* waiter, bool woken, std::vector<Told>* told);
  static void Tell(const std::vector<Told>& told);

  mutable Mutex mutex_;
  bool closed_ GUARDED_BY(mutex_) = false;
  uint64_t tickets_ GUARDED_BY(mutex_) = 0;
  std::map<std::string, Waiter> waiters_ GUARDED_BY(mutex_);
};

}  // namespace tunefarm
