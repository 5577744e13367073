#include "server/farm/device_directory.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include "server/base/edit_distance.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/farm/device_selector.h"

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
  if (plan.language() == tunefarm::v1::LANGUAGE_TRITON) return "TRITON";
  return plan.device_kind() == DeviceKind::kHost ? "PYTHON (on the host)" : "PYTHON (on a GPU)";
}

}  // namespace

absl::StatusOr<DeviceDirectory::Known> DeviceDirectory::MakeKnown(const tunefarm::v1::Device& device) {
  if (device.uuid().empty())
    return InvalidArgument("a device named '{}' has no uuid", device.device_class().display_name());
  auto device_class = DeviceClass::FromProto(device.device_class());
  if (!device_class.ok()) return Annotate(device_class.status(), "device {}", device.uuid());
  Known entry{device, *std::move(device_class), {}};
  entry.class_id = entry.device_class.Id();
  entry.device.set_name("devices/" + device.uuid());
  entry.device.mutable_device_class()->set_id(entry.class_id);
  return entry;
}

void DeviceDirectory::Sort(Devices* devices) {
  const auto key = [](const Known& known) {
    return std::make_tuple(known.device_class.kind, std::string_view(known.device.agent()), known.device.ordinal());
  };
  std::stable_sort(devices->begin(), devices->end(), [&](const Known& a, const Known& b) { return key(a) < key(b); });
}

absl::Status DeviceDirectory::Set(const std::vector<tunefarm::v1::Device>& devices) {
  auto known = std::make_shared<Devices>();
  for (const tunefarm::v1::Device& device : devices) {
    ASSIGN_OR_RETURN(Known entry, MakeKnown(device));
    known->push_back(std::move(entry));
  }
  MutexLock lock(&mutex_);
  for (Known& own : *known) Label(&own, own_agent_, own_labels_);
  for (const Known& other : *devices_) {
    if (!other.device.agent_id().empty()) known->push_back(other);
  }
  Sort(known.get());
  ApplyOrders(known.get(), 0);
  CompareSentinels(known.get(), sentinel_tolerance_, 0);
  devices_ = std::move(known);
  return absl::OkStatus();
}

void DeviceDirectory::Label(Known* known, std::string_view agent, const std::map<std::string, std::string>& labels) {
  known->device.mutable_labels()->clear();
  for (const auto& [key, value] : labels) (*known->device.mutable_labels())[key] = value;
  known->names = SelectorNames(known->device, agent);
}

void DeviceDirectory::SetOwn(std::string_view agent, const std::map<std::string, std::string>& labels) {
  MutexLock lock(&mutex_);
  own_agent_ = std::string(agent);
  own_labels_ = labels;
  auto changed = std::make_shared<Devices>(*devices_);
  for (Known& known : *changed) {
    if (known.device.agent_id().empty()) Label(&known, own_agent_, own_labels_);
  }
  devices_ = std::move(changed);
}

bool DeviceDirectory::Known::Answers(std::string_view name) const {
  return name.empty() || device.uuid() == name || std::find(names.begin(), names.end(), name) != names.end();
}

absl::Status DeviceDirectory::CheckAgent(const AgentDevices& agent) const {
  MutexLock lock(&mutex_);
  return CheckNotTaken(agent);
}

absl::Status DeviceDirectory::CheckNotTaken(const AgentDevices& agent) const {
  for (const Known& other : *devices_) {
    if (other.device.agent_id() == agent.agent_id || other.device.state() == tunefarm::v1::DEVICE_STATE_OFFLINE)
      continue;
    const bool is_wanted =
        std::any_of(agent.devices.begin(), agent.devices.end(),
                    [&](const tunefarm::v1::Device& one) { return one.uuid() == other.device.uuid(); });
    if (!is_wanted) continue;
    return WithReason(
        FailedPrecondition("device {} belongs to {} already; end that daemon, or let each have devices of its own",
                           other.device.uuid(),
                           other.device.agent_id().empty()
                               ? std::string("the control daemon's own machine")
                               : fmt::format("agent {} on {}", other.device.agent(), other.device.host())),
        "DEVICE_TAKEN");
  }
  return absl::OkStatus();
}

