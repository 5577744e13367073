#include "server/farm/agent_registry.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string_view>
#include <utility>

#include "server/base/format.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/farm/agent_numbers.h"
#include "server/farm/device_selector.h"
#include "server/farm/isolation.h"

namespace tunefarm {

namespace wire = tunefarm::agent::v1;

namespace {

constexpr int kDevicesPerAgentMax = 256;
constexpr int kLabelsPerAgentMax = 64;
constexpr size_t kTextBytesMax = 256;
constexpr int kSentinelsPerDeviceMax = 16;
// Of all agents together, where many of them have results all the time.
constexpr int kReportsPerSecond = 250;
constexpr int kGatherMsMin = 1000;
constexpr int kGatherMsMax = 5000;
// Of an agent that was offered what it may not run.
constexpr Duration kRest = std::chrono::seconds(10);
// The first version of the conversation with Trial.headers.
constexpr int kProtocolWithHeaders = 3;

AgentDevices DevicesOf(const wire::RegisterRequest& about) {
  return {about.agent_id(),
          about.display_name(),
          about.host(),
          {about.labels().begin(), about.labels().end()},
          {about.devices().begin(), about.devices().end()}};
}

absl::Status Invalid(std::string_view what, std::string_view value) {
  return WithReason(
      InvalidArgument("{} '{}' is empty or longer than {} bytes", what, value.substr(0, kTextBytesMax), kTextBytesMax),
      "AGENT_INVALID");
}

// Both are written into lines, and name devices to people and to the store.
absl::Status CheckPrintable(std::string_view what, std::string_view value) {
  const bool has_control =
      std::any_of(value.begin(), value.end(), [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; });
  if (!has_control) return absl::OkStatus();
  return WithReason(InvalidArgument("{} has control characters", what), "AGENT_INVALID");
}

// They are compared with those of others, and their names are shown.
absl::Status CheckSentinelTimes(const tunefarm::v1::Device& device) {
  if (device.sentinels_size() > kSentinelsPerDeviceMax) {
    return WithReason(InvalidArgument("device {} has {} sentinels; at most {} are taken", device.uuid(),
                                      device.sentinels_size(), kSentinelsPerDeviceMax),
                      "AGENT_INVALID");
  }
  for (const tunefarm::v1::SentinelTime& time : device.sentinels()) {
    if (time.name().empty() || time.name().size() > kTextBytesMax) return Invalid("the sentinel", time.name());
    RETURN_IF_ERROR(CheckPrintable("the sentinel's name", time.name()));
    const bool is_time = std::isfinite(time.median_ns()) && time.median_ns() > 0;
    const bool is_interval = time.relative_half_width() >= 0 && std::isfinite(time.relative_half_width());
    if (is_time && is_interval) continue;
    return WithReason(InvalidArgument("the sentinel {} of device {} takes {} ns, give or take {}: that is no time",
                                      time.name(), device.uuid(), time.median_ns(), time.relative_half_width()),
                      "AGENT_INVALID");
  }
  return absl::OkStatus();
}

absl::Status CheckDevice(const tunefarm::v1::Device& device) {
  RETURN_IF_ERROR(CheckDeviceNumbers(device));
  return CheckSentinelTimes(device);
}

absl::Status CheckWallClock(int64_t now_ms) {
  if (now_ms >= 0) return absl::OkStatus();
  return WithReason(InvalidArgument("the agent's clock shows {} ms since 1970", now_ms), "AGENT_INVALID");
}

absl::Status CheckRegistration(const wire::RegisterRequest& request) {
  if (request.agent_id().empty() || request.agent_id().size() > 64) return Invalid("agent_id", request.agent_id());
  if (request.host().size() > kTextBytesMax) return Invalid("host", request.host());
  if (request.display_name().empty() || request.display_name().size() > kTextBytesMax) {
    return Invalid("the agent's name", request.display_name());
  }
  RETURN_IF_ERROR(CheckPrintable("the agent's name", request.display_name()));
  for (const auto& [name, value] : request.labels()) {
    if (name.empty() || kLabelPrefix.size() + name.size() + 1 + value.size() > kTextBytesMax) {
      return Invalid("the label", name);
    }
    RETURN_IF_ERROR(CheckPrintable("the label", name + "=" + value));
  }
  if (request.devices_size() > kDevicesPerAgentMax || request.labels_size() > kLabelsPerAgentMax) {
    return WithReason(
        InvalidArgument("agent {} has {} devices and {} labels; at most {} and {} are taken", request.display_name(),
                        request.devices_size(), request.labels_size(), kDevicesPerAgentMax, kLabelsPerAgentMax),
        "AGENT_INVALID");
  }
  for (const tunefarm::v1::Device& device : request.devices()) RETURN_IF_ERROR(CheckDevice(device));
  return CheckWallClock(request.now_ms());
}

std::set<std::string> ClassesOf(const wire::RegisterRequest& about) {
  std::set<std::string> classes;
  for (const tunefarm::v1::Device& device : about.devices()) {
    const auto device_class = DeviceClass::FromProto(device.device_class());
    if (device_class.ok()) classes.insert(device_class->Id());
  }
  return classes;
}

int GatherMs(size_t agents) {
  return static_cast<int>(std::clamp<size_t>(agents * 1000 / kReportsPerSecond, kGatherMsMin, kGatherMsMax));
}

}  // namespace

AgentRegistry::AgentRegistry(Store* store, Clock* clock, DeviceDirectory* devices, Claims* claims,
                             const LinkHooks* hooks, Options options)
    : store_(store), clock_(clock), devices_(devices), claims_(claims), hooks_(hooks), options_(std::move(options)) {}

AgentRegistry::Agent AgentRegistry::AgentOf(const wire::RegisterRequest& about) const {
  Agent agent;
  agent.about = about;
  agent.is_remote = about.protocol() > 0;  // the agent in this process needs no version
  agent.lease_ms = about.protocol() > 0 ? options_.agent_lease_ms : options_.own_agent_lease_ms;
  agent.classes = ClassesOf(about);
  agent.renewed = agent.heard = clock_->Now();
  return agent;
}

absl::Status AgentRegistry::NoteDevices(const Agent& agent) {
  const wire::RegisterRequest& about = agent.about;
  if (!agent.is_remote) {  // its devices were given to the directory when the daemon started
    devices_->SetOwn(about.display_name(), {about.labels().begin(), about.labels().end()});
    return absl::OkStatus();
  }
  return Bring(about);
}

absl::Status AgentRegistry::Bring(const wire::RegisterRequest& about) {
  const AgentDevices brought = DevicesOf(about);
  RETURN_IF_ERROR(devices_->CheckAgent(brought));
  // A job may be submitted for what the directory shows, and then needs the stored class.
  if (hooks_->brought) RETURN_IF_ERROR(hooks_->brought(brought));
  return devices_->SetAgent(brought, clock_->WallMs());
}

absl::StatusOr<wire::RegisterResponse> AgentRegistry::Register(const wire::RegisterRequest& request) {
  RETURN_IF_ERROR(CheckRegistration(request));
  const int64_t replacements = claims_->Follow(store_->Replacements());
  Agent agent = AgentOf(request);
  if (!request.replaces_agent_id().empty()) {
    // It has not taken leave.
    const absl::Status released = store_->agents()->ReleaseAgent(request.replaces_agent_id(), clock_->WallMs(), true);
    if (!released.ok() && !absl::IsNotFound(released)) return released;
    Lose(request.replaces_agent_id());
  }
  // Its devices may have been another's that is gone by now.
  RETURN_IF_ERROR(Refresh(/*reap=*/false));
  RETURN_IF_ERROR(NoteDevices(agent));
  AgentRegistration row;
  row.agent_id = request.agent_id();
  row.host = request.host();
  row.detail = request.SerializeAsString();
  row.lease_ms = agent.lease_ms;
  row.now_ms = clock_->WallMs();
  ASSIGN_OR_RETURN(agent.epoch, store_->agents()->RegisterAgent(row));
  agent.renewed = agent.heard = clock_->Now();
  agent.clock_skew_ms = request.now_ms() == 0 ? 0 : request.now_ms() - clock_->WallMs();
  wire::RegisterResponse response;
  response.set_epoch(agent.epoch);
  response.set_control(options_.control_id);
  response.set_lease_ms(row.lease_ms);
  Lose(request.agent_id());             // what an earlier epoch held went back to the queue
  RETURN_IF_ERROR(NoteDevices(agent));  // Lose has marked them as gone
  LogInfo("jobs", "agent {} on {} registers with {}", request.display_name(), request.host(),
          FormatCount(request.devices_size(), "device"));
  // It is read from the store when it asks, should it not be served now.
  if (claims_->Serve(request.agent_id(), agent.epoch, replacements, {}, {}).ok()) Put(std::move(agent));
  Wake();  // what it replaces may have left work
  return response;
}

absl::Status AgentRegistry::Deregister(const wire::DeregisterRequest& request) {
  ASSIGN_OR_RETURN(const std::optional<AgentRow> row, store_->agents()->FindAgent(request.agent_id()));
  if (!row.has_value() || row->epoch != request.epoch()) return absl::OkStatus();
  const absl::Status released = store_->agents()->ReleaseAgent(request.agent_id(), clock_->WallMs());
  if (!released.ok() && !absl::IsNotFound(released)) return released;
  LogInfo("jobs", "agent on {} has ended in order", row->host);
  Lose(request.agent_id());
  Wake();  // others may take its units
  return absl::OkStatus();
}

void AgentRegistry::Lose(const std::string& agent_id) {
  {
    MutexLock lock(&mutex_);
    agents_.erase(agent_id);
  }
  const std::set<int64_t> jobs = claims_->EraseAgent(agent_id);
  devices_->RemoveAgent(agent_id, clock_->WallMs());
  if (hooks_->devices_changed) hooks_->devices_changed();
  wakes_.Forget(agent_id);
  for (int64_t job_id : jobs) hooks_->gone(job_id);
}

absl::StatusOr<std::optional<AgentRegistry::Agent>> AgentRegistry::Read(const std::string& agent_id, int64_t epoch) {
  ASSIGN_OR_RETURN(const std::optional<AgentRow> row, store_->agents()->FindAgent(agent_id));
  if (!row.has_value() || row->epoch != epoch) {
    Lose(agent_id);
    return std::nullopt;
  }
  wire::RegisterRequest about;
  if (!about.ParseFromString(row->detail)) return DataLoss("what is stored of agent {} cannot be read", agent_id);
  Agent agent = AgentOf(about);
  agent.epoch = epoch;
  agent.draining = row->draining;
  agent.renewed = clock_->Now() - std::chrono::milliseconds(agent.lease_ms);  // renew it now
  absl::Status noted = NoteDevices(agent);
  if (absl::IsFailedPrecondition(noted)) {
    // They may have been another agent's that is gone by now.
    RETURN_IF_ERROR(Refresh(/*reap=*/false));
    noted = NoteDevices(agent);
  }
  RETURN_IF_ERROR(noted);
  return agent;
}

void AgentRegistry::Put(Agent agent) {
  MutexLock lock(&mutex_);
  std::string agent_id = agent.about.agent_id();
  agents_[std::move(agent_id)] = std::move(agent);
}

void AgentRegistry::Clear() {
  MutexLock lock(&mutex_);
  agents_.clear();
}

absl::Status AgentRegistry::Refresh(bool reap) {
  if (reap) {
    ASSIGN_OR_RETURN(const std::vector<std::string> reaped, store_->agents()->ReapAgents(clock_->WallMs()));
    for (const std::string& agent_id : reaped) {
      LogWarn("jobs", "agent {} has not been heard for a whole lease; its units are queued again", agent_id);
      Lose(agent_id);
    }
    if (!reaped.empty()) Wake();
  }
  ASSIGN_OR_RETURN(const std::vector<AgentRow> rows, store_->agents()->ListAgents());
  std::set<std::string> live;
  const std::vector<std::string> shown = devices_->Agents();
  for (const AgentRow& row : rows) {
    live.insert(row.agent_id);
    RETURN_IF_ERROR(NoteListed(row, std::binary_search(shown.begin(), shown.end(), row.agent_id)));
  }
  for (const std::string& agent_id : shown) {
    if (live.count(agent_id) == 0) Lose(agent_id);
  }
  gather_ms_.store(GatherMs(live.size()), std::memory_order_relaxed);
  if (hooks_->devices_changed) hooks_->devices_changed();
  return absl::OkStatus();
}

absl::Status AgentRegistry::NoteListed(const AgentRow& row, bool is_shown) {
  bool is_served = false;
  {
    MutexLock lock(&mutex_);
    const auto found = agents_.find(row.agent_id);
    is_served = found != agents_.end();
    if (is_served) {
      found->second.draining = row.draining;
      if (!found->second.is_remote) return absl::OkStatus();  // its devices are this machine's
    }
  }
  wire::RegisterRequest about;
  if (!row.lease_left_ms.has_value() || !about.ParseFromString(row.detail)) return absl::OkStatus();
  if (is_shown) {
    if (is_served) return absl::OkStatus();
    // What it has said of its devices to another daemon.
    for (const tunefarm::v1::Device& device : about.devices()) devices_->UpdateOfAgent(about.agent_id(), device);
    return absl::OkStatus();
  }
  const absl::Status brought = Bring(about);
  if (absl::IsUnavailable(brought)) return brought;
  if (!brought.ok()) {
    LogWarn("jobs", "devices of agent {} are not shown: {}", about.display_name(), MessageOf(brought));
  }
  return absl::OkStatus();
}

bool AgentRegistry::Has(const std::string& agent_id) const {
  MutexLock lock(&mutex_);
  return agents_.count(agent_id) > 0;
}

std::optional<AgentRegistry::Agent> AgentRegistry::Find(const std::string& agent_id) const {
  MutexLock lock(&mutex_);
  const auto found = agents_.find(agent_id);
  return found == agents_.end() ? std::nullopt : std::optional<Agent>(found->second);
}

size_t AgentRegistry::size() const {
  MutexLock lock(&mutex_);
  return agents_.size();
}

std::vector<std::string> AgentRegistry::Own() const {
  MutexLock lock(&mutex_);
  std::vector<std::string> own;
  for (const auto& [agent_id, agent] : agents_) {
    if (!agent.is_remote) own.push_back(agent_id);
  }
  return own;
}

std::map<std::string, AgentRegistry::View> AgentRegistry::Views() const {
  std::map<std::string, View> views;
  {
    MutexLock lock(&mutex_);
    for (const auto& [agent_id, agent] : agents_) {
      views[agent_id] = {agent.clock_skew_ms, clock_->Now() - agent.heard, 0};
    }
  }
  for (const auto& [agent_id, units] : claims_->UnitsByAgent()) {
    const auto view = views.find(agent_id);
    if (view != views.end()) view->second.units = units;
  }
  return views;
}

bool AgentRegistry::SaysHeaders(const wire::RegisterRequest& about) {
  return about.protocol() <= 0 || about.protocol() >= kProtocolWithHeaders;
}

bool AgentRegistry::SaysHeaders(const std::string& agent_id) const {
  MutexLock lock(&mutex_);
  const auto found = agents_.find(agent_id);
  return found != agents_.end() && SaysHeaders(found->second.about);
}

absl::Status AgentRegistry::CheckMayRun(const std::string& agent_id, const Claim& claim,
                                        const tunefarm::v1::Job& spec) const {
  const std::string triton = devices_->TritonOf(claim.assignment.device_uuid());
  MutexLock lock(&mutex_);
  const auto found = agents_.find(agent_id);
  if (found == agents_.end()) return absl::OkStatus();
  const wire::RegisterRequest& about = found->second.about;
  RETURN_IF_ERROR(CheckIsolation({about.sandbox_level(), ""}, spec.required_isolation()));
  if (NeedsInterpreter(claim.plan->language()) && !about.runs_python()) {
    return FailedPrecondition("agent {} runs no kernels in Python or Triton", about.display_name());
  }
  if (claim.plan->language() == tunefarm::v1::LANGUAGE_TRITON && triton.empty()) {
    return FailedPrecondition(
        "agent {} has no release of Triton that compiles for {}: install one for its interpreter, and restart it "
        "(its log says which)",
        about.display_name(), claim.assignment.device_uuid());
  }
  return absl::OkStatus();
}

absl::StatusOr<AgentRegistry::Renewal> AgentRegistry::Renew(const wire::SynchronizeRequest& request) {
  const std::string& agent_id = request.agent_id();
  for (const tunefarm::v1::Device& device : request.changed_devices()) RETURN_IF_ERROR(CheckDevice(device));
  RETURN_IF_ERROR(CheckWallClock(request.now_ms()));
  NoteChangedDevices(request);
  std::optional<std::string> detail;
  int64_t lease_ms = 0;
  {
    MutexLock lock(&mutex_);
    const auto found = agents_.find(agent_id);
    if (found == agents_.end()) return Renewal::kOver;
    Agent& agent = found->second;
    agent.heard = clock_->Now();
    if (request.now_ms() != 0) agent.clock_skew_ms = request.now_ms() - clock_->WallMs();
    if (agent.lease_ms == 0) return Renewal::kNotDue;
    lease_ms = agent.lease_ms;
    const Duration third = std::chrono::milliseconds(lease_ms) / 3;
    if (clock_->Now() - agent.renewed < third && request.changed_devices().empty()) return Renewal::kNotDue;
    if (!request.changed_devices().empty()) detail = agent.about.SerializeAsString();
  }
  const absl::StatusOr<AgentRow> row = store_->agents()->RenewAgent(agent_id, request.epoch(), lease_ms, detail);
  if (absl::IsFailedPrecondition(row.status())) {
    Lose(agent_id);
    return Renewal::kOver;
  }
  RETURN_IF_ERROR(row.status());
  MutexLock lock(&mutex_);
  const auto found = agents_.find(agent_id);
  if (found == agents_.end()) return Renewal::kOver;
  found->second.renewed = clock_->Now();
  found->second.draining = row->draining;
  return Renewal::kRenewed;
}

void AgentRegistry::NoteChangedDevices(const wire::SynchronizeRequest& request) {
  for (const tunefarm::v1::Device& changed : request.changed_devices()) {
    if (!devices_->UpdateOfAgent(request.agent_id(), changed)) continue;
    if (hooks_->devices_changed) hooks_->devices_changed();
    MutexLock lock(&mutex_);
    const auto found = agents_.find(request.agent_id());
    if (found == agents_.end()) return;
    for (tunefarm::v1::Device& known : *found->second.about.mutable_devices()) {
      if (known.uuid() == changed.uuid()) known = changed;
    }
  }
}

absl::StatusOr<bool> AgentRegistry::Ask(const wire::SynchronizeRequest& request, wire::SynchronizeResponse* response) {
  MutexLock lock(&mutex_);
  const auto found = agents_.find(request.agent_id());
  if (found == agents_.end()) return Unavailable("the agent is being taken out; ask again");
  Agent& agent = found->second;
  for (const std::string& uuid : agent.released) response->add_released_device_uuids(uuid);
  agent.released.clear();
  // Before the store is asked: units that come meanwhile wake it.
  agent.hungry = request.demands_size() > 0;
  return !agent.draining && clock_->Now() >= agent.rests_until;
}

template <typename F>
bool AgentRegistry::Change(const std::string& agent_id, F change) {
  MutexLock lock(&mutex_);
  const auto found = agents_.find(agent_id);
  if (found == agents_.end()) return false;
  change(&found->second);
  return true;
}

void AgentRegistry::Sate(const std::string& agent_id) {
  Change(agent_id, [](Agent* agent) { agent->hungry = false; });
}

void AgentRegistry::Rest(const std::string& agent_id) {
  Change(agent_id, [&](Agent* agent) { agent->rests_until = clock_->Now() + kRest; });
}

void AgentRegistry::ReleaseDevice(const std::string& agent_id, const std::string& device_uuid) {
  if (Change(agent_id, [&](Agent* agent) { agent->released.insert(device_uuid); })) wakes_.Wake(agent_id);
}

void AgentRegistry::SetWake(std::function<void()> wake) {
  MutexLock lock(&wake_mutex_);
  wake_ = std::move(wake);
}

void AgentRegistry::WakeOwn() {
  MutexLock lock(&wake_mutex_);
  if (wake_) wake_();
}

void AgentRegistry::Wake() {
  std::vector<std::string> hungry;
  {
    MutexLock lock(&mutex_);
    for (auto& [agent_id, agent] : agents_) {
      if (agent.hungry) hungry.push_back(agent_id);
      agent.hungry = false;
    }
  }
  wakes_.Wake(hungry);
  WakeOwn();
}

void AgentRegistry::WakeFor(const std::string& class_id, size_t units) {
  std::vector<std::string> told;
  {
    MutexLock lock(&mutex_);
    auto next = agents_.upper_bound(woken_last_);
    for (size_t i = 0; i < agents_.size() && told.size() < units; ++i, ++next) {
      if (next == agents_.end()) next = agents_.begin();
      Agent& agent = next->second;
      if (!agent.hungry || agent.draining || clock_->Now() < agent.rests_until) continue;
      if (agent.classes.count(class_id) == 0) continue;
      agent.hungry = false;
      told.push_back(next->first);
    }
    if (!told.empty()) woken_last_ = told.back();
  }
  wakes_.Wake(told);
  WakeOwn();
}

void AgentRegistry::WakeThese(const std::set<std::string>& agent_ids) {
  if (agent_ids.empty()) return;
  wakes_.Wake(std::vector<std::string>(agent_ids.begin(), agent_ids.end()));
  const std::vector<std::string> own = Own();
  if (std::any_of(own.begin(), own.end(), [&](const std::string& id) { return agent_ids.count(id) > 0; })) WakeOwn();
}

void AgentRegistry::WakeAll() {
  wakes_.WakeAll();
  WakeOwn();
}

uint64_t AgentRegistry::Wait(const wire::WaitRequest& request, std::function<void(wire::WaitResponse)> done) {
  // Another control's count says nothing here: answered at once, with ours.
  const int64_t seen = request.control() == options_.control_id ? request.seen() : -1;
  return wakes_.Await(request.agent_id(), seen,
                      [done = std::move(done), id = options_.control_id](int64_t now_seen, bool woken) {
                        wire::WaitResponse response;
                        response.set_control(id);
                        response.set_seen(now_seen);
                        response.set_woken(woken);
                        done(std::move(response));
                      });
}

}  // namespace tunefarm
