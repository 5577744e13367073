#include "server/jobs/device_directory.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "server/base/edit_distance.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

std::string_view LanguageName(const KernelPlan& plan) {
  if (plan.language() == tunefarm::v1::LANGUAGE_HOST_CXX) return "HOST_CXX";
  if (plan.language() == tunefarm::v1::LANGUAGE_CUDA) return "CUDA";
  return plan.device_kind() == DeviceKind::kHost ? "PYTHON (on the host)" : "PYTHON (on a GPU)";
}

}  // namespace

absl::Status DeviceDirectory::Set(const std::vector<tunefarm::v1::Device>& devices) {
  auto known = std::make_shared<Devices>();
  for (const tunefarm::v1::Device& device : devices) {
    if (device.uuid().empty())
      return InvalidArgument("a device named '{}' has no uuid", device.device_class().display_name());
    auto device_class = DeviceClass::FromProto(device.device_class());
    if (!device_class.ok()) return Annotate(device_class.status(), "device {}", device.uuid());
    Known entry{device, *std::move(device_class), {}};
    entry.class_id = entry.device_class.Id();
    entry.device.set_name("devices/" + device.uuid());
    entry.device.mutable_device_class()->set_id(entry.class_id);
    known->push_back(std::move(entry));
  }
  std::stable_sort(known->begin(), known->end(), [](const Known& a, const Known& b) {
    return std::make_pair(a.device_class.kind, a.device.ordinal()) <
           std::make_pair(b.device_class.kind, b.device.ordinal());
  });
  MutexLock lock(&mutex_);
  devices_ = std::move(known);
  return absl::OkStatus();
}

std::shared_ptr<const DeviceDirectory::Devices> DeviceDirectory::Current() const {
  MutexLock lock(&mutex_);
  return devices_;
}

template <typename Change>
bool DeviceDirectory::Update(std::string_view uuid, Change change) {
  MutexLock lock(&mutex_);
  auto changed = std::make_shared<Devices>(*devices_);
  const auto found = std::find_if(changed->begin(), changed->end(),
                                  [uuid](const Known& known) { return known.device.uuid() == uuid; });
  if (found == changed->end()) return false;
  change(&found->device);
  devices_ = std::move(changed);
  return true;
}

bool DeviceDirectory::SetQuarantine(std::string_view uuid, std::string_view reason, int64_t now_ms) {
  return Update(uuid, [&](tunefarm::v1::Device* device) {
    device->set_state(reason.empty() ? tunefarm::v1::DEVICE_STATE_READY : tunefarm::v1::DEVICE_STATE_QUARANTINED);
    device->set_state_reason(std::string(reason));
    device->set_state_since_ms(now_ms);
  });
}

void DeviceDirectory::SetWaiting(std::string_view uuid, std::string_view reason, int64_t now_ms) {
  Update(uuid, [&](tunefarm::v1::Device* device) {
    if (device->state() == tunefarm::v1::DEVICE_STATE_QUARANTINED) return;
    device->set_state_reason(std::string(reason));
    device->set_state_since_ms(now_ms);
  });
}

std::string DeviceDirectory::WaitingReason(std::string_view class_id) const {
  const auto devices = Current();
  std::string waiting;
  for (const Known& known : *devices) {
    if (!known.ready() || known.class_id != class_id) continue;
    if (known.device.state_reason().empty()) return {};
    waiting = fmt::format("{}: {}", known.device.device_class().display_name(), known.device.state_reason());
  }
  return waiting;
}

void DeviceDirectory::SetHealth(std::string_view uuid, double baseline_ns, int foreign_processes) {
  Update(uuid, [&](tunefarm::v1::Device* device) {
    device->set_baseline_ns(baseline_ns);
    if (foreign_processes >= 0) device->set_foreign_processes(foreign_processes);
  });
}

std::vector<tunefarm::v1::Device> DeviceDirectory::List() const {
  std::vector<tunefarm::v1::Device> list;
  const auto devices = Current();
  for (const Known& known : *devices) list.push_back(known.device);
  return list;
}

int DeviceDirectory::CountReady(std::string_view class_id) const {
  const auto devices = Current();
  return static_cast<int>(std::count_if(devices->begin(), devices->end(), [&](const Known& known) {
    return known.ready() && known.class_id == class_id;
  }));
}

std::string DeviceDirectory::ToolkitOf(std::string_view uuid) const {
  const auto devices = Current();
  for (const Known& known : *devices) {
    if (known.device.uuid() == uuid) return known.device.toolkit_version();
  }
  return {};
}

