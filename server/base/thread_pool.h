// ThreadPool: a fixed number of threads that take tasks from one queue, and some more for tasks that take long.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/base/executor.h"
#include "server/base/mutex.h"
#include "server/base/thread.h"

namespace tunefarm {

// Threads of a pool for slow tasks alone; as the pool's others.
struct SlowThreads {
  std::string_view name;
  int count = 0;
  std::function<void()> on_start = nullptr;
};

// Tasks start in the order of Post, each as soon as a thread is free. Slow tasks start in the order of PostSlow on the
// threads that are for them alone, those of one owner on at most half of these; without such threads they are tasks as
// all others. Both may be called from any thread and from a running task. Tasks must not throw.
class ThreadPool : public TaskRunner {
 public:
  // `threads` threads (at least 1; 0 where all tasks are slow), named "<name>-0" and so on, and those of `slow`. Each
  // runs `on_start` first, if there is one.
  ThreadPool(std::string_view name, int threads, const std::function<void()>& on_start = {},
             const SlowThreads& slow = {});
  // Tasks posted before still run, slow ones too; what they post is destroyed without running. Then joins. Must not be
  // called from one of its own tasks.
  ~ThreadPool() override;

  void Post(std::function<void()> task) override LOCKS_EXCLUDED(mutex_);
  void PostSlow(std::string owner, std::function<void()> task) override LOCKS_EXCLUDED(mutex_);

 private:
  using SlowTask = std::pair<std::string, std::function<void()>>;  // and its owner

  // Blocks until there is a task to run. Null: stopped and drained.
  std::function<void()> NextTask() LOCKS_EXCLUDED(mutex_);
  // The same of slow tasks; its owner's count has grown.
  SlowTask NextSlowTask() LOCKS_EXCLUDED(mutex_);
  std::deque<SlowTask>::iterator FirstSlowTask() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunSlowTasks() LOCKS_EXCLUDED(mutex_);

  const bool has_slow_threads_;
  const int slow_of_owner_max_;  // that run at a time
  Mutex mutex_;
  CondVar wake_, wake_slow_;
  bool is_stopped_ GUARDED_BY(mutex_) = false;
  std::deque<std::function<void()>> tasks_ GUARDED_BY(mutex_);
  std::deque<SlowTask> slow_tasks_ GUARDED_BY(mutex_);
  std::map<std::string, int> slow_of_owner_ GUARDED_BY(mutex_);  // that run

  // Last: they start after, and end before, everything above.
  std::vector<Thread> threads_;
};

}  // namespace tunefarm
