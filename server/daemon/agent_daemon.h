// AgentDaemon: the composition root of the role "agent": the devices of this machine, for control daemons elsewhere. No
// database and no API but the admin socket (what it is, and its end) and, where configured, /healthz and /metrics.
//
// Threads: Start, and all methods but the callbacks it hands out, from the main thread.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/agent/agent.h"
#include "server/agent/agent_data_files.h"
#include "server/agent/control_list.h"
#include "server/agent/farm_binaries.h"
#include "server/agent/farm_compiler.h"
#include "server/agent/remote_link.h"
#include "server/agent/report_spool.h"
#include "server/base/executor.h"
#include "server/base/mutex.h"
#include "server/daemon/config.h"
#include "server/daemon/daemon.h"
#include "server/daemon/data_directory.h"
#include "server/daemon/local_devices.h"
#include "server/data_files/data_file_store.h"
#include "server/exec/process_evaluator.h"
#include "server/http/http_server.h"
#include "server/rpc/agent_admin.h"

namespace tunefarm {

class AgentDaemon : public Daemon {
 public:
  // Locks the data directory, probes the devices, and begins to look for control, which need not be there yet.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(const DaemonConfig& config,
                                                       const EnvironmentGetter& environment);
  ~AgentDaemon() override;

  // Control takes what is not finished back at once.
  void Drain(std::function<void()> done) override;
  bool IsIdleTooLong() override { return false; }
  bool stop_immediately() const override { return stop_immediately_.load(); }
  std::vector<Executor*> vital_executors() const override { return {agent_executor_.get()}; }

 private:
  AgentDaemon(const DaemonConfig& config, const EnvironmentGetter& environment)
      : config_(config), environment_(environment) {}
  absl::Status Open();
  absl::StatusOr<std::string> HostUuid() const;
  std::vector<v1::Device> MeasuredDevices();
  void StartAgent();
  // What the evaluator finds out about a device.
  void ChangeDevice(const std::string& uuid, const std::function<void(v1::Device*)>& change) LOCKS_EXCLUDED(mutex_);
  absl::Status StartPages();
  std::string Metrics() const;
  v1::GetServerInfoResponse Info() const;

  // Constant after Open.
  const DaemonConfig config_;
  const EnvironmentGetter environment_;
  int64_t started_at_ms_ = 0;
  LocalDevices local_;

  std::atomic<bool> stop_immediately_{false};
  std::atomic<bool> stop_requested_{false};
  Mutex mutex_;
  std::map<std::string, v1::Device> devices_ GUARDED_BY(mutex_);  // as they are now
  Agent* told_ GUARDED_BY(mutex_) = nullptr;                      // the agent, while it may be told

  // In the order of making; the destructor takes them down from the last to the first, see there.
  DataDirectory directory_;
  std::unique_ptr<ControlList> controls_;
  std::unique_ptr<ReportSpool> spool_;
  std::unique_ptr<ThreadExecutor> agent_executor_, calls_, reports_, waits_;
  std::unique_ptr<RemoteLink> link_;
  std::unique_ptr<DataFileStore> data_file_store_;
  std::unique_ptr<ThreadExecutor> data_files_executor_;
  std::unique_ptr<AgentDataFiles> data_files_;
  std::unique_ptr<ThreadExecutor> binaries_executor_;
  std::unique_ptr<FarmBinaries> binaries_;
  std::unique_ptr<ThreadExecutor> compiler_executor_;
  std::unique_ptr<ProcessEvaluator> evaluator_;
  std::unique_ptr<FarmCompiler> compiler_;
  std::unique_ptr<Agent> agent_;
  std::unique_ptr<AgentAdmin> admin_;
  std::unique_ptr<HttpServer> http_;
};

}  // namespace tunefarm
