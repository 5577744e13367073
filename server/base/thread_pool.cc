#include "server/base/thread_pool.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "server/base/check.h"

namespace tunefarm {

ThreadPool::ThreadPool(std::string_view name, int threads, const std::function<void()>& on_start,
                       const SlowThreads& slow)
    : has_slow_threads_(slow.count > 0) {
  TUNEFARM_CHECK(threads > 0 || slow.count > 0);
  tasks_.owner_max = std::max(1, threads - 1);
  slow_tasks_.owner_max = std::max(1, slow.count / 2);
  StartThreads(name, threads, on_start, &tasks_);
  StartThreads(slow.name, slow.count, slow.on_start, &slow_tasks_);
}

void ThreadPool::StartThreads(std::string_view name, int count, const std::function<void()>& on_start, Queue* queue) {
  for (int i = 0; i < count; ++i) {
    threads_.emplace_back(fmt::format("{}-{}", name, i), [this, on_start, queue] {
      if (on_start) on_start();
      Run(queue);
    });
  }
}

ThreadPool::~ThreadPool() {
  {
    MutexLock lock(&mutex_);
    is_stopped_ = true;
    tasks_.wake.NotifyAll();
    slow_tasks_.wake.NotifyAll();
  }
  for (Thread& thread : threads_) thread.Join();
}

void ThreadPool::Post(std::function<void()> task) { Put(&tasks_, {"", std::move(task)}); }

void ThreadPool::PostFor(std::string owner, std::function<void()> task) {
  Put(&tasks_, {std::move(owner), std::move(task)});
}

void ThreadPool::PostSlow(std::string owner, std::function<void()> task) {
  Put(has_slow_threads_ ? &slow_tasks_ : &tasks_, {std::move(owner), std::move(task)});
}

void ThreadPool::Put(Queue* queue, Task task) {
  TUNEFARM_CHECK(task.run != nullptr);
  MutexLock lock(&mutex_);
  if (is_stopped_) return;
  queue->tasks.push_back(std::move(task));
  queue->wake.NotifyOne();
}

ThreadPool::Task ThreadPool::Next(Queue* queue) {
  MutexLock lock(&mutex_);
  while (true) {
    if (const auto first = First(queue); first != queue->tasks.end()) {
      Task task = std::move(*first);
      queue->tasks.erase(first);
      if (!task.owner.empty()) ++queue->running[task.owner];
      return task;
    }
    // What is left is of owners that have tasks running: the threads that run these take it.
    if (is_stopped_) return {};
    queue->wake.Wait(&mutex_);
  }
}

std::deque<ThreadPool::Task>::iterator ThreadPool::First(Queue* queue) {
  auto first = queue->tasks.end();
  int fewest = queue->owner_max;
  for (auto task = queue->tasks.begin(); task != queue->tasks.end() && fewest > 0; ++task) {
    const auto running = queue->running.find(task->owner);
    const int count = running == queue->running.end() ? 0 : running->second;
    if (count >= fewest) continue;
    first = task;
    fewest = count;
  }
  return first;
}

void ThreadPool::Run(Queue* queue) {
  while (true) {
    Task task = Next(queue);
    if (task.run == nullptr) return;
    task.run();
    task.run = nullptr;  // what it owns goes before another one of its owner begins
    if (task.owner.empty()) continue;
    MutexLock lock(&mutex_);
    if (const auto running = queue->running.find(task.owner); --running->second == 0) queue->running.erase(running);
    queue->wake.NotifyOne();
  }
}

}  // namespace tunefarm
