#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "server/base/clock.h"
#include "server/base/file_set.h"
#include "server/exec/evaluator.h"

namespace tunefarm {

enum class ForDevices { kNone, kGpus, kAll };

struct ProcessEvaluatorOptions {
  std::string worker_binary;      // path of tunefarm-worker
  std::string scratch_directory;  // made if missing; belongs to this evaluator alone
  int compile_workers = 0;        // per backend; 0: one per processor core
  // One warm run worker per device beyond the one at work, prepared for the same problem, and a health check after
  // every crash. A CPU needs neither: its trials run in processes of their own, so that the runner outlives them.
  ForDevices standby_runners = ForDevices::kGpus;
  ForDevices health_checks = ForDevices::kGpus;
  std::map<std::string, double> health_baselines_ns;  // by device, as on_healthy told them; see DeviceHealth
  Duration health_rest = {};                          // of a sick device; 0: see DeviceHealth
  // In host memory, of each device: the outputs of references, so that only the first runner needs to run them.
  uint64_t expected_outputs_bytes = 1ull << 30;
  // A CPU cannot compile and measure at once: host runs wait for host compiles and have precedence over new ones.
  bool exclusive_host_runs = true;
  PhaseDeadlines deadlines;
  int reap_ms = 30'000;   // longest wait for a process to end after SIGKILL, before its device is taken out of service
  std::string cuda_path;  // empty: the worker searches
  std::string host_compiler = "c++";
  std::string python_interpreter;                // absolute; empty: kernels in Python are LOST
  std::vector<std::string> compile_options;      // for every compile, on top of the definition's
  uint64_t artifact_cache_bytes = 256ull << 20;  // of binaries in memory
  std::string cache_directory;                   // of binaries on disk; empty: none are kept there
  uint64_t cache_bytes_max = 4ull << 30;         // 0: none are kept there
  uint64_t cache_free_bytes_min = 0;             // no binary is written that leaves less on the file system
  // Takes the headers outside of the definitions that binaries were made of; may be null, outlives the evaluator.
  FileSetBook* headers = nullptr;
  size_t queue_max = 4096;  // per pool; beyond it evaluations are LOST at once
  int recycle_after_compiles = 500;
  // One measuring process per GPU on this machine; others are refused. Those that measure on its cores take turns,
  // which begin and end with their work. Empty: no locks.
  std::string lock_directory;
  // Of markers: which clocks of GPUs are held. Made if missing; empty: none can be held.
  std::string clock_directory;
  Duration clock_idle = std::chrono::seconds(5);  // a clock that no run has used for so long is freed
  // Of the farm that this machine is part of; null: of none.
  SharedBinaries* shared_binaries = nullptr;
  bool lock_host = true;  // false: others may measure on the same cores meanwhile
  bool yields = false;    // workers and the supervisor get only processor time that nobody else wants (YieldToOthers)
  bool sandbox = true;
  std::string required_isolation;  // of compile and run workers: "L1" lets none work with less; empty: what can be had
  uint32_t first_uid = 64'000;     // root only: workers run as this uid and the 1023 that follow
  std::vector<std::string> extra_worker_arguments;
  int start_backoff_ms = 100;
  // A device went out of service, or came back (empty reason). On the evaluator's thread; must not block.
  std::function<void(const std::string& device_uuid, const std::string& reason)> on_quarantine;
  // Trials wait for a device that another process of this machine holds, as the sentence says, or do not any more
  // (empty). As above.
  std::function<void(const std::string& device_uuid, const std::string& reason)> on_wait;
  // A device passed its health check: the time of the check's kernel when it was known to be good, and the processes of
  // others that were seen on it (-1: cannot be seen). As above.
  std::function<void(const std::string& device_uuid, double baseline_ns, int foreign_processes)> on_healthy;
  Clock* clock = Clock::Real();
};

}  // namespace tunefarm
