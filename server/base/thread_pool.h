// ThreadPool: a fixed number of threads that take tasks from one queue, and some more for tasks that take long.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
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

// Tasks start in the order in which they were posted, each as soon as a thread is free, but for those that have an
// owner: these take turns with others' (the owner with the fewest running tasks comes first), and leave one thread free
// of them. Slow tasks run on the threads that are for them alone, those of one owner on at most half of these; without
// such threads they are tasks as all others. All methods may be called from any thread and from a running task. Tasks
// must not throw.
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
  void PostFor(std::string owner, std::function<void()> task) override LOCKS_EXCLUDED(mutex_);
  void PostSlow(std::string owner, std::function<void()> task) override LOCKS_EXCLUDED(mutex_);

 private:
  struct Task {
    std::string owner;  // "": nobody
    std::function<void()> run;
  };
  // Tasks that have not begun, and what their threads need to know of those that run.
  struct Queue {
    int owner_max = 1;  // tasks of one owner that run at a time
    CondVar wake;
    std::deque<Task> tasks;
    std::map<std::string, int> running;  // by owner
  };

  void StartThreads(std::string_view name, int count, const std::function<void()>& on_start, Queue* queue);
  void Put(Queue* queue, Task task) LOCKS_EXCLUDED(mutex_);
  // Blocks until there is a task to run. Its owner's count has grown. `run` is null: stopped and drained.
  Task Next(Queue* queue) LOCKS_EXCLUDED(mutex_);
  // The next task whose owner may run one more; end() where there is none.
  static std::deque<Task>::iterator First(Queue* queue);
  void Run(Queue* queue) LOCKS_EXCLUDED(mutex_);

  const bool has_slow_threads_;
  Mutex mutex_;
  bool is_stopped_ GUARDED_BY(mutex_) = false;
  Queue tasks_, slow_tasks_;  // under mutex_

  // Last: they start after, and end before, everything above.
  std::vector<Thread> threads_;
};

}  // namespace tunefarm
