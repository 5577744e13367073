// The devices of this machine and of the agents on others, and what a device selector means.
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
#include "server/store/device_store.h"
#include "tunefarm/v1/device.pb.h"
#include "tunefarm/v1/kernel.pb.h"

namespace tunefarm {

// What a selector resolved to.
struct SelectedDevice {
  DeviceClass device_class;
  std::string class_id;
  std::string only;                             // what a device of the class must answer to; empty: any of them will do
  int64_t memory_bytes = 0;                     // of the smallest device that may run it; 0 unknown
  std::string driver_version, toolkit_version;  // empty: not a device of this machine
  double peak_bytes_per_second = 0;             // 0 unknown
  std::map<std::string, double> peak_flops_by_unit = {};  // as Kernel.flops_unit names them
};

// An agent on another machine, with its devices.
struct AgentDevices {
  std::string agent_id, display_name, host;
  std::map<std::string, std::string> labels;
  std::vector<tunefarm::v1::Device> devices;
};

class DeviceDirectory {
 public:
  // Devices whose agents are gone are kept to be shown, so many in all.
  static constexpr size_t kOfflineMax = 4096;

  // This machine's own; they keep what SetOwn said. InvalidArgument for a device without uuid or with a class that
  // cannot be read; nothing is changed then.
  absl::Status Set(const std::vector<tunefarm::v1::Device>& devices);
  // How far sentinels of a class may be apart (FindDeviating). A device that deviates is out of service, with the
  // reason, until it is measured again, the others change, or a person releases it. 0, as it is at first: none is.
  void SetSentinelTolerance(double tolerance, int64_t now_ms) LOCKS_EXCLUDED(mutex_);
  // What was measured on a device of this machine. Unknown devices are ignored.
  void SetSentinels(const tunefarm::v1::Device& measured, int64_t now_ms) LOCKS_EXCLUDED(mutex_);
  // What selects this machine's own devices besides their own properties: the name and the labels of its agent.
  void SetOwn(std::string_view agent, const std::map<std::string, std::string>& labels);

  // Whether the agent may have its devices: FailedPrecondition (DEVICE_TAKEN) if one of them belongs to this machine,
  // or to another agent that is not offline.
  absl::Status CheckAgent(const AgentDevices& agent) const LOCKS_EXCLUDED(mutex_);
  // An agent's devices are there, instead of those it had. InvalidArgument as Set, or as CheckAgent; nothing is changed
  // then.
  absl::Status SetAgent(const AgentDevices& agent, int64_t now_ms) LOCKS_EXCLUDED(mutex_);
  // Its devices are OFFLINE.
  void RemoveAgent(std::string_view agent_id, int64_t now_ms) LOCKS_EXCLUDED(mutex_);
  // Agents whose devices are not OFFLINE.
  std::vector<std::string> Agents() const;
  // What an agent says of one of its devices: state, health, memory. False: it is not one of its.
  bool UpdateOfAgent(std::string_view agent_id, const tunefarm::v1::Device& device) LOCKS_EXCLUDED(mutex_);
  // Whose it is: an agent id, or empty for this machine's own and unknown ones.
  std::string OwnerOf(std::string_view uuid) const;
  // Whether the agent may run work on it now; the class id if so, else empty.
  std::string ClassForWork(std::string_view uuid, std::string_view agent_id) const;

  // What people say of devices, whether they are known yet or not, instead of what they said before: whose are held out
  // are out of service for that reason, and released ones that deviate are in service as long as their sentinels are
  // those that were accepted.
  void SetOrders(std::vector<DeviceOrderRow> orders, int64_t now_ms) LOCKS_EXCLUDED(mutex_);
  // When the sentinels of the device were measured that a release of it accepts: it deviates, or is in service although
  // it does. 0: a release has nothing to accept.
  int64_t SentinelsToAccept(std::string_view uuid) const;

  // A device goes out of service for a reason, in one sentence, or comes back with an empty one. False: unknown.
  bool SetQuarantine(std::string_view uuid, std::string_view reason, int64_t now_ms);
  // The work of a device in service waits for a reason, in one sentence, or does not any more. Unknown devices and
  // those out of service are ignored.
  void SetWaiting(std::string_view uuid, std::string_view reason, int64_t now_ms);
  // Why no device of the class that answers to the name takes up its work, by a device; empty where one does.
  std::string WaitingReason(std::string_view class_id, std::string_view name) const;
  // What a health check has found; foreign_processes -1: unknown. Unknown devices are ignored.
  void SetHealth(std::string_view uuid, double baseline_ns, int foreign_processes);

