// Tarpit: keeps refusals back for a while. A peer with a hundred calls in flight that calls again as soon as it is
// refused would otherwise have the processor for as long as it likes.
//
// Threads: all methods from any thread.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>

#include "server/base/clock.h"
#include "server/base/executor.h"
#include "server/base/mutex.h"

namespace tunefarm {

class Tarpit {
 public:
  // Refusals that are kept back at a time; each holds a call of the transport, which takes some 20 KiB.
  static constexpr size_t kHeldMax = 2048;

  // The executor outlives it and runs no task of it after Drain and its own end.
  Tarpit(Executor* executor, Duration delay) : executor_(executor), delay_(delay) {}
  // Drained.
  ~Tarpit();
  Tarpit(const Tarpit&) = delete;
  Tarpit& operator=(const Tarpit&) = delete;

  // Calls `refuse` once: after the delay on the executor, or at once where kHeldMax are kept back, or after Drain.
  void Hold(std::function<void()> refuse) LOCKS_EXCLUDED(mutex_);
  // Calls all that are kept back, and from now on each at once.
  void Drain() LOCKS_EXCLUDED(mutex_);

 private:
  struct Held {
    MonotonicTime due;
    std::function<void()> refuse;
  };

  void Release() LOCKS_EXCLUDED(mutex_);

  Executor* const executor_;
  const Duration delay_;
  Mutex mutex_;
  bool is_drained_ GUARDED_BY(mutex_) = false;
  std::deque<Held> held_ GUARDED_BY(mutex_);  // a timer is set for the first
};

}  // namespace tunefarm
