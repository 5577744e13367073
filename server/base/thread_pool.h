// ThreadPool: a fixed number of threads that take tasks from one queue.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/base/executor.h"
#include "server/base/mutex.h"
#include "server/base/thread.h"

namespace tunefarm {

// Tasks start in the order of Post, each as soon as a thread is free. Slow tasks start in the order of PostSlow, on at
// most half of the threads, and those of one owner on at most half of these. Post may be called from any thread and
// from a running task. Tasks must not throw.
class ThreadPool : public TaskRunner {
 public:
  // `threads` threads (at least 1), named "<name>-0" and so on. Each runs `on_start` first, if there is one.
  ThreadPool(std::string_view name, int threads, const std::function<void()>& on_start = {});
  // Tasks posted before still run, slow ones too; what they post is destroyed without running. Then joins. Must not be
  // called from one of its own tasks.
  ~ThreadPool() override;

  void Post(std::function<void()> task) override LOCKS_EXCLUDED(mutex_);
  void PostSlow(std::string owner, std::function<void()> task) override LOCKS_EXCLUDED(mutex_);

 private:
  struct Task {
    std::function<void()> run;
    std::optional<std::string> slow_owner;
  };

  void Run();
  // Blocks until there is a task to run. None: stopped and drained.
  std::optional<Task> NextTask() LOCKS_EXCLUDED(mutex_);
  std::deque<Task>::iterator NextSlow() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SlowEnded(const std::string& owner) LOCKS_EXCLUDED(mutex_);

  // How many slow tasks run at a time, and of one owner.
  const int slow_max_, slow_of_owner_max_;
  Mutex mutex_;
  CondVar wake_;
  bool is_stopped_ GUARDED_BY(mutex_) = false;
  std::deque<Task> tasks_ GUARDED_BY(mutex_);
  std::deque<Task> slow_ GUARDED_BY(mutex_);
  int slow_running_ GUARDED_BY(mutex_) = 0;
  std::map<std::string, int> slow_of_owner_ GUARDED_BY(mutex_);  // that run

  // Last: they start after, and end before, everything above.
  std::vector<Thread> threads_;
};

}  // namespace tunefarm
