#include "server/exec/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "server/base/check.h"

namespace tunefarm {
namespace {

constexpr uint64_t kWakeId = 0;

}  // namespace

EventLoop::EventLoop(std::string_view name, Clock* clock)
    : clock_(clock), epoll_(epoll_create1(EPOLL_CLOEXEC)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  TUNEFARM_CHECK(epoll_.valid() && wake_.valid());  // Only without descriptors, at the daemon's start.
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = kWakeId;
  TUNEFARM_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) == 0);
  thread_ = Thread(name, [this] {
    constructed_.WaitForNotification();
    Run();
  });
  constructed_.Notify();
}

EventLoop::~EventLoop() {
  Stop();
  thread_.Join();
}

void EventLoop::Stop() {
  decltype(tasks_.TakeTimers()) dropped;  // Destroyed after the lock is released.
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
    dropped = tasks_.TakeTimers();
  }
  Wake();
}

void EventLoop::Wake() {
  // The loop looks for tasks before it waits, and a wake that it has not answered yet will make it look.
  if (IsCurrent() || wake_pending_.exchange(true)) return;
  const uint64_t one = 1;
  // Fails only when the counter is full, and then the loop is awake already.
  (void)!write(wake_.get(), &one, sizeof(one));
}

void EventLoop::Post(std::function<void()> task) {
  TUNEFARM_CHECK(task != nullptr);
  {
    MutexLock lock(&mutex_);
    if (stopped_) return;
    tasks_.Post(std::move(task));
  }
  Wake();
}

TimerId EventLoop::PostAfter(Duration delay, std::function<void()> task) {
  TUNEFARM_CHECK(task != nullptr);
  TimerId id;
  {
    MutexLock lock(&mutex_);
    if (stopped_) return tasks_.NextId();
    id = tasks_.PostAfter(clock_->Now(), delay, std::move(task));
  }
  Wake();
  return id;
}

bool EventLoop::Cancel(TimerId timer) {
  std::function<void()> dropped;  // Destroyed after the lock is released.
  MutexLock lock(&mutex_);
  dropped = tasks_.Cancel(timer);
  return dropped != nullptr;
}

EventLoop::WatchId EventLoop::Watch(int fd, uint32_t events, std::function<void(uint32_t)> ready) {
  TUNEFARM_CHECK(IsCurrent());
  const WatchId id = ++last_watch_;
  epoll_event event = {};
  event.events = events;
  event.data.u64 = id;
  // Fails only for a descriptor that is closed or watched already, or without kernel memory.
  TUNEFARM_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0);
  watches_.emplace(id, Watched{fd, std::make_shared<std::function<void(uint32_t)>>(std::move(ready))});
  return id;
}

void EventLoop::Unwatch(WatchId watch) {
  TUNEFARM_CHECK(IsCurrent());
  const auto it = watches_.find(watch);
  if (it == watches_.end()) return;
  (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, it->second.fd, nullptr);
  watches_.erase(it);
}

void EventLoop::WatchHangUpOnly(WatchId watch) {
  TUNEFARM_CHECK(IsCurrent());
  const auto it = watches_.find(watch);
  if (it == watches_.end()) return;
  epoll_event event = {};
  event.events = 0;
  event.data.u64 = watch;
  TUNEFARM_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, it->second.fd, &event) == 0);
}

int EventLoop::PollTimeout() {
  MutexLock lock(&mutex_);
  const MonotonicTime now = clock_->Now();
  tasks_.MoveDue(now);
  if (tasks_.ready() > 0 || stopped_) return 0;
  const auto due = tasks_.NextDue();
  if (!due.has_value()) return -1;
  const int64_t ms = std::chrono::duration_cast<std::chrono::milliseconds>(*due - now).count() + 1;  // Never too early.
  return static_cast<int>(std::clamp<int64_t>(ms, 0, 3'600'000));
}

bool EventLoop::RunTasks() {
  // Only what is there now: a task that keeps posting must not starve the descriptors.
  size_t count;
  {
    MutexLock lock(&mutex_);
    tasks_.MoveDue(clock_->Now());
    count = tasks_.ready();
    if (stopped_ && count == 0) return false;
  }
  for (; count > 0; --count) {
    std::function<void()> task;
    {
      MutexLock lock(&mutex_);
      if (tasks_.ready() == 0) break;  // Cancelled meanwhile.
      task = tasks_.Take();
    }
    task();
  }
  return true;
}

void EventLoop::Run() {
  std::array<epoll_event, 64> events;
  while (RunTasks()) {
    const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), PollTimeout());
    TUNEFARM_CHECK(count >= 0 || errno == EINTR);
    for (int i = 0; i < count; ++i) {
      const uint64_t id = events[static_cast<size_t>(i)].data.u64;
      if (id == kWakeId) {
        uint64_t value;
        (void)!read(wake_.get(), &value, sizeof(value));
        wake_pending_.store(false);
        continue;
      }
      const auto it = watches_.find(id);
      if (it == watches_.end()) continue;  // Unwatched by an earlier event of this round.
      const auto ready = it->second.ready;
      (*ready)(events[static_cast<size_t>(i)].events);
    }
  }
  watches_.clear();
}

}  // namespace tunefarm
