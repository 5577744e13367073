// LateRefusals: when a call is told that it is refused. A caller whose calls are refused often is told so late, and has
// its places in flight taken until then: who repeats such calls without end takes little of the machine's processors,
// in the daemon as in the kernel and in clients of the same machine.
//
// Threads: all methods from any thread.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <unordered_map>

#include "server/base/clock.h"
#include "server/base/executor.h"
#include "server/base/mutex.h"

namespace tunefarm {

class LateRefusals {
 public:
  // Of one caller: so many refusals are sent at once; after them one in each interval, the others in their order.
  static constexpr int kAtOnceMax = 20;
  static constexpr Duration kInterval = std::chrono::milliseconds(50);
  // None is later than this.
  static constexpr Duration kLateMax = std::chrono::seconds(5);
  // That wait, of all callers; the next ones are sent at once.
  static constexpr int kHeldMax = 2048;

  // The executor ends before it does, so that none of its tasks comes later.
  explicit LateRefusals(Executor* executor);
  // No refusal waits: after End.
  ~LateRefusals();
  LateRefusals(const LateRefusals&) = delete;
  LateRefusals& operator=(const LateRefusals&) = delete;

  // Calls `send` once: before it returns, or later on the executor. `caller`: the principal's name; all who have
  // none count as one, the empty name. `time_left`: until the call's deadline, of which at most a half is taken, so
  // that an honest caller reads why it is refused; not positive: there is no use in waiting.
  void Send(const std::string& caller, Duration time_left, std::function<void()> send) LOCKS_EXCLUDED(mutex_);
  // Sends those that wait, and from now on each at once.
  void End() LOCKS_EXCLUDED(mutex_);

 private:
  // How long the next refusal of the caller waits.
  Duration Next(const std::string& caller, MonotonicTime now) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendDue() LOCKS_EXCLUDED(mutex_);
  void Schedule() EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Executor* const executor_;
  Mutex mutex_;
  bool is_ended_ GUARDED_BY(mutex_) = false;
  bool is_scheduled_ GUARDED_BY(mutex_) = false;  // SendDue will come
  // When the refusals so far are paid for, an interval each (a leaky bucket).
  std::unordered_map<std::string, MonotonicTime> paid_at_ GUARDED_BY(mutex_);
  std::multimap<MonotonicTime, std::function<void()>> held_ GUARDED_BY(mutex_);
};

}  // namespace tunefarm