absl::Status DeviceDirectory::SetAgent(const AgentDevices& agent, int64_t now_ms) {
  Devices added;
  for (const tunefarm::v1::Device& device : agent.devices) {
    ASSIGN_OR_RETURN(Known entry, MakeKnown(device));
    entry.device.set_agent_id(agent.agent_id);
    entry.device.set_agent(agent.display_name);
    entry.device.set_host(agent.host);
    Label(&entry, agent.display_name, agent.labels);
    if (entry.device.state() == tunefarm::v1::DEVICE_STATE_OFFLINE ||
        entry.device.state() == tunefarm::v1::DEVICE_STATE_UNSPECIFIED) {
      entry.device.set_state(tunefarm::v1::DEVICE_STATE_READY);
    }
    if (entry.device.state_since_ms() == 0) entry.device.set_state_since_ms(now_ms);
    added.push_back(std::move(entry));
  }
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckNotTaken(agent));
  auto changed = std::make_shared<Devices>();
  for (const Known& other : *devices_) {
    const auto same = std::find_if(added.begin(), added.end(),
                                   [&](const Known& one) { return one.device.uuid() == other.device.uuid(); });
    const bool is_own = other.device.agent_id() == agent.agent_id;
    if (same == added.end()) {
      if (!is_own) changed->push_back(other);
      continue;
    }
    same->deviates = other.deviates && SentinelsMeasuredAt(other.device) == SentinelsMeasuredAt(same->device);
    if (same->deviates) HoldOut(&*same, other.held_out, now_ms);
  }
  ApplyOrders(&added, now_ms);
  changed->insert(changed->end(), std::make_move_iterator(added.begin()), std::make_move_iterator(added.end()));
  Sort(changed.get());
  CompareSentinels(changed.get(), sentinel_tolerance_, now_ms);
  devices_ = std::move(changed);
  return absl::OkStatus();
}

void DeviceDirectory::RemoveAgent(std::string_view agent_id, int64_t now_ms) {
  MutexLock lock(&mutex_);
  auto changed = std::make_shared<Devices>(*devices_);
  size_t offline = 0;
  for (Known& known : *changed) {
    const bool was_offline = known.device.state() == tunefarm::v1::DEVICE_STATE_OFFLINE;
    if (!was_offline && !agent_id.empty() && known.device.agent_id() == agent_id) {
      known.device.set_state(tunefarm::v1::DEVICE_STATE_OFFLINE);
      known.device.set_state_reason(
          fmt::format("its agent {} on {} is gone", known.device.agent(), known.device.host()));
      known.device.set_state_since_ms(now_ms);
    }
    offline += known.device.state() == tunefarm::v1::DEVICE_STATE_OFFLINE ? 1 : 0;
  }
  while (offline > kOfflineMax) {
    const auto oldest = std::min_element(changed->begin(), changed->end(), [](const Known& a, const Known& b) {
      const auto key = [](const Known& known) {
        return std::make_pair(known.device.state() != tunefarm::v1::DEVICE_STATE_OFFLINE,
                              known.device.state_since_ms());
      };
      return key(a) < key(b);
    });
    changed->erase(oldest);
    --offline;
  }
  CompareSentinels(changed.get(), sentinel_tolerance_, now_ms);
  devices_ = std::move(changed);
}

std::vector<std::string> DeviceDirectory::Agents() const {
  std::vector<std::string> agents;
  const auto devices = Current();
  for (const Known& known : *devices) {
    if (known.device.agent_id().empty() || known.device.state() == tunefarm::v1::DEVICE_STATE_OFFLINE) continue;
    agents.push_back(known.device.agent_id());
  }
  std::sort(agents.begin(), agents.end());
  agents.erase(std::unique(agents.begin(), agents.end()), agents.end());
  return agents;
}

bool DeviceDirectory::UpdateOfAgent(std::string_view agent_id, const tunefarm::v1::Device& device) {
  MutexLock lock(&mutex_);
  const auto own = std::find_if(devices_->begin(), devices_->end(),
                                [&](const Known& known) { return known.device.uuid() == device.uuid(); });
  if (own == devices_->end() || own->device.agent_id() != agent_id) return false;
  const tunefarm::v1::Device& before = own->held_out.empty() ? own->device : own->own_word;
  if (before.state() == device.state() && before.state_reason() == device.state_reason() &&
      own->device.baseline_ns() == device.baseline_ns() &&
      own->device.foreign_processes() == device.foreign_processes() &&
      own->device.memory_free_bytes() == device.memory_free_bytes()) {
    return true;  // a copy of a large farm's list is not for nothing
  }
  auto changed = std::make_shared<Devices>(*devices_);
  const auto found = changed->begin() + (own - devices_->begin());
  tunefarm::v1::Device* const to = found->held_out.empty() ? &found->device : &found->own_word;
  to->set_state(device.state() == tunefarm::v1::DEVICE_STATE_QUARANTINED ? tunefarm::v1::DEVICE_STATE_QUARANTINED
                                                                         : tunefarm::v1::DEVICE_STATE_READY);
  to->set_state_reason(device.state_reason().substr(0, 1024));
  to->set_state_since_ms(device.state_since_ms());
  found->device.set_baseline_ns(device.baseline_ns());
  found->device.set_foreign_processes(device.foreign_processes());
  found->device.set_memory_free_bytes(device.memory_free_bytes());
  CompareSentinels(changed.get(), sentinel_tolerance_, device.state_since_ms());
  devices_ = std::move(changed);
  return true;
}

