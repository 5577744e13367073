// Watchdog: proof for a service manager that the daemon's threads go round (sd_notify(3), WATCHDOG=1). A hung daemon
// sends none and is restarted.
//
// Of one thread, the main one; the executors' threads answer it. The executors outlive it, or run what was posted
// before they end.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "server/base/clock.h"
#include "server/base/executor.h"
#include "server/base/xdg.h"

namespace tunefarm {

// How often the service manager wants to hear (WATCHDOG_USEC), if it asks this process (WATCHDOG_PID) to tell it.
std::optional<Duration> WatchdogPeriod(const EnvironmentGetter& environment, int64_t pid);

class Watchdog {
 public:
  // `tell` is called on one of the executors' threads, each time when all of them have answered.
  Watchdog(std::vector<Executor*> executors, Duration period, Clock* clock, std::function<void()> tell);

  // To be called often. Twice in each period asks the executors, unless the answers to the last question are missing:
  // a stuck thread gets one task and not a queue of them.
  void Poll();

 private:
  // Shared with the tasks, which may end after the watchdog.
  struct Round {
    std::function<void()> tell;
    std::atomic<size_t> missing{0};
  };

  const std::vector<Executor*> executors_;
  const Duration between_;
  Clock* const clock_;
  const std::shared_ptr<Round> round_;
  std::optional<MonotonicTime> asked_;
};

}  // namespace tunefarm
