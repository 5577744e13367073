#pragma once

// Where tasks run. On an Executor they run one after another: it is where the project's state machines live, and a
// component that owns one needs no lock for what only its tasks touch. A TaskRunner promises no order: it is for what
// takes long and touches nothing else (thread_pool.h).

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/base/task_queue.h"
#include "server/base/thread.h"

namespace tunefarm {

// Runs each task once, possibly several at a time, in any order. Post may be called from any thread and from a running
// task; it runs no task itself. A runner outlives the components that post to it, and a task must own or outlast what
// it touches. Tasks must not throw.
class TaskRunner {
 public:
  virtual ~TaskRunner() = default;

  virtual void Post(std::function<void()> task) = 0;
  // The same for a task of one of several owners: a runner with several threads lets owners take turns.
  virtual void PostFor(std::string /*owner*/, std::function<void()> task) { Post(std::move(task)); }
  // The same for a task that may take minutes: a runner with several threads keeps some of them free for other tasks,
  // and some of the others for other owners.
  virtual void PostSlow(std::string /*owner*/, std::function<void()> task) { Post(std::move(task)); }
};

// Runs tasks one after another, never two at once, in the order of Post. All methods may be called from any thread and
// from a running task; none of them runs a task itself. An executor outlives the components that post to it, and a
// task must own or outlast what it touches. Tasks must not throw.
class Executor : public TaskRunner {
 public:
  // Runs the task at or after now + delay (a negative delay counts as 0). Timers of one due time run in the order of
  // the PostAfter calls; a due timer queues behind the tasks already posted.
  virtual TimerId PostAfter(Duration delay, std::function<void()> task) = 0;

  // True: the task has not started and never will. False: it ran, is running (also when called from within it), was
  // cancelled before, or the id is unknown.
  virtual bool Cancel(TimerId timer) = 0;

  // The clock that timers follow. Never null.
  virtual Clock* clock() = 0;
};

// An executor with a thread of its own. The clock must advance with real time (timers sleep for real); it must outlive
// the executor.
class ThreadExecutor : public Executor {
 public:
  ThreadExecutor(std::string_view name, Clock* clock);

  // Stop(), then joins: what was posted before Stop has run by then. Must not be called from one of its own tasks.
  ~ThreadExecutor() override;

  // Closes the queue without waiting. Tasks posted before still run; timers not yet due, and everything posted
  // afterwards (also by the tasks still running), are destroyed without running. May be called again.
  void Stop() LOCKS_EXCLUDED(mutex_);

  void Post(std::function<void()> task) override LOCKS_EXCLUDED(mutex_);
  // After Stop it returns an id whose task never runs.
  TimerId PostAfter(Duration delay, std::function<void()> task) override LOCKS_EXCLUDED(mutex_);
  bool Cancel(TimerId timer) override LOCKS_EXCLUDED(mutex_);
  Clock* clock() override { return clock_; }

 private:
  void Run() LOCKS_EXCLUDED(mutex_);
  // Blocks until there is a task to run. Null: stopped and drained.
  std::function<void()> NextTask() LOCKS_EXCLUDED(mutex_);

  // Constant after construction.
  Clock* const clock_;

  Mutex mutex_;
  CondVar wake_;
  bool stopped_ GUARDED_BY(mutex_) = false;
  TaskQueue tasks_ GUARDED_BY(mutex_);

  // Last: it starts after, and ends before, everything above.
  Thread thread_;
};

}  // namespace tunefarm