std::string DeviceDirectory::OwnerOf(std::string_view uuid) const {
  const auto devices = Current();
  for (const Known& known : *devices) {
    if (known.device.uuid() == uuid) return known.device.agent_id();
  }
  return {};
}

std::string DeviceDirectory::ClassForWork(std::string_view uuid, std::string_view agent_id) const {
  const auto devices = Current();
  for (const Known& known : *devices) {
    if (known.device.uuid() != uuid || !known.ready()) continue;
    if (known.device.agent_id().empty() || known.device.agent_id() == agent_id) return known.class_id;
  }
  return {};
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
  change(found->held_out.empty() ? &found->device : &found->own_word);
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

std::string DeviceDirectory::WaitingReason(std::string_view class_id, std::string_view name) const {
  const auto devices = Current();
  std::string waiting, out_of_service, offline;
  for (const Known& known : *devices) {
    if (known.class_id != class_id || !known.Answers(name)) continue;
    const std::string& reason = known.device.state_reason();
    if (known.ready() && reason.empty()) return {};
    const bool is_offline = known.device.state() == tunefarm::v1::DEVICE_STATE_OFFLINE;
    std::string& text = known.ready() ? waiting : is_offline ? offline : out_of_service;
    text = fmt::format("{}: {}", known.device.device_class().display_name(),
                       reason.empty() ? "no reason is known" : reason);
  }
  if (!waiting.empty()) return waiting;
  // What can be repaired rather than what may not come back.
  if (out_of_service.empty()) out_of_service = std::move(offline);
  if (out_of_service.empty()) return "no device that the job can use is connected";
  return "no device that the job can use is in service; " + out_of_service;
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

absl::StatusOr<tunefarm::v1::Device> DeviceDirectory::Get(std::string_view name) const {
  const auto devices = Current();
  for (const Known& known : *devices) {
    if (known.device.name() == name) return known.device;
  }
  return WithReason(NotFound("there is no device '{}'; tunefarm devices lists them", name.substr(0, 256)),
                    "DEVICE_NOT_FOUND");
}

int DeviceDirectory::CountReady(std::string_view class_id, std::string_view name) const {
  const auto devices = Current();
  return static_cast<int>(std::count_if(devices->begin(), devices->end(), [&](const Known& known) {
    return known.ready() && known.class_id == class_id && known.Answers(name);
  }));
}

bool DeviceDirectory::IsReady(std::string_view uuid) const {
  const auto devices = Current();
  return std::any_of(devices->begin(), devices->end(),
                     [&](const Known& known) { return known.device.uuid() == uuid && known.ready(); });
}

std::vector<std::string> DeviceDirectory::NamesOf(std::string_view uuid) const {
  const auto devices = Current();
  for (const Known& known : *devices) {
    if (known.device.uuid() == uuid) return known.names;
  }
  return {};
}

std::string DeviceDirectory::ClassOf(std::string_view uuid) const {
  const auto devices = Current();
  for (const Known& known : *devices) {
    if (known.device.uuid() == uuid) return known.class_id;
  }
  return {};
}

std::string DeviceDirectory::ToolkitOf(std::string_view uuid) const {
  const auto devices = Current();
  for (const Known& known : *devices) {
    if (known.device.uuid() == uuid) return known.device.toolkit_version();
  }
  return {};
}

std::string DeviceDirectory::TritonOf(std::string_view uuid) const {
  const auto devices = Current();
  for (const Known& known : *devices) {
    if (known.device.uuid() == uuid) return known.device.triton_version();
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

bool DeviceDirectory::LacksTriton(std::string_view class_id, std::string_view name) const {
  const auto devices = Current();
  bool lacks = false;
  for (const Known& known : *devices) {
    if (known.device_class.kind != DeviceKind::kCuda || !known.ready() || !known.Answers(name)) continue;
    if (!class_id.empty() && known.class_id != class_id) continue;
    if (!known.device.triton_version().empty()) return false;
    lacks = true;
  }
  return lacks;
}

SelectedDevice DeviceDirectory::Selected(const Devices& devices, const Known& known, std::string_view only) {
  SelectedDevice selected{known.device_class,
                          known.class_id,
                          std::string(only),
                          known.device.memory_bytes(),
                          known.device.driver_version(),
                          known.device.toolkit_version(),
                          known.device.peak_bytes_per_second(),
                          {known.device.peak_flops_by_unit().begin(), known.device.peak_flops_by_unit().end()}};
  for (const Known& other : devices) {
    if (other.class_id == known.class_id && other.Answers(only) && other.ready() && other.device.memory_bytes() > 0) {
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
  candidates.insert(candidates.end(), {"host", "cuda", std::string(kAllClasses)});
  if (known_classes) {
    for (const KnownClass& known : KnownClasses()) candidates.emplace_back(known.short_name);
  }
  const auto closest = ClosestMatch(selector, candidates);
  const std::string hint = closest.has_value() ? fmt::format(" (did you mean '{}'?)", *closest) : "";
  return WithReason(NotFound("there is no device '{}'{}; the devices here are: {}", selector.substr(0, 256), hint,
                             list.empty() ? "none" : list),
                    "DEVICE_NOT_FOUND");
}

absl::StatusOr<std::vector<SelectedDevice>> DeviceDirectory::SelectMany(const Devices& devices,
                                                                        std::string_view selector,
                                                                        std::string_view name, const KernelPlan& plan) {
  RETURN_IF_ERROR(CheckPrefix(selector));
  std::vector<const Known*> matches;
  std::set<std::string> there;  // what there is of the kind of name that is asked for
  const std::string_view prefix = name.substr(0, name.find(':') + 1);
  for (const Known& known : devices) {
    if (known.Answers(name)) matches.push_back(&known);
    if (known.device.state() == tunefarm::v1::DEVICE_STATE_OFFLINE) continue;
    for (const std::string& other : known.names) {
      if (other.substr(0, prefix.size()) == prefix) there.insert(other);
    }
  }
  if (matches.empty() && !name.empty()) {
    return WithReason(NotFound("no device answers to '{}'; {}", name.substr(0, 256),
                               there.empty() ? fmt::format("nothing here answers to any {}", prefix)
                                             : fmt::format("there are: {}", fmt::join(there, ", "))),
                      "DEVICE_NOT_FOUND");
  }
  std::vector<SelectedDevice> selected;
  std::set<std::string> classes;
  const Known* out_of_service = nullptr;
  for (const Known* known : matches) {
    if (known->device_class.kind != plan.device_kind()) continue;
    if (!known->ready()) {
      out_of_service = known;
    } else if (classes.insert(known->class_id).second) {
      selected.push_back(Selected(devices, *known, name));
    }
  }
  if (!selected.empty()) return selected;
  if (out_of_service != nullptr) {
    return WithReason(
        FailedPrecondition("no device that '{}' stands for takes work; {}: {}", selector, out_of_service->device.uuid(),
                           out_of_service->device.state_reason().empty() ? "it is quarantined"
                                                                         : out_of_service->device.state_reason()),
        "DEVICE_QUARANTINED");
  }
  return WithReason(InvalidArgument("no device that '{}' stands for runs {} kernels", selector, LanguageName(plan)),
                    "DEVICE_KIND");
}

absl::StatusOr<std::vector<SelectedDevice>> DeviceDirectory::Select(std::string_view selector,
                                                                    const KernelPlan& plan) const {
  const ManyDevices many = ParseManyDevices(selector);
  if (many.is_many) return SelectMany(*Current(), selector, many.name, plan);
  ASSIGN_OR_RETURN(SelectedDevice one, Resolve(selector, plan, false));
  return std::vector<SelectedDevice>{std::move(one)};
}

absl::StatusOr<SelectedDevice> DeviceDirectory::Resolve(std::string_view selector, const KernelPlan& plan,
                                                        bool known_classes) const {
  const auto devices = Current();
  if (const ManyDevices many = ParseManyDevices(selector); many.is_many) {
    ASSIGN_OR_RETURN(const std::vector<SelectedDevice> classes, SelectMany(*devices, selector, many.name, plan));
    if (classes.size() == 1) return classes.front();
    std::string list;
    for (const SelectedDevice& one : classes) list += (list.empty() ? "" : ", ") + one.device_class.display_name;
    return WithReason(
        InvalidArgument("'{}' stands for devices of {} classes ({}); name one of them", selector, classes.size(), list),
        "DEVICE_SELECTOR");
  }
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
                               !known_classes     ? "; tunefarm doctor says what is missing"
                               : wanted == "CUDA" ? "; name a known class instead, for example A100"
                                                  : ""),
                      "DEVICE_NOT_FOUND");
  }
  if (matches.empty()) {
    RETURN_IF_ERROR(CheckPrefix(selector));
    return Unknown(*devices, selector, known_classes);
  }
  if (matches[0]->device_class.kind != kind) {
    return WithReason(InvalidArgument("device '{}' does not run {} kernels", selector, language), "DEVICE_KIND");
  }
  for (const Known* known : matches) {
    if (known->ready()) return Selected(*devices, *known, by_uuid ? selector : "");
  }
  if (known_classes) return Selected(*devices, *matches[0], by_uuid ? selector : "");
  return WithReason(FailedPrecondition("device {} takes no work: {}", matches[0]->device.uuid(),
                                       matches[0]->device.state_reason().empty() ? "it is quarantined"
                                                                                 : matches[0]->device.state_reason()),
                    "DEVICE_QUARANTINED");
}

}  // namespace tunefarm
