// Daemon: the composition root. Makes every part, connects them, and takes them down in an order in which nothing
// acknowledged is lost.
//
// Threads: Start, and all methods but the callbacks it hands out, from the main thread.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/agent/agent.h"
#include "server/api/api.h"
#include "server/base/executor.h"
#include "server/base/file.h"
#include "server/base/socket_paths.h"
#include "server/base/xdg.h"
#include "server/daemon/config.h"
#include "server/daemon/device_watch.h"
#include "server/daemon/monitoring.h"
#include "server/daemon/upkeep.h"
#include "server/exec/process_evaluator.h"
#include "server/jobs/job_service.h"
#include "server/rpc/server.h"
#include "server/store/store.h"

namespace tunefarm {

class Daemon {
 public:
  // Locks the data directory, opens the store, probes the devices, takes unfinished jobs up, listens. One clear
  // sentence for every refusal: another daemon, a read-only or network directory, a newer database, an address in use.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(const DaemonConfig& config,
                                                       const EnvironmentGetter& environment);

  // Kills what is in hand. After Drain it has nothing left to kill.
  ~Daemon();

  // Finishes and reports the trials in hand; new claims and calls are refused meanwhile. Returns at once; `done` comes
  // on another thread.
  void Drain(std::function<void()> done);

  // No jobs, no calls, for as long as the configuration allows.
  bool IsIdleTooLong();

  // Whose threads must never be busy for long. Not `control`, which builds spaces. They live as long as this.
  std::vector<Executor*> vital_executors() const;

  // Whether a client asked for a stop that does not wait for the trials in hand.
  bool stop_immediately() const { return stop_immediately_.load(); }

 private:
  Daemon(const DaemonConfig& config, const EnvironmentGetter& environment);
  absl::Status Open();
  absl::Status OpenDirectories();
  absl::Status ProbeAndRegister();
  absl::Status Listen();
  ProcessEvaluatorOptions EvaluatorOptions() const;
  absl::Status Monitor();
  v1::GetServerInfoResponse Info();
  absl::StatusOr<v1::CreateBackupResponse> Backup(const std::string& file_name);

  // Constant after Open.
  const DaemonConfig config_;
  const EnvironmentGetter environment_;
  int64_t started_at_ms_ = 0;
  SocketPaths sockets_;
  std::vector<std::string> notes_;  // of the probe: toolchains and what is missing
  std::string sandbox_level_;
  std::vector<v1::Device> devices_;
  std::vector<std::string> addresses_;

  std::atomic<bool> stop_immediately_{false};
  std::atomic<bool> stop_requested_{false};
  MonotonicTime active_last_;

  // In the order of making; the destructor takes them down from the last to the first, see there.
  FileLock lock_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<ThreadExecutor> control_;
  std::unique_ptr<ThreadExecutor> agent_executor_;
  std::unique_ptr<ThreadExecutor> watch_executor_;  // its own: watchers are heard while spaces are built
  std::unique_ptr<JobService> jobs_;
  std::unique_ptr<DeviceWatch> device_watch_;
  std::unique_ptr<ProcessEvaluator> evaluator_;
  std::atomic<const EvaluatorStats*> evaluator_stats_{nullptr};  // calls may ask before there is an evaluator
  std::unique_ptr<Agent> agent_;
  std::unique_ptr<Recordings> recordings_;
  std::unique_ptr<Api> api_;
  std::vector<std::unique_ptr<RpcServer>> servers_;
  std::unique_ptr<Upkeep> upkeep_;
  std::unique_ptr<HttpServer> http_;
};

}  // namespace tunefarm
