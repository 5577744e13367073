// The agents of a ControlLink: how they register, keep their leases, and go.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/farm/control_link.h"
#include "server/farm/device_selector.h"
#include "server/farm/isolation.h"

namespace tunefarm {

namespace wire = tunefarm::agent::v1;

namespace {

constexpr int kDevicesPerAgentMax = 256;
constexpr int kLabelsPerAgentMax = 64;
constexpr size_t kTextBytesMax = 256;
constexpr int kSentinelsPerDeviceMax = 16;
constexpr int kReportsPerCallMax = 64;
// Of all agents together, where many of them have results all the time.
constexpr int kReportsPerSecond = 250;
constexpr int kGatherMsMin = 1000;
constexpr int kGatherMsMax = 5000;
// Of an agent that was offered what it may not run.
constexpr Duration kRest = std::chrono::seconds(10);

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

}  // namespace

absl::StatusOr<wire::RegisterResponse> ControlLink::RegisterRemote(const wire::RegisterRequest& request) {
  if (request.protocol() < kProtocolOldest) {
    return WithReason(
        FailedPrecondition("agent {} speaks version {} of the conversation, and {} is the oldest that is understood "
                           "here: update it to the version of this daemon",
                           request.display_name(), request.protocol(), kProtocolOldest),
        "AGENT_TOO_OLD");
  }
  return Register(request);
}

absl::Status ControlLink::CheckRegistration(const wire::RegisterRequest& request) {
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
  for (const tunefarm::v1::Device& device : request.devices()) RETURN_IF_ERROR(CheckSentinelTimes(device));
  return absl::OkStatus();
}

std::set<std::string> ControlLink::ClassesOf(const wire::RegisterRequest& about) {
  std::set<std::string> classes;
  for (const tunefarm::v1::Device& device : about.devices()) {
    const auto device_class = DeviceClass::FromProto(device.device_class());
    if (device_class.ok()) classes.insert(device_class->Id());
  }
  return classes;
}

ControlLink::AgentState ControlLink::StateOf(const wire::RegisterRequest& about) const {
  AgentState agent;
  agent.about = about;
  agent.is_remote = about.protocol() > 0;  // the agent in this process needs no version
  agent.lease_ms = about.protocol() > 0 ? options_.agent_lease_ms : options_.own_agent_lease_ms;
  agent.classes = ClassesOf(about);
  agent.renewed = agent.heard = clock_->Now();
  return agent;
}

absl::Status ControlLink::NoteDevices(const AgentState& state) {
  const wire::RegisterRequest& about = state.about;
  if (!state.is_remote) {  // its devices were given to the directory when the daemon started
    devices_->SetOwn(about.display_name(), {about.labels().begin(), about.labels().end()});
    return absl::OkStatus();
  }
  const AgentDevices agent = DevicesOf(about);
  RETURN_IF_ERROR(devices_->SetAgent(agent, clock_->WallMs()));
  return hooks_.brought ? hooks_.brought(agent) : absl::OkStatus();
}

int ControlLink::GatherMs(size_t agents) {
  return static_cast<int>(std::clamp<size_t>(agents * 1000 / kReportsPerSecond, kGatherMsMin, kGatherMsMax));
}

absl::StatusOr<wire::RegisterResponse> ControlLink::Register(const wire::RegisterRequest& request) {
  {
    MutexLock lock(&mutex_);
    if (closed_) return Unavailable("the daemon is stopping");
  }
  RETURN_IF_ERROR(CheckRegistration(request));
  AgentState agent = StateOf(request);
  if (!request.replaces_agent_id().empty()) {
    // It has not taken leave.
    const absl::Status released = store_->ReleaseAgent(request.replaces_agent_id(), clock_->WallMs(), true);
    if (!released.ok() && !absl::IsNotFound(released)) return released;
    Lose(request.replaces_agent_id());
  }
  // Its devices may have been another's that is gone by now.
  RETURN_IF_ERROR(RefreshAgents(/*reap=*/false));
  RETURN_IF_ERROR(NoteDevices(agent));
  AgentRegistration row;
  row.agent_id = request.agent_id();
  row.host = request.host();
  row.detail = request.SerializeAsString();
  row.lease_ms = agent.lease_ms;
  row.now_ms = clock_->WallMs();
  ASSIGN_OR_RETURN(agent.epoch, store_->RegisterAgent(row));
  agent.renewed = agent.heard = clock_->Now();
  agent.clock_skew_ms = request.now_ms() == 0 ? 0 : request.now_ms() - clock_->WallMs();
  wire::RegisterResponse response;
  response.set_epoch(agent.epoch);
  response.set_control(options_.control_id);
  response.set_lease_ms(row.lease_ms);
  Lose(request.agent_id());             // what an earlier epoch held went back to the queue
  RETURN_IF_ERROR(NoteDevices(agent));  // Lose has marked them as gone
  LogInfo("jobs", "agent {} on {} registers with {} devices", request.display_name(), request.host(),
          request.devices_size());
  {
    MutexLock lock(&mutex_);
    agents_[request.agent_id()] = std::move(agent);
  }
  Wake();  // what it replaces may have left work
  return response;
}

void ControlLink::Lose(const std::string& agent_id) {
  std::set<int64_t> jobs;
  {
    MutexLock lock(&mutex_);
    agents_.erase(agent_id);
    for (int64_t unit_id : claims_.OfAgent(agent_id)) jobs.insert(claims_.Find(unit_id)->job_id);
    claims_.EraseAgent(agent_id);
    unmade_.erase(std::remove_if(unmade_.begin(), unmade_.end(),
                                 [&](const Unmade& unmade) { return unmade.agent_id == agent_id; }),
                  unmade_.end());
  }
  devices_->RemoveAgent(agent_id, clock_->WallMs());
  if (hooks_.devices_changed) hooks_.devices_changed();
  wakes_.Forget(agent_id);
  for (int64_t job_id : jobs) hooks_.gone(job_id);
}

int64_t ControlLink::FollowReplacements() {
  const int64_t found = store_->Replacements();
  MutexLock lock(&mutex_);
  if (found > replacements_) {
    ForgetAll();
    replacements_ = found;
    jobs_are_outdated_ = true;
  }
  return replacements_;
}

void ControlLink::ForgetAll() {
  agents_.clear();
  claims_.Clear();
  unmade_.clear();
  jobs_.clear();
  ended_while_claiming_.clear();
}

void ControlLink::BeginAgain() {
  FollowReplacements();
  {
    MutexLock lock(&mutex_);
    ForgetAll();
    jobs_are_outdated_ = false;
  }
  // A claim that the store has and its agent has not waits for the agent's next word.
  WakeAll();
}

absl::StatusOr<bool> ControlLink::Greet(const wire::SynchronizeRequest& request) {
  const std::string& agent_id = request.agent_id();
  const bool from_elsewhere = !request.control().empty() && request.control() != options_.control_id;
  bool is_known = false;
  FollowReplacements();
  {
    MutexLock lock(&mutex_);
    if (closed_) return Unavailable("the daemon is stopping");
    const auto found = agents_.find(agent_id);
    is_known = found != agents_.end() && found->second.epoch == request.epoch();
    // One that comes from another daemon may have begun anew there, in a database that was put back.
    if (found != agents_.end() && found->second.epoch > request.epoch() && !from_elsewhere) return false;
  }
  if (!is_known || from_elsewhere) {
    ASSIGN_OR_RETURN(const bool taken, TakeOver(agent_id, request.epoch(), request.units()));
    if (!taken) return false;
  }
  NoteChangedDevices(request);
  std::optional<std::string> detail;
  int64_t lease_ms = 0;
  {
    MutexLock lock(&mutex_);
    const auto found = agents_.find(agent_id);
    if (found == agents_.end()) return false;
    AgentState& agent = found->second;
    agent.heard = clock_->Now();
    if (request.now_ms() != 0) agent.clock_skew_ms = request.now_ms() - clock_->WallMs();
    if (agent.lease_ms == 0) return true;
    lease_ms = agent.lease_ms;
    const Duration third = std::chrono::milliseconds(lease_ms) / 3;
    if (clock_->Now() - agent.renewed < third && request.changed_devices().empty()) return true;
    if (!request.changed_devices().empty()) detail = agent.about.SerializeAsString();
  }
  const absl::StatusOr<AgentRow> row = store_->RenewAgent(agent_id, request.epoch(), lease_ms, detail);
  if (absl::IsFailedPrecondition(row.status())) {
    Lose(agent_id);
    return false;
  }
  RETURN_IF_ERROR(row.status());
  {
    MutexLock lock(&mutex_);
    const auto found = agents_.find(agent_id);
    if (found == agents_.end()) return false;
    found->second.renewed = clock_->Now();
    found->second.draining = row->draining;
  }
  const absl::Status taken = TakeOverLateClaims(agent_id, request.epoch());
  if (!taken.ok()) LogWarn("jobs", "claims of agent {} are looked at later: {}", agent_id, MessageOf(taken));
  return true;
}

void ControlLink::NoteChangedDevices(const wire::SynchronizeRequest& request) {
  for (const tunefarm::v1::Device& changed : request.changed_devices()) {
    if (!devices_->UpdateOfAgent(request.agent_id(), changed)) continue;
    if (hooks_.devices_changed) hooks_.devices_changed();
    MutexLock lock(&mutex_);
    const auto found = agents_.find(request.agent_id());
    if (found == agents_.end()) return;
    for (tunefarm::v1::Device& known : *found->second.about.mutable_devices()) {
      if (known.uuid() == changed.uuid()) known = changed;
    }
  }
}

absl::Status ControlLink::CheckMayRun(const std::string& agent_id, const Claim& claim,
                                      const tunefarm::v1::Job& spec) const {
  MutexLock lock(&mutex_);
  const auto found = agents_.find(agent_id);
  if (found == agents_.end()) return absl::OkStatus();
  const wire::RegisterRequest& about = found->second.about;
  RETURN_IF_ERROR(CheckIsolation({about.sandbox_level(), ""}, spec.required_isolation()));
  if (claim.plan->language() == tunefarm::v1::LANGUAGE_PYTHON && !about.runs_python()) {
    return FailedPrecondition("agent {} runs no kernels in Python", about.display_name());
  }
  return absl::OkStatus();
}

void ControlLink::GiveUp(const Claim& claim, const absl::Status& why) {
  LogWarn("jobs", "unit {} goes to another agent than {}: {}", claim.unit_id, claim.agent_id, MessageOf(why));
  {
    MutexLock lock(&mutex_);
    const auto found = agents_.find(claim.agent_id);
    if (found != agents_.end()) found->second.rests_until = clock_->Now() + kRest;
  }
  const absl::StatusOr<ReportVerdict> returned = StoreTrials(claim, {}, After::kReturned);
  if (!returned.ok()) LogWarn("jobs", "it waits for the end of its agent: {}", MessageOf(returned.status()));
}

absl::StatusOr<wire::ReportUnitsResponse> ControlLink::ReportUnits(const wire::ReportUnitsRequest& request) {
  if (request.reports_size() > kReportsPerCallMax) {
    return InvalidArgument("{} reports in one call, at most {} are taken", request.reports_size(), kReportsPerCallMax);
  }
  wire::ReportUnitsResponse response;
  for (const wire::ReportTrialsRequest& report : request.reports()) {
    const absl::StatusOr<wire::ReportTrialsResponse> stored = ReportTrials(report);
    if (absl::IsUnavailable(stored.status()) || absl::IsDataLoss(stored.status()) ||
        absl::IsInternal(stored.status())) {
      response.set_stopped_because(std::string(MessageOf(stored.status())));
      break;
    }
    wire::ReportResult* result = response.add_results();
    if (stored.ok()) {
      result->set_verdict(stored->verdict());
    } else {
      result->set_error(std::string(MessageOf(stored.status())));
    }
  }
  return response;
}

absl::StatusOr<wire::DeregisterResponse> ControlLink::Deregister(const wire::DeregisterRequest& request) {
  ASSIGN_OR_RETURN(const std::optional<AgentRow> row, store_->FindAgent(request.agent_id()));
  if (!row.has_value() || row->epoch != request.epoch()) return wire::DeregisterResponse();  // it has ended already
  const absl::Status released = store_->ReleaseAgent(request.agent_id(), clock_->WallMs());
  if (!released.ok() && !absl::IsNotFound(released)) return released;
  LogInfo("jobs", "agent on {} has ended in order", row->host);
  Lose(request.agent_id());
  Wake();  // others may take its units
  return wire::DeregisterResponse();
}

uint64_t ControlLink::Wait(const wire::WaitRequest& request, std::function<void(wire::WaitResponse)> done) {
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

void ControlLink::ExpireWait(const std::string& agent_id, uint64_t ticket) { wakes_.Expire(agent_id, ticket); }

void ControlLink::NoteElsewhere(const wire::RegisterRequest& about) {
  {
    MutexLock lock(&mutex_);
    if (agents_.count(about.agent_id()) > 0) return;
  }
  for (const tunefarm::v1::Device& device : about.devices()) devices_->UpdateOfAgent(about.agent_id(), device);
}

absl::Status ControlLink::RefreshAgents(bool reap) {
  if (reap) {
    ASSIGN_OR_RETURN(const std::vector<std::string> reaped, store_->ReapAgents(clock_->WallMs()));
    for (const std::string& agent_id : reaped) {
      LogWarn("jobs", "agent {} has not been heard for a whole lease; its units are queued again", agent_id);
      Lose(agent_id);
    }
    if (!reaped.empty()) Wake();
  }
  ASSIGN_OR_RETURN(const std::vector<AgentRow> rows, store_->ListAgents());
  std::set<std::string> live;
  const std::vector<std::string> known = devices_->Agents();
  for (const AgentRow& row : rows) {
    live.insert(row.agent_id);
    {
      MutexLock lock(&mutex_);
      const auto found = agents_.find(row.agent_id);
      if (found != agents_.end()) {
        found->second.draining = row.draining;
        if (!found->second.is_remote) continue;  // its devices are this machine's
      }
    }
    wire::RegisterRequest about;
    if (!row.lease_left_ms.has_value() || !about.ParseFromString(row.detail)) continue;
    if (std::binary_search(known.begin(), known.end(), row.agent_id)) {
      NoteElsewhere(about);
      continue;
    }
    const absl::Status set = devices_->SetAgent(DevicesOf(about), clock_->WallMs());
    if (!set.ok()) {
      LogWarn("jobs", "devices of agent {} are not shown: {}", about.display_name(), MessageOf(set));
      continue;
    }
    if (hooks_.brought) RETURN_IF_ERROR(hooks_.brought(DevicesOf(about)));
  }
  for (const std::string& agent_id : known) {
    if (live.count(agent_id) == 0) Lose(agent_id);
  }
  gather_ms_.store(GatherMs(live.size()), std::memory_order_relaxed);
  if (hooks_.devices_changed) hooks_.devices_changed();
  return absl::OkStatus();
}

std::map<std::string, ControlLink::AgentView> ControlLink::Agents() const {
  MutexLock lock(&mutex_);
  std::map<std::string, AgentView> views;
  for (const auto& [agent_id, agent] : agents_) {
    AgentView& view = views[agent_id];
    view.clock_skew_ms = agent.clock_skew_ms;
    view.silent = clock_->Now() - agent.heard;
  }
  for (const auto& [unit_id, claim] : claims_.all()) {
    const auto view = views.find(claim.agent_id);
    if (view != views.end()) ++view->second.units;
  }
  return views;
}

void ControlLink::ReleaseDevice(const std::string& agent_id, const std::string& device_uuid) {
  {
    MutexLock lock(&mutex_);
    const auto found = agents_.find(agent_id);
    if (found == agents_.end()) return;
    found->second.released.insert(device_uuid);
  }
  wakes_.Wake(agent_id);
}

}  // namespace tunefarm
