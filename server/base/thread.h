#pragma once

// The project's only thread, and the one-shot event to wait for one.

#include <functional>
#include <string_view>
#include <thread>

#include "server/base/clock.h"
#include "server/base/mutex.h"

namespace tunefarm {

// A named thread that is joined when this is destroyed: make sure that its body ends first. An exception that leaves
// the body aborts the process with a log line. Owned and joined by one thread, never by itself.
class Thread {
 public:
  // No thread yet; Join() and the destructor do nothing.
  Thread() = default;
  // Starts at once. The kernel shows the first 15 bytes of the name. Aborts when the system has no thread left.
  Thread(std::string_view name, std::function<void()> body);
  ~Thread();
  Thread(Thread&&) = default;
  // Joins the thread held so far.
  Thread& operator=(Thread&& other);
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  // Returns once the body has returned. May be called again.
  void Join();

  // True when called from the body of this thread.
  bool IsCurrent() const { return thread_.get_id() == std::this_thread::get_id(); }

 private:
  std::thread thread_;
};

// Starts a thread that sleeps until the process ends, for processes that measure what such threads cost. False when the
// system has no thread left.
bool StartSleepingThread();

// From now on the calling thread, and every thread and process that it starts, gets only processor time that nobody
// else on the machine wants (Linux SCHED_IDLE). Cannot be taken back. Without the right to (some containers) nothing
// changes, and a warning is logged.
void YieldToOthers();

// From now on the calling thread, and every thread that it starts, gets less processor time than others where there is
// too little: about a third with a nice value of 5, a tenth with 10. Cannot be taken back.
void LowerPriority(int nice);

// Happens once. Thread-safe. The waiter may destroy it as soon as the wait has returned true.
class Notification {
 public:
  Notification() = default;
  Notification(const Notification&) = delete;
  Notification& operator=(const Notification&) = delete;

  // Must be called at most once (checked).
  void Notify() LOCKS_EXCLUDED(mutex_);
  bool HasBeenNotified() const LOCKS_EXCLUDED(mutex_);
  void WaitForNotification() const LOCKS_EXCLUDED(mutex_);
  // True when notified within `timeout` of real time.
  bool WaitFor(Duration timeout) const LOCKS_EXCLUDED(mutex_);

 private:
  mutable Mutex mutex_;
  mutable CondVar condition_;
  bool notified_ GUARDED_BY(mutex_) = false;
};

}  // namespace tunefarm
