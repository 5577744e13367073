// The machine's devices, and what a device selector means.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/mutex.h"
#include "server/definition/kernel_plan.h"
#include "server/device/device_class.h"
#include "tunefarm/v1/device.pb.h"
#include "tunefarm/v1/kernel.pb.h"

namespace tunefarm {

// What a selector resolved to.
struct SelectedDevice {
  DeviceClass device_class;
  std::string class_id;
  std::string uuid;                             // only if the selector named one device; else any of the class will do
  int64_t memory_bytes = 0;                     // of the smallest device that may run it; 0 unknown
  std::string driver_version, toolkit_version;  // empty: not a device of this machine
  double peak_bytes_per_second = 0;             // 0 unknown
  std::map<std::string, double> peak_flops_by_unit = {};  // as Kernel.flops_unit names them
};

class DeviceDirectory {
 public:
  // InvalidArgument for a device without uuid or with a class that cannot be read; nothing is changed then.
  absl::Status Set(const std::vector<tunefarm::v1::Device>& devices);

  // A device goes out of service for a reason, in one sentence, or comes back with an empty one. False: unknown.
  bool SetQuarantine(std::string_view uuid, std::string_view reason, int64_t now_ms);
  // The work of a device in service waits for a reason, in one sentence, or does not any more. Unknown devices and
  // those out of service are ignored.
  void SetWaiting(std::string_view uuid, std::string_view reason, int64_t now_ms);
  // Why no ready device of the class takes up its work, by the device; empty where one does, or where none is ready.
  std::string WaitingReason(std::string_view class_id) const;
  // What a health check has found; foreign_processes -1: unknown. Unknown devices are ignored.
  void SetHealth(std::string_view uuid, double baseline_ns, int foreign_processes);

  // GPUs first, then by ordinal.
  std::vector<tunefarm::v1::Device> List() const;

  // How many devices of a class take work.
  int CountReady(std::string_view class_id) const;
  // Empty for an unknown device.
  std::string ToolkitOf(std::string_view uuid) const;
  std::string DriverOf(std::string_view uuid) const;

  // A uuid, class id, display name, "host", "cuda", or empty: the first ready device that runs the kernel. With
  // `known_classes` also the short name of a class known without hardware ("A100"). NotFound (DEVICE_NOT_FOUND) with
  // "did you mean" and the list of devices; InvalidArgument (DEVICE_KIND) if it does not run the kernel;
  // FailedPrecondition (DEVICE_QUARANTINED) if it takes no work and the question is not only about its class.
  absl::StatusOr<SelectedDevice> Resolve(std::string_view selector, const KernelPlan& plan, bool known_classes) const;

 private:
  struct Known {
    tunefarm::v1::Device device;
    DeviceClass device_class;
    std::string class_id;
    bool ready() const { return device.state() != tunefarm::v1::DEVICE_STATE_QUARANTINED; }
  };
  using Devices = std::vector<Known>;

  std::shared_ptr<const Devices> Current() const LOCKS_EXCLUDED(mutex_);
  // Whoever holds the list before keeps it as it was. False: unknown.
  template <typename Change>
  bool Update(std::string_view uuid, Change change) LOCKS_EXCLUDED(mutex_);
  static SelectedDevice Selected(const Devices& devices, const Known& known, bool by_uuid);
  static absl::Status Unknown(const Devices& devices, std::string_view selector, bool known_classes);

  mutable Mutex mutex_;
  std::shared_ptr<const Devices> devices_ GUARDED_BY(mutex_) = std::make_shared<const Devices>();
};

}  // namespace tunefarm
