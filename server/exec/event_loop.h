#pragma once

// The supervisor's loop: an executor with a thread of its own that also watches descriptors. Every worker process is
// spawned, read, timed, killed and reaped on this one thread, so none of that needs a lock; and PR_SET_PDEATHSIG of the
// workers, which fires when the spawning THREAD ends, means the death of the daemon.

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string_view>

#include "server/base/clock.h"
#include "server/base/executor.h"
#include "server/base/mutex.h"
#include "server/base/thread.h"
#include "server/base/unique_fd.h"

namespace tunefarm {

class EventLoop : public Executor {
 public:
  using WatchId = uint64_t;  // 0 is never issued

  // The clock must advance with real time and outlive the loop.
  EventLoop(std::string_view name, Clock* clock);
  // Stop(), then joins: what was posted before Stop has run by then.
  ~EventLoop() override;

  // As ThreadExecutor::Stop: tasks posted before still run; timers, watches and later posts never do.
  void Stop() LOCKS_EXCLUDED(mutex_);

  void Post(std::function<void()> task) override LOCKS_EXCLUDED(mutex_);
  TimerId PostAfter(Duration delay, std::function<void()> task) override LOCKS_EXCLUDED(mutex_);
  bool Cancel(TimerId timer) override LOCKS_EXCLUDED(mutex_);
  Clock* clock() override { return clock_; }

  bool IsCurrent() const { return thread_.IsCurrent(); }

  // Calls `ready` with the epoll events whenever there are any (level-triggered; hang-up and error always count). The
  // descriptor must stay open until Unwatch. Loop thread only (checked).
  WatchId Watch(int fd, uint32_t events, std::function<void(uint32_t events)> ready);
  // No call of `ready` begins after this returns; it may be called from within one. Unknown ids are ignored.
  void Unwatch(WatchId watch);
  // Watches for hang-up and error only, from now on.
  void WatchHangUpOnly(WatchId watch);

 private:
  struct Watched {
    int fd;
    std::shared_ptr<std::function<void(uint32_t)>> ready;  // shared: it may unwatch itself while it runs
  };

  void Run();
  void Wake();
  // Moves due timers behind the tasks. Milliseconds until there is something to do; 0 at once, -1 never.
  int PollTimeout() LOCKS_EXCLUDED(mutex_);
  // False: stopped and drained.
  bool RunTasks() LOCKS_EXCLUDED(mutex_);

  // Constant after construction.
  Clock* const clock_;
  UniqueFd epoll_;
  UniqueFd wake_;
  std::atomic<bool> wake_pending_{false};

  // Loop thread only.
  WatchId last_watch_ = 0;
  std::map<WatchId, Watched> watches_;

  Mutex mutex_;
  bool stopped_ GUARDED_BY(mutex_) = false;
  TaskQueue tasks_ GUARDED_BY(mutex_);

  // The body waits for it before it uses thread_ through IsCurrent.
  Notification constructed_;
  // Last: it starts after, and ends before, everything above.
  Thread thread_;
};

}  // namespace tunefarm
