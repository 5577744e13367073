#pragma once

// The run half of ProcessEvaluator: a pool of run workers per device.

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/file.h"
#include "server/exec/baton.h"
#include "server/exec/clocks/clock_guard.h"
#include "server/exec/compile_pools.h"
#include "server/exec/evaluator.h"
#include "server/exec/evaluator_stats.h"
#include "server/exec/event_loop.h"
#include "server/exec/expected_outputs.h"
#include "server/exec/frame_limits.h"
#include "server/exec/preparation_cache.h"
#include "server/exec/process_evaluator_options.h"
#include "server/exec/worker_pool.h"

namespace tunefarm {

// Loop thread only, but for MakeTask.
class RunPools {
 public:
  // All of them outlive the pools.
  RunPools(EventLoop* loop, const ProcessEvaluatorOptions* options, const HostTurns* turns,
           PreparationCache* preparations, EvaluatorStats* stats)
      : loop_(loop), options_(*options), turns_(*turns), preparations_(preparations), stats_(stats) {}

  // Any thread. Its `done` is left to Start.
  WorkerTask MakeTask(const RunRequest& request) const;

  // LOST at once when the device has no pool and gets none, and after Clear.
  void Start(Evaluator::Id id, const std::string& device_uuid, const std::string& backend, WorkerTask task,
             std::function<void(RunResult)> done);
  // Starts the device's workers, if it has or gets a pool.
  void Expect(const std::string& device_uuid, const std::string& backend);
  // False: unknown.
  bool Cancel(Evaluator::Id id);
  // Puts a device back into service.
  void Release(const std::string& device_uuid);

  void SetHealthBaseline(const std::string& device_uuid, double nanoseconds);

  // Frees the clocks that an earlier daemon has left held, of devices that no other daemon has. Before any run.
  void FreeClocks();
  // Once all workers are gone or stuck. `done` is posted when no clock is held, or cannot be freed.
  void ShutdownClocks(std::function<void()> done);

  std::vector<WorkerPool*> All() const;
  // All workers must be gone or stuck. No pool is made any more.
  void Clear() {
    is_cleared_ = true;
    pools_.clear();
    clocks_.clear();
  }
  // A host run waits or is under way.
  bool host_wanted() const;
  void PumpHost();

 private:
  struct Device {
    explicit Device(uint64_t expected_outputs_bytes)
        : expected_outputs(expected_outputs_bytes, std::min(expected_outputs_bytes, kExpectedOutputsBytesMax)) {}
    std::string uuid;
    std::string backend;
    int index = 0;
    bool host = false;
    // The first of the device's pools, which holds its lock; maybe this one.
    Device* first = nullptr;
    FileLock lock;
    bool waits_for_lock = false;  // until it is tried again
    bool said_so = false;         // that it waits
    uint64_t clock_changes = 0;   // of its clock, when the task at work began
    Baton baton;
    ExpectedOutputs expected_outputs;
    std::shared_ptr<const SharedMemfd> warm_start;
    std::unique_ptr<WorkerPool> pool;  // its workers use the above
  };

  absl::StatusOr<WorkerPool*> Pool(const std::string& device_uuid, const std::string& backend);
  // Another pool of the same device is at work: of its pools one measures at a time.
  bool IsTaken(const Device& device) const;
  void PumpOthers(const Device& device);
  std::string LockPath(const std::string& name) const;
  WorkerPool::Options OptionsOf(Device* device, const std::string& device_uuid);
  // Takes a lock of this machine for this process, if no other has it; else tries again by itself, until then false.
  bool Holds(Device* device, const std::string& lock_name);
  void SayWhetherItWaits(Device* device, const std::string& reason);
  // Nobody has looked yet at the marker that an earlier daemon has left.
  bool IsLeftHeld(const std::string& device_uuid) const;
  std::string MarkerPath(const std::string& device_uuid) const;
  // Null where the device's clock is neither held nor `wanted`.
  ClockGuard* Clock(const std::string& device_uuid, bool wanted);
  WorkerPool::DeviceState SetClock(Device* device, int mhz, std::string* refusal);
  // Writes down at what clock a run has measured; the worker's word for it does not count.
  void NoteClock(const std::string& device_uuid, const std::string& backend, int mhz, RunResult* result);
  bool IsBusy(const std::string& device_uuid) const;
  void PumpDevice(const std::string& device_uuid);
  // The cores, which processes take in turns.
  bool HasHost(Device* device);
  // Nothing is to be measured now: others may.
  void LeaveHost(Device* device);

  EventLoop* const loop_;
  const ProcessEvaluatorOptions& options_;
  const HostTurns& turns_;
  PreparationCache* const preparations_;
  EvaluatorStats* const stats_;

  std::map<Evaluator::Id, std::pair<WorkerPool*, WorkerPool::TaskId>> runs_;
  // By device; while what an earlier daemon has left is freed, before a pool has the lock.
  std::map<std::string, FileLock> freeing_locks_;
  std::map<std::string, std::unique_ptr<ClockGuard>> clocks_;                     // by device
  std::map<std::pair<std::string, std::string>, std::unique_ptr<Device>> pools_;  // by device and backend
  bool is_cleared_ = false;
};

}  // namespace tunefarm
