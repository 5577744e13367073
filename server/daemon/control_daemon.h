// ControlDaemon: the composition root of the roles "all" and "control": a store, the control plane (control_plane.h)
// and the transports of its calls, and for "all" an agent with the devices of this machine. Makes every part, connects
// them, and takes them down in an order in which nothing acknowledged is lost.
//
// Threads: Start, and all methods but the callbacks it hands out, from the main thread.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/access/gate.h"
#include "server/agent/agent.h"
#include "server/agent/agent_data_files.h"
#include "server/api/access_api.h"
#include "server/api/call_limits.h"
#include "server/api/server_api.h"
#include "server/base/executor.h"
#include "server/base/file_set.h"
#include "server/base/mutex.h"
#include "server/base/thread_pool.h"
#include "server/base/xdg.h"
#include "server/daemon/config.h"
#include "server/daemon/config_compiler.h"
#include "server/daemon/control_plane.h"
#include "server/daemon/daemon.h"
#include "server/daemon/data_directory.h"
#include "server/daemon/device_watch.h"
#include "server/daemon/local_devices.h"
#include "server/daemon/monitoring.h"
#include "server/data_files/data_file_store.h"
#include "server/data_files/remote_cache.h"
#include "server/exec/process_evaluator.h"
#include "server/rpc/server.h"
#include "server/store/store.h"
#include "server/upkeep/upkeep.h"
#include "server/web/web_server.h"

namespace tunefarm {

class ControlDaemon : public Daemon {
 public:
  // Locks the data directory, opens the store, probes the devices, takes unfinished jobs up, listens. One clear
  // sentence for every refusal: another daemon, a read-only or network directory, a newer database, an address in use.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(const DaemonConfig& config,
                                                       const EnvironmentGetter& environment);
  ~ControlDaemon() override;

  void Drain(std::function<void()> done) override;
  // No jobs, no calls, for as long as the configuration allows.
  bool IsIdleTooLong() override;
  bool stop_immediately() const override { return stop_immediately_.load(); }
  std::vector<Executor*> vital_executors() const override { return {watch_executor_.get(), agent_executor_.get()}; }

 private:
  ControlDaemon(const DaemonConfig& config, const EnvironmentGetter& environment);
  absl::StatusOr<std::unique_ptr<Store>> OpenStore() const;
  absl::Status Open();
  absl::StatusOr<WorkerAbilities> Probe();
  absl::Status OpenPlane();
  absl::Status OpenGate();
  std::vector<RpcServerOptions> Listeners();
  absl::Status Listen() LOCKS_EXCLUDED(listen_mutex_);
  void StartAgent();
  absl::Status Monitor();
  absl::StatusOr<std::string> OpenDashboard(const std::string& address) LOCKS_EXCLUDED(listen_mutex_);
  v1::GetServerInfoResponse Info() LOCKS_EXCLUDED(listen_mutex_);
  absl::StatusOr<v1::CreateBackupResponse> Backup(const std::string& file_name);

  // Constant after Open.
  const DaemonConfig config_;
  const EnvironmentGetter environment_;
  int64_t started_at_ms_ = 0;
  LocalDevices local_;  // role "all"

  std::atomic<bool> stop_immediately_{false};
  std::atomic<bool> stop_requested_{false};
  MonotonicTime active_last_;

  // In the order of making; the destructor takes them down from the last to the first, see there.
  DataDirectory directory_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<DataFileStore> data_files_;
  std::unique_ptr<RemoteCache> remote_cache_;  // null: max_remote_cache_bytes is 0
  std::unique_ptr<FileSetBook> headers_;       // null: nothing is compiled here
  std::unique_ptr<ThreadExecutor> control_;
  std::unique_ptr<ThreadPool> search_;
  std::unique_ptr<ThreadExecutor> agent_executor_;
  std::unique_ptr<ThreadExecutor> job_watch_executor_;
  std::unique_ptr<ThreadExecutor> watch_executor_;  // its own: watchers are heard while spaces are built
  std::unique_ptr<ThreadExecutor> lease_executor_;  // null: alone on the store
  std::unique_ptr<ControlPlane> plane_;
  std::unique_ptr<DeviceWatch> device_watch_;
  ConfigCompiler config_compiler_;
  std::unique_ptr<ProcessEvaluator> evaluator_;
  std::atomic<const EvaluatorStats*> evaluator_stats_{nullptr};  // calls may ask before there is an evaluator
  std::unique_ptr<AgentDataFiles> agent_data_files_;
  std::unique_ptr<Agent> agent_;
  std::unique_ptr<TokenBook> tokens_;
  std::unique_ptr<CertificateCheck> certificates_;  // null: clients show none
  std::unique_ptr<SessionBook> sessions_;
  std::unique_ptr<RateLimits> rates_;
  std::unique_ptr<AuditLog> audit_;
  std::unique_ptr<Gate> gate_;
  CallLimits limits_;                            // of all listeners together
  std::unique_ptr<ThreadPool> package_threads_;  // of all listeners together
  std::unique_ptr<ServerApi> server_api_;
  std::unique_ptr<AccessApi> access_api_;
  RpcServices services_;
  std::vector<std::unique_ptr<RpcServer>> servers_;
  Mutex listen_mutex_;
  std::vector<std::string> addresses_ GUARDED_BY(listen_mutex_);  // of servers_
  bool web_has_ended_ GUARDED_BY(listen_mutex_) = false;
  std::unique_ptr<WebServer> web_ GUARDED_BY(listen_mutex_);  // null: nobody has asked for the dashboard
  std::unique_ptr<Upkeep> upkeep_;
  std::unique_ptr<HttpServer> http_;
};

}  // namespace tunefarm
