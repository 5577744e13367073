#include "server/base/thread.h"

#include <fmt/core.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

#include "server/base/check.h"
#include "server/base/log.h"

namespace tunefarm {
namespace {

void RunBody(const std::string& name, const std::function<void()>& body) {
  constexpr size_t kNameBytesMax = 15;  // What the kernel keeps.
  pthread_setname_np(pthread_self(), name.substr(0, kNameBytesMax).c_str());
  try {
    body();
  } catch (const std::exception& error) {
    internal::LogCritical(fmt::format("thread {} ended with an exception: {}", name, error.what()));
    std::abort();
  }
}

std::thread StartThread(std::string_view name, std::function<void()> body) {
  TUNEFARM_CHECK(body != nullptr);
  try {
    return std::thread([name = std::string(name), body = std::move(body)] { RunBody(name, body); });
  } catch (const std::system_error& error) {
    internal::LogCritical(fmt::format("cannot start thread {}: {}; raise the process limit", name, error.what()));
    std::abort();
  }
}

}  // namespace

Thread::Thread(std::string_view name, std::function<void()> body) : thread_(StartThread(name, std::move(body))) {}

Thread::~Thread() { Join(); }

Thread& Thread::operator=(Thread&& other) {
  if (this != &other) {
    Join();
    thread_ = std::move(other.thread_);
  }
  return *this;
}

void Thread::Join() {
  if (!thread_.joinable()) return;
  TUNEFARM_CHECK(!IsCurrent());
  thread_.join();
}

bool StartSleepingThread() {
  constexpr size_t kStackBytes = 128 << 10;
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  (void)pthread_attr_setstacksize(&attributes, kStackBytes);
  (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  const auto sleep = [](void*) -> void* {
    while (true) pause();
  };
  pthread_t thread;
  const bool started = pthread_create(&thread, &attributes, sleep, nullptr) == 0;
  (void)pthread_attr_destroy(&attributes);
  return started;
}

void YieldToOthers() {
  sched_param priority = {};
  if (sched_setscheduler(0, SCHED_IDLE, &priority) == 0) return;
  LogWarn("base", "a thread keeps its share of the processor: {}",
          std::error_code(errno, std::system_category()).message());
}

void LowerPriority(int nice) {
  // On Linux the nice value is a thread's own.
  if (setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), nice) == 0) return;
  LogWarn("base", "a thread keeps its priority: {}", std::error_code(errno, std::system_category()).message());
}

void Notification::Notify() {
  // Wakes the waiters under the lock: one that destroys this can do so only after the lock is free again.
  MutexLock lock(&mutex_);
  TUNEFARM_CHECK(!notified_);
  notified_ = true;
  condition_.NotifyAll();
}

bool Notification::HasBeenNotified() const {
  MutexLock lock(&mutex_);
  return notified_;
}

void Notification::WaitForNotification() const {
  MutexLock lock(&mutex_);
  while (!notified_) condition_.Wait(&mutex_);
}

bool Notification::WaitFor(Duration timeout) const {
  const MonotonicTime start = Clock::Real()->Now();
  MutexLock lock(&mutex_);
  while (!notified_) {
    const Duration left = timeout - (Clock::Real()->Now() - start);
    if (left <= Duration::zero()) return false;
    // In steps: the end of a very long wait would not fit the clock.
    condition_.WaitFor(&mutex_, std::min<Duration>(left, std::chrono::hours(1)));
  }
  return true;
}

}  // namespace tunefarm
