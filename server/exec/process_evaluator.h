#pragma once

// The evaluator that does the work: pools of worker processes, one per backend for compiling and one per device for
// running, supervised on one thread.

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/base/file.h"
#include "server/exec/artifact_cache.h"
#include "server/exec/evaluator.h"
#include "server/exec/event_loop.h"
#include "server/exec/worker_command.h"
#include "server/exec/worker_pool.h"

namespace tunefarm {

struct ProcessEvaluatorOptions {
  std::string worker_binary;      // path of tunefarm-worker
  std::string scratch_directory;  // made if missing; belongs to this evaluator alone
  int compile_workers = 0;        // per backend; 0: one per processor core
  bool standby_runners = false;   // one warm run worker per device beyond the one at work
  // A CPU cannot compile and measure at once: host runs wait for host compiles and have precedence over new ones.
  bool exclusive_host_runs = true;
  PhaseDeadlines deadlines;
  int reap_ms = 30'000;   // longest wait for a process to end after SIGKILL, before its device is taken out of service
  std::string cuda_path;  // empty: the worker searches
  std::string host_compiler = "c++";
  std::vector<std::string> compile_options;  // for every compile, on top of the definition's
  uint64_t artifact_cache_bytes = 256ull << 20;
  size_t queue_max = 4096;  // per pool; beyond it evaluations are LOST at once
  int recycle_after_compiles = 500;
  std::string lock_directory;  // one measuring process per device on this machine; empty: no locks
  bool sandbox = true;
  uint32_t first_uid = 64'000;  // root only: workers run as this uid and the 1023 that follow
  std::vector<std::string> extra_worker_arguments;
  int start_backoff_ms = 100;
  // A device went out of service, or came back (empty reason). On the evaluator's thread; must not block.
  std::function<void(const std::string& device_uuid, const std::string& reason)> on_quarantine;
  Clock* clock = Clock::Real();
};

class ProcessEvaluator : public Evaluator {
 public:
  explicit ProcessEvaluator(ProcessEvaluatorOptions options);
  // Answers everything with LOST, kills and reaps every worker; waits at most reap_ms for that. Callbacks run until it
  // returns. Must not be called from a callback.
  ~ProcessEvaluator() override;

  Id Compile(CompileRequest request, std::function<void(CompileResult)> done) override;
  Id Run(RunRequest request, std::function<void(RunResult)> done) override;
  void Cancel(Id id) override;
  int compile_slots() const override { return compile_workers_; }

 private:
  struct RunPool {
    int index = 0;
    bool host = false;
    FileLock lock;
    std::unique_ptr<WorkerPool> pool;
  };
  struct CompileWaiter {
    Id id;
    std::function<void(CompileResult)> done;
  };
  struct CompileInFlight {
    std::string backend;
    WorkerPool::TaskId task = 0;
    std::vector<CompileWaiter> waiters;
  };
  struct CompileJob {
    Digest key;
    std::string backend;
    WorkerTask task;
  };

  // All below: loop thread only.
  void StartCompile(CompileJob job, CompileWaiter waiter);
  void OnCompiled(const Digest& key, WorkerTaskEnd end);
  void StartRun(Id id, const std::string& device_uuid, bool host, WorkerTask task);
  void DoCancel(Id id);
  WorkerPool* CompilePool(const std::string& backend);
  absl::StatusOr<WorkerPool*> PoolOf(const std::string& device_uuid, bool host);
  WorkerPool::Options PoolOptions(WorkerRole role, const std::string& backend, const std::string& name,
                                  const std::string& device_uuid, int first_slot);
  bool HostRunsWanted() const;
  void PumpHost();

  // Constant after construction.
  const ProcessEvaluatorOptions options_;
  const int compile_workers_;
  WorkerCommandOptions command_;

  std::atomic<Id> last_id_{0};

  ArtifactCache cache_;
  std::map<std::string, std::string> toolchains_;  // by backend, as the last Hello told
  std::map<Digest, CompileInFlight> compiles_;
  std::map<Id, Digest> compile_keys_;
  std::map<Id, std::pair<std::string, WorkerPool::TaskId>> runs_;  // device and task
  std::map<std::string, std::unique_ptr<WorkerPool>> compile_pools_;
  std::map<std::string, RunPool> run_pools_;
  bool host_pump_posted_ = false;

  // Last: its tasks use everything above.
  EventLoop loop_;
};

}  // namespace tunefarm
