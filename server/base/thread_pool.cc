#include "server/base/thread_pool.h"

#include <fmt/core.h>

#include <utility>

#include "server/base/check.h"

namespace tunefarm {

ThreadPool::ThreadPool(std::string_view name, int threads, const std::function<void()>& on_start) {
  TUNEFARM_CHECK(threads > 0);
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back(fmt::format("{}-{}", name, i), [this, on_start] {
      if (on_start) on_start();
      while (std::function<void()> task = NextTask()) task();
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
  tasks_.push_back(std::move(task));
  wake_.NotifyOne();
}

std::function<void()> ThreadPool::NextTask() {
  MutexLock lock(&mutex_);
  while (tasks_.empty() && !is_stopped_) wake_.Wait(&mutex_);
  if (tasks_.empty()) return nullptr;
  std::function<void()> task = std::move(tasks_.front());
  tasks_.pop_front();
  return task;
}

}  // namespace tunefarm
