#pragma once

// What the evaluator finds out about devices, told to those who ask for it, and a person's word told to the evaluator.
// Keeps the time of each device's health check, as it was when the device was first found sound, in the store.
//
// Thread-safe.

#include <memory>
#include <set>
#include <string>

#include "server/base/executor.h"
#include "server/base/mutex.h"
#include "server/daemon/control_plane.h"
#include "server/exec/process_evaluator.h"
#include "server/store/store.h"

namespace tunefarm {

class DeviceWatch {
 public:
  // All outlive the watch. `executor` runs what may wait for the disk; it must be stopped before the watch ends.
  DeviceWatch(ControlPlane* plane, Store* store, Executor* executor)
      : plane_(plane), store_(store), executor_(executor) {}

  // Lets the evaluator to be made from the options report here.
  void Connect(ProcessEvaluatorOptions* options);
  // The evaluator, from now until it is set to null, which waits for calls that use it.
  void SetEvaluator(ProcessEvaluator* evaluator) LOCKS_EXCLUDED(mutex_);

  // Nothing without an evaluator, or for a device that is in service.
  void Release(const std::string& device_uuid) LOCKS_EXCLUDED(mutex_);

 private:
  void OnHealthy(const std::string& device_uuid, double baseline_ns, int foreign_processes) LOCKS_EXCLUDED(mutex_);
  void KeepBaseline(const std::string& device_uuid, double baseline_ns) LOCKS_EXCLUDED(mutex_);

  ControlPlane* const plane_;
  Store* const store_;
  Executor* const executor_;

  Mutex mutex_;
  ProcessEvaluator* evaluator_ GUARDED_BY(mutex_) = nullptr;
  std::set<std::string> known_ GUARDED_BY(mutex_);  // devices whose baseline was looked up since the start
};

}  // namespace tunefarm
