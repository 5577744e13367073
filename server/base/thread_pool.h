// ThreadPool: a fixed number of threads that take tasks from one queue.
#pragma once

#include <deque>
#include <functional>
#include <string_view>
#include <vector>

#include "server/base/executor.h"
#include "server/base/mutex.h"
#include "server/base/thread.h"

namespace tunefarm {

// Tasks start in the order of Post, each as soon as a thread is free. Post may be called from any thread and from a
// running task. Tasks must not throw.
class ThreadPool : public TaskRunner {
 public:
  // `threads` threads (at least 1), named "<name>-0" and so on. Each runs `on_start` first, if there is one.
  ThreadPool(std::string_view name, int threads, const std::function<void()>& on_start = {});
  // Tasks posted before still run; what they post is destroyed without running. Then joins. Must not be called from
  // one of its own tasks.
  ~ThreadPool() override;

  void Post(std::function<void()> task) override LOCKS_EXCLUDED(mutex_);

 private:
  // Blocks until there is a task to run. Null: stopped and drained.
  std::function<void()> NextTask() LOCKS_EXCLUDED(mutex_);

  Mutex mutex_;
  CondVar wake_;
  bool is_stopped_ GUARDED_BY(mutex_) = false;
  std::deque<std::function<void()>> tasks_ GUARDED_BY(mutex_);

  // Last: they start after, and end before, everything above.
  std::vector<Thread> threads_;
};

}  // namespace tunefarm