std::string DeviceDirectory::DriverOf(std::string_view uuid) const {
  const auto devices = Current();
  for (const Known& known : *devices) {
    if (known.device.uuid() == uuid) return known.device.driver_version();
  }
  return {};
}

SelectedDevice DeviceDirectory::Selected(const Devices& devices, const Known& known, bool by_uuid) {
  SelectedDevice selected{known.device_class,
                          known.class_id,
                          by_uuid ? known.device.uuid() : std::string(),
                          known.device.memory_bytes(),
                          known.device.driver_version(),
                          known.device.toolkit_version(),
                          known.device.peak_bytes_per_second(),
                          {known.device.peak_flops_by_unit().begin(), known.device.peak_flops_by_unit().end()}};
  if (by_uuid) return selected;
  for (const Known& other : devices) {
    if (other.class_id == known.class_id && other.ready() && other.device.memory_bytes() > 0) {
      selected.memory_bytes = selected.memory_bytes == 0 ? other.device.memory_bytes()
                                                         : std::min(selected.memory_bytes, other.device.memory_bytes());
    }
  }
  return selected;
}

absl::Status DeviceDirectory::Unknown(const Devices& devices, std::string_view selector, bool known_classes) {
  std::vector<std::string> candidates;
  std::string list;
  for (const Known& known : devices) {
    for (const std::string& name : {known.device.uuid(), known.class_id, known.device_class.display_name}) {
      candidates.push_back(name);
    }
    list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", known.device_class.display_name, known.device.uuid());
  }
  candidates.insert(candidates.end(), {"host", "cuda"});
  if (known_classes) {
    for (const KnownClass& known : KnownClasses()) candidates.emplace_back(known.short_name);
  }
  const auto closest = ClosestMatch(selector, candidates);
  const std::string hint = closest.has_value() ? fmt::format(" (did you mean '{}'?)", *closest) : "";
  return WithReason(NotFound("there is no device '{}'{}; the devices here are: {}", selector.substr(0, 256), hint,
                             list.empty() ? "none" : list),
                    "DEVICE_NOT_FOUND");
}

absl::StatusOr<SelectedDevice> DeviceDirectory::Resolve(std::string_view selector, const KernelPlan& plan,
                                                        bool known_classes) const {
  const auto devices = Current();
  const DeviceKind kind = plan.device_kind();
  const std::string_view language = LanguageName(plan);
  const std::string lower = Lower(selector);

  std::vector<const Known*> matches;
  bool by_uuid = false;
  for (const Known& known : *devices) {
    const bool of_kind = known.device_class.kind == kind;
    if (known.device.uuid() == selector) {
      by_uuid = true;
      matches = {&known};
      break;
    }
    const bool matched = selector.empty()  ? of_kind
                         : lower == "cuda" ? known.device_class.kind == DeviceKind::kCuda
                         : lower == "host"
                             ? known.device_class.kind == DeviceKind::kHost
                             : known.class_id == selector || Lower(known.device_class.display_name) == lower;
    if (matched) matches.push_back(&known);
  }
  if (matches.empty() && known_classes && !selector.empty()) {
    if (const auto known_class = FindKnownClass(selector); known_class.ok()) {
      if (known_class->kind != kind) {
        return WithReason(InvalidArgument("{} does not run {} kernels", selector, language), "DEVICE_KIND");
      }
      return SelectedDevice{*known_class, known_class->Id(), "", int64_t{known_class->memory_gib} << 30, "", ""};
    }
  }
  if (matches.empty() && (selector.empty() || lower == "cuda" || lower == "host")) {
    const std::string_view wanted = selector.empty() ? language : lower == "cuda" ? "CUDA" : "HOST_CXX";
    return WithReason(NotFound("no device here runs {} kernels{}", wanted,
                               known_classes ? "; name a known class instead, for example A100" : ""),
                      "DEVICE_NOT_FOUND");
  }
  if (matches.empty()) return Unknown(*devices, selector, known_classes);
  if (matches[0]->device_class.kind != kind) {
    return WithReason(InvalidArgument("device '{}' does not run {} kernels", selector, language), "DEVICE_KIND");
  }
  for (const Known* known : matches) {
    if (known->ready()) return Selected(*devices, *known, by_uuid);
  }
  if (known_classes) return Selected(*devices, *matches[0], by_uuid);
  return WithReason(FailedPrecondition("device {} takes no work: {}", matches[0]->device.uuid(),
                                       matches[0]->device.state_reason().empty() ? "it is quarantined"
                                                                                 : matches[0]->device.state_reason()),
                    "DEVICE_QUARANTINED");
}

}  // namespace tunefarm
