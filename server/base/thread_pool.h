// ThreadPool: a fixed number of threads that take tasks from one queue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "server/base/executor.h"
#include "server/base/mutex.h"
#include "server/base/thread.h"

namespace tunefarm {

// Tasks start in the order of Post, each as soon as a thread is free. Slow tasks start in the order of PostSlow, but
// for those whose owner has one running, on at most half of the threads. Post may be called from any thread and from a
// running task. Tasks must not throw.
class ThreadPool : public TaskRunner {
 public:
  // `threads` threads (at least 1), named "<name>-0" and so on. Each runs `on_start` first, if there is one.
  ThreadPool(std::string_view name, int threads, const std::function<void()>& on_start = {});
  // Tasks posted before still run, slow ones too; what they post is destroyed without running. Then joins. Must not be
  // called from one of its own tasks.
  ~ThreadPool() override;

  void Post(std::function<void()> task) override LOCKS_EXCLUDED(mutex_);
  void PostSlow(int64_t owner, std::function<void()> task) override LOCKS_EXCLUDED(mutex_);

 private:
  struct Task {
    std::function<void()> run;
    std::optional<int64_t> slow_owner;
  };

  void Run();
  // Blocks until there is a task to run. None: stopped and drained.
  std::optional<Task> NextTask() LOCKS_EXCLUDED(mutex_);
  std::deque<Task>::iterator NextSlow() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SlowEnded(int64_t owner) LOCKS_EXCLUDED(mutex_);

  const size_t slow_max_;  // that run at a time
  Mutex mutex_;
  CondVar wake_;
  bool is_stopped_ GUARDED_BY(mutex_) = false;
  std::deque<Task> tasks_ GUARDED_BY(mutex_);
  std::deque<Task> slow_ GUARDED_BY(mutex_);
  std::set<int64_t> slow_running_ GUARDED_BY(mutex_);  // owners

  // Last: they start after, and end before, everything above.
  std::vector<Thread> threads_;
};

}  // namespace tunefarm
