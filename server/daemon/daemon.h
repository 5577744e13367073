// Daemon: what main starts and ends, whatever its role: the whole (control and an agent in one process), control alone,
// or an agent alone.
//
// Threads: Start, and all methods but the callbacks it hands out, from the main thread.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/xdg.h"
#include "server/daemon/config.h"

namespace tunefarm {

class Executor;

class Daemon {
 public:
  // In the configuration's role. One clear sentence for every refusal.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(const DaemonConfig& config,
                                                       const EnvironmentGetter& environment);

  // Kills what runs. After Drain it has nothing left to kill.
  virtual ~Daemon() = default;

  // Finishes and reports the running trials; new claims and calls are refused meanwhile. Returns at once; `done` comes
  // on another thread.
  virtual void Drain(std::function<void()> done) = 0;
  // Nothing to do, for as long as the configuration allows.
  virtual bool IsIdleTooLong() = 0;
  // Whether a client asked for a stop that does not wait for the running trials.
  virtual bool stop_immediately() const = 0;
  // Whose threads must never be busy for long. Not `control`, which builds spaces. They live as long as this.
  virtual std::vector<Executor*> vital_executors() const = 0;
};

}  // namespace tunefarm
