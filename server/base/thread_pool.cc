#include "server/base/thread_pool.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "server/base/check.h"

namespace tunefarm {

ThreadPool::ThreadPool(std::string_view name, int threads, const std::function<void()>& on_start,
                       const SlowThreads& slow)
    : has_slow_threads_(slow.count > 0), slow_of_owner_max_(std::max(1, slow.count / 2)) {
  TUNEFARM_CHECK(threads > 0 || slow.count > 0);
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back(fmt::format("{}-{}", name, i), [this, on_start] {
      if (on_start) on_start();
      while (std::function<void()> task = NextTask()) task();
    });
  }
  for (int i = 0; i < slow.count; ++i) {
    threads_.emplace_back(fmt::format("{}-{}", slow.name, i), [this, on_start = slow.on_start] {
      if (on_start) on_start();
      RunSlowTasks();
    });
  }
}

ThreadPool::~ThreadPool() {
  {
    MutexLock lock(&mutex_);
    is_stopped_ = true;
    wake_.NotifyAll();
    wake_slow_.NotifyAll();
  }
  for (Thread& thread : threads_) thread.Join();
}

void ThreadPool::Post(std::function<void()> task) {
  TUNEFARM_CHECK(task != nullptr);
  MutexLock lock(&mutex_);
  if (is_stopped_) return;
  tasks_.push_back(std::move(task));
  wake_.NotifyOne();
}

void ThreadPool::PostSlow(std::string owner, std::function<void()> task) {
  if (!has_slow_threads_) {
    Post(std::move(task));
    return;
  }
  TUNEFARM_CHECK(task != nullptr);
  MutexLock lock(&mutex_);
  if (is_stopped_) return;
  slow_tasks_.emplace_back(std::move(owner), std::move(task));
  wake_slow_.NotifyOne();
}

std::function<void()> ThreadPool::NextTask() {
  MutexLock lock(&mutex_);
  while (tasks_.empty() && !is_stopped_) wake_.Wait(&mutex_);
  if (tasks_.empty()) return nullptr;
  std::function<void()> task = std::move(tasks_.front());
  tasks_.pop_front();
  return task;
}

ThreadPool::SlowTask ThreadPool::NextSlowTask() {
  MutexLock lock(&mutex_);
  while (true) {
    if (const auto first = FirstSlowTask(); first != slow_tasks_.end()) {
      SlowTask task = std::move(*first);
      slow_tasks_.erase(first);
      ++slow_of_owner_[task.first];
      return task;
    }
    // What is left is of owners that have tasks running: the threads that run these take it.
    if (is_stopped_) return {};
    wake_slow_.Wait(&mutex_);
  }
}

std::deque<ThreadPool::SlowTask>::iterator ThreadPool::FirstSlowTask() {
  for (auto task = slow_tasks_.begin(); task != slow_tasks_.end(); ++task) {
    const auto running = slow_of_owner_.find(task->first);
    if (running == slow_of_owner_.end() || running->second < slow_of_owner_max_) return task;
  }
  return slow_tasks_.end();
}

void ThreadPool::RunSlowTasks() {
  while (true) {
    SlowTask task = NextSlowTask();
    if (task.second == nullptr) return;
    task.second();
    task.second = nullptr;  // what it owns goes before another one of its owner begins
    MutexLock lock(&mutex_);
    if (--slow_of_owner_[task.first] == 0) slow_of_owner_.erase(task.first);
    wake_slow_.NotifyOne();
  }
}

}  // namespace tunefarm
