#include "server/base/thread_pool.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "server/base/check.h"

namespace tunefarm {

ThreadPool::ThreadPool(std::string_view name, int threads, const std::function<void()>& on_start)
    : slow_max_(std::max(1, threads / 2)), slow_of_owner_max_(std::max(1, slow_max_ / 2)) {
  TUNEFARM_CHECK(threads > 0);
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back(fmt::format("{}-{}", name, i), [this, on_start] {
      if (on_start) on_start();
      Run();
    });
  }
}

ThreadPool::~ThreadPool() {
  {
    MutexLock lock(&mutex_);
    is_stopped_ = true;
    wake_.NotifyAll();
  }
  for (Thread& thread : threads_) thread.Join();
}

void ThreadPool::Post(std::function<void()> task) {
  TUNEFARM_CHECK(task != nullptr);
  MutexLock lock(&mutex_);
  if (is_stopped_) return;
  tasks_.push_back({std::move(task), std::nullopt});
  wake_.NotifyOne();
}

void ThreadPool::PostSlow(std::string owner, std::function<void()> task) {
  TUNEFARM_CHECK(task != nullptr);
  MutexLock lock(&mutex_);
  if (is_stopped_) return;
  slow_.push_back({std::move(task), std::move(owner)});
  wake_.NotifyOne();
}

void ThreadPool::Run() {
  while (std::optional<Task> task = NextTask()) {
    task->run();
    task->run = nullptr;  // what it owns goes before the next one waits
    if (task->slow_owner.has_value()) SlowEnded(*task->slow_owner);
  }
}

std::optional<ThreadPool::Task> ThreadPool::NextTask() {
  MutexLock lock(&mutex_);
  while (true) {
    if (!tasks_.empty()) {
      Task task = std::move(tasks_.front());
      tasks_.pop_front();
      return task;
    }
    if (const auto slow = NextSlow(); slow != slow_.end()) {
      Task task = std::move(*slow);
      slow_.erase(slow);
      ++slow_running_;
      ++slow_of_owner_[*task.slow_owner];
      return task;
    }
    // The threads that run slow tasks see to those that are left.
    if (is_stopped_) return std::nullopt;
    wake_.Wait(&mutex_);
  }
}

std::deque<ThreadPool::Task>::iterator ThreadPool::NextSlow() {
  if (slow_running_ >= slow_max_) return slow_.end();
  for (auto task = slow_.begin(); task != slow_.end(); ++task) {
    const auto running = slow_of_owner_.find(*task->slow_owner);
    if (running == slow_of_owner_.end() || running->second < slow_of_owner_max_) return task;
  }
  return slow_.end();
}

void ThreadPool::SlowEnded(const std::string& owner) {
  MutexLock lock(&mutex_);
  --slow_running_;
  if (--slow_of_owner_[owner] == 0) slow_of_owner_.erase(owner);
  wake_.NotifyOne();
}

}  // namespace tunefarm