  // GPUs first, then by ordinal.
  std::vector<tunefarm::v1::Device> List() const;
  // By "devices/{uuid}". NotFound (DEVICE_NOT_FOUND).
  absl::StatusOr<tunefarm::v1::Device> Get(std::string_view name) const;

  // How many devices of a class that answer to a name (empty: any) take work.
  int CountReady(std::string_view class_id, std::string_view name) const;
  bool IsReady(std::string_view uuid) const;
  // What it answers to besides its UUID.
  std::vector<std::string> NamesOf(std::string_view uuid) const;
  // Empty for an unknown device, the next four.
  std::string ClassOf(std::string_view uuid) const;
  std::string ToolkitOf(std::string_view uuid) const;
  std::string TritonOf(std::string_view uuid) const;
  std::string DriverOf(std::string_view uuid) const;
  // Whether GPUs of a class (empty: any) that answer to a name (empty: any) take work, and none of them has a release
  // of Triton that compiles for it.
  bool LacksTriton(std::string_view class_id, std::string_view name) const;

  // A uuid, class id, display name, "host", "cuda", or empty: the first ready device that runs the kernel. With
  // `known_classes` also the short name of a class known without hardware ("A100"). NotFound (DEVICE_NOT_FOUND) with
  // "did you mean" and the list of devices; InvalidArgument (DEVICE_KIND) if it does not run the kernel;
  // FailedPrecondition (DEVICE_QUARANTINED) if it takes no work and the question is not only about its class.
  // InvalidArgument (DEVICE_SELECTOR) for a selector that stands for devices of several classes.
  absl::StatusOr<SelectedDevice> Resolve(std::string_view selector, const KernelPlan& plan, bool known_classes) const;

  // The same for work: a selector that stands for many devices (device_selector.h) gives one for each class of those
  // that are ready. With what there is in the error where nothing answers.
  absl::StatusOr<std::vector<SelectedDevice>> Select(std::string_view selector, const KernelPlan& plan) const;

 private:
  // As CheckAgent.
  absl::Status CheckNotTaken(const AgentDevices& agent) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  struct Known {
    tunefarm::v1::Device device;
    DeviceClass device_class;
    std::string class_id;
    std::string held_out = {};                  // why a person, or its sentinels, took it out of service
    bool deviates = false;                      // it was its sentinels
    bool is_accepted = false;                   // a person, who knows of its sentinels, released it
    tunefarm::v1::Device own_word = {};         // state and reason as its agent says, while it is held out
    std::vector<std::string> names = {};        // SelectorNames
    bool Answers(std::string_view name) const;  // also to its UUID, and to the empty name
    bool ready() const {
      return device.state() != tunefarm::v1::DEVICE_STATE_QUARANTINED &&
             device.state() != tunefarm::v1::DEVICE_STATE_OFFLINE;
    }
  };
  using Devices = std::vector<Known>;

  static absl::StatusOr<Known> MakeKnown(const tunefarm::v1::Device& device);
  static void Sort(Devices* devices);
  // device_directory_holds.cc:
  static int64_t SentinelsMeasuredAt(const tunefarm::v1::Device& device);
  static void HoldOut(Known* known, std::string_view reason, int64_t now_ms);
  void ApplyOrders(Devices* devices, int64_t now_ms) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes devices that deviate out of service, and back those that do not any more.
  static void CompareSentinels(Devices* devices, double tolerance, int64_t now_ms);
  static void Label(Known* known, std::string_view agent, const std::map<std::string, std::string>& labels);
  std::shared_ptr<const Devices> Current() const LOCKS_EXCLUDED(mutex_);
  // A reader of the list before keeps it unchanged. False: unknown.
  template <typename Change>
  bool Update(std::string_view uuid, Change change) LOCKS_EXCLUDED(mutex_);
  static SelectedDevice Selected(const Devices& devices, const Known& known, std::string_view only);
  static absl::StatusOr<std::vector<SelectedDevice>> SelectMany(const Devices& devices, std::string_view selector,
                                                                std::string_view name, const KernelPlan& plan);
  static absl::Status Unknown(const Devices& devices, std::string_view selector, bool known_classes);

  mutable Mutex mutex_;
  std::shared_ptr<const Devices> devices_ GUARDED_BY(mutex_) = std::make_shared<const Devices>();
  double sentinel_tolerance_ GUARDED_BY(mutex_) = 0;
  std::vector<DeviceOrderRow> orders_ GUARDED_BY(mutex_);  // by uuid
  std::string own_agent_ GUARDED_BY(mutex_);
  std::map<std::string, std::string> own_labels_ GUARDED_BY(mutex_);
};

}  // namespace tunefarm
