#include "server/agent/agent.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "server/agent/device_runner.h"
#include "server/agent/study_notes.h"
#include "server/agent/unit_maker.h"
#include "server/base/failpoint.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {

namespace wire = tunefarm::agent::v1;

namespace {

// How long a device that gave its work back asks for nothing.
constexpr Duration kRest = std::chrono::seconds(1);
constexpr Duration kBackOffFirst = std::chrono::milliseconds(100);
constexpr Duration kBackOffMax = std::chrono::seconds(5);
constexpr int kUnitsPerDeviceMax = 16;
constexpr int kUnitsPerDemandMax = 8;
// Results of a device whose trials take less than a commit wait so long for others, and go into one report.
constexpr Duration kReportDelay = std::chrono::milliseconds(4);
// Reports that control has not taken: above this nothing new is started.
constexpr int kBacklogMax = 256;

absl::StatusOr<wire::ReportTrialsResponse> SendReport(AgentLink* link, const wire::ReportTrialsRequest& request) {
  RETURN_IF_ERROR(Failpoint("agent.report.before"));
  ASSIGN_OR_RETURN(wire::ReportTrialsResponse response, link->ReportTrials(request));
  RETURN_IF_ERROR(Failpoint("agent.report.after"));
  return response;
}

}  // namespace

// Everything below runs on the executor, but for the constructor.
class Agent::Session : public std::enable_shared_from_this<Agent::Session> {
 public:
  explicit Session(const AgentOptions& options)
      : options_(options), maker_(options.link), known_devices_(options.devices) {}

  void Start();
  void Drain(std::function<void()> done);
  void Stop(std::function<void()> done);
  void DeviceChanged(const tunefarm::v1::Device& device);
  Executor* executor() const { return options_.executor; }

 private:
  struct Device {
    std::unique_ptr<DeviceRunner> runner;
    bool takes_work = true;
    bool rests = false;   // out of service as of late: it asks for nothing
    int unit_trials = 1;  // of the unit that came last
  };

  void MakeRunners();
  // Runs `task` on the executor if the session still lives.
  void PostSelf(void (Session::*step)());
  void PumpSoon();
  void Pump();
  void Tick();
  void Register();
  void Synchronize();
  bool SynchronizeOnce();
  wire::SynchronizeRequest MakeRequest();
  // How many units the device should be given now.
  int UnitsWanted(const Device& device, int in_hand) const;
  // Whether the unit is now in hand.
  bool Adopt(const wire::Assignment& assignment);
  void Flush();
  // Whether its results may wait a little for more; a timer then brings them on their way.
  bool MayGather(const UnitWork& unit);
  // The units of a device that went out of service go back to the queue, with what has ended; it asks for new ones
  // after a while, and gets them when control finds it in service.
  void GiveBack(Device& device);
  // False: control could not be reached.
  bool FlushUnit(UnitWork& unit, bool returned = false);
  void Drop(UnitWork& unit);
  void LoseEpoch();
  void RemoveGoneUnits();
  void Retry();
  void CheckEnded();
  Device* FindDevice(const std::string& uuid);
  int Backlog() const;

  const AgentOptions options_;
  UnitMaker maker_;
  CompileGate gate_;
  StudyNotes notes_;
  std::vector<Device> devices_;
  std::vector<tunefarm::v1::Device> known_devices_;              // as they are now
  std::map<std::string, tunefarm::v1::Device> changed_devices_;  // that control has not been told
  std::map<int64_t, std::unique_ptr<UnitWork>> units_;           // by unit id
  std::string agent_id_;
  int64_t epoch_ = 0;  // 0: not registered
  bool started_ = false, draining_ = false, stopped_ = false;
  bool pump_posted_ = false;
  bool starved_ = false;    // control had nothing when it was asked last: its wake, or the poll, comes first
  bool gathering_ = false;  // a timer runs, at whose end all results are reported
  bool gathered_ = false;   // it has ended
  TimerId retry_timer_ = 0;
  Duration back_off_ = kBackOffFirst;
  std::vector<std::function<void()>> drained_, ended_;
};

void Agent::Session::PostSelf(void (Session::*step)()) {
  options_.executor->Post([weak = weak_from_this(), step] {
    if (const auto self = weak.lock()) (self.get()->*step)();
  });
}

void Agent::Session::MakeRunners() {
  for (const tunefarm::v1::Device& device : options_.devices) {
    const auto device_class = DeviceClass::FromProto(device.device_class());
    if (!device_class.ok()) {
      LogError("agent", "device {} is left out: {}", device.uuid(), MessageOf(device_class.status()));
      continue;
    }
    DeviceRunner::Hooks hooks;
    hooks.trial_ended = [this](UnitWork&) { PumpSoon(); };
    hooks.changed = [this] { PumpSoon(); };
    hooks.post = [weak = weak_from_this(), executor = options_.executor](std::function<void()> task) {
      executor->Post([weak, task = std::move(task)] {
        if (const auto self = weak.lock()) task();
      });
    };
    hooks.later = [weak = weak_from_this(), executor = options_.executor](Duration delay, std::function<void()> task) {
      executor->PostAfter(delay, [weak, task = std::move(task)] {
        if (const auto self = weak.lock()) task();
      });
    };
    devices_.push_back({std::make_unique<DeviceRunner>(device.uuid(), *device_class, options_.evaluator, &gate_,
                                                       &notes_, std::move(hooks)),
                        device.state() == tunefarm::v1::DEVICE_STATE_READY ||
                            device.state() == tunefarm::v1::DEVICE_STATE_UNSPECIFIED});
  }
}

void Agent::Session::Start() {
  if (started_ || stopped_) return;
  started_ = true;
  agent_id_ = NewUuid(options_.entropy);
  MakeRunners();
  options_.link->SetWake([weak = weak_from_this(), executor = options_.executor] {
    executor->Post([weak] {
      if (const auto self = weak.lock()) self->Synchronize();
    });
  });
  Register();
  Tick();
}

void Agent::Session::Tick() {
  if (stopped_) return;
  options_.executor->PostAfter(options_.poll, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr || self->stopped_) return;
    self->Synchronize();
    self->Tick();
  });
}

void Agent::Session::Register() {
  if (stopped_ || draining_ || epoch_ != 0 || !units_.empty()) return;
  wire::RegisterRequest request = options_.about;
  request.set_agent_id(agent_id_);
  request.set_host(options_.host);
  for (const auto& device : known_devices_) *request.add_devices() = device;
  const auto response = options_.link->Register(request);
  if (!response.ok()) {
    LogWarn("agent", "control does not take the registration yet: {}", MessageOf(response.status()));
    Retry();
    return;
  }
  epoch_ = response->epoch();
  changed_devices_.clear();
  back_off_ = kBackOffFirst;
  Synchronize();
}

void Agent::Session::Retry() {
  if (retry_timer_ != 0 || stopped_) return;
  retry_timer_ = options_.executor->PostAfter(back_off_, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->retry_timer_ = 0;
    if (self->epoch_ == 0) self->Register();
    self->Pump();
    self->Synchronize();
  });
  back_off_ = std::min(back_off_ * 2, kBackOffMax);
}

void Agent::Session::PumpSoon() {
  if (pump_posted_) return;
  pump_posted_ = true;
  PostSelf(&Session::Pump);
}

int Agent::Session::Backlog() const {
  size_t count = 0;
  for (const auto& [id, unit] : units_) count += unit->pending.size();
  return static_cast<int>(count);
}

void Agent::Session::Pump() {
  pump_posted_ = false;
  // First the device, then the paperwork: a report blocks until it is durable.
  if (!stopped_ && Backlog() < kBacklogMax) {
    for (Device& device : devices_) device.runner->Pump();
  }
  Flush();
  for (Device& device : devices_) {
    if (device.runner->out_of_service() && !draining_) GiveBack(device);
  }
  RemoveGoneUnits();
  if (!stopped_ && !draining_ && retry_timer_ == 0 && !starved_) {
    for (const Device& device : devices_) {
      if (device.runner->unfinished() < device.runner->trials_wanted() && !units_.empty()) {
        Synchronize();
        break;
      }
    }
  }
  CheckEnded();
}

void Agent::Session::Synchronize() {
  if (stopped_ || !started_) return;
  if (epoch_ == 0) {
    if (retry_timer_ == 0) Register();
    return;
  }
  if (retry_timer_ != 0) return;  // control is away; the timer comes back
  // As long as control has work and there is room: units may be as small as one trial.
  for (int i = 0; i < kUnitsPerDeviceMax * 4 && SynchronizeOnce(); ++i) {
  }
}

int Agent::Session::UnitsWanted(const Device& device, int in_hand) const {
  const int missing = device.runner->trials_wanted() - device.runner->unfinished();
  if (draining_ || !device.takes_work || device.rests || missing <= 0 || in_hand >= kUnitsPerDeviceMax) return 0;
  // Control in this process is asked as often as needed; of one far away, every question takes its time.
  if (gate_.round_trip_ms <= 0) return 1;
  const int units = (missing + device.unit_trials - 1) / device.unit_trials;
  return std::clamp(units, 1, std::min(kUnitsPerDemandMax, kUnitsPerDeviceMax - in_hand));
}

wire::SynchronizeRequest Agent::Session::MakeRequest() {
  wire::SynchronizeRequest request;
  request.set_agent_id(agent_id_);
  request.set_epoch(epoch_);
  std::map<std::string, int> in_hand;
  for (const auto& [id, unit] : units_) {
    auto* listed = request.add_units();
    listed->set_unit_id(id);
    listed->set_token(unit->assignment.token());
    listed->set_device_uuid(unit->assignment.device_uuid());
    ++in_hand[unit->assignment.device_uuid()];
  }
  gate_.round_trip_ms = std::chrono::duration<double, std::milli>(options_.link->round_trip()).count();
  for (const Device& device : devices_) {
    const int units = UnitsWanted(device, in_hand[device.runner->uuid()]);
    if (units == 0) continue;
    auto* demand = request.add_demands();
    demand->set_device_uuid(device.runner->uuid());
    demand->set_units(units);
  }
  for (const auto& [uuid, device] : changed_devices_) *request.add_changed_devices() = device;
  return request;
}

// True if it brought work, so that there may be more.
bool Agent::Session::SynchronizeOnce() {
  const wire::SynchronizeRequest request = MakeRequest();
  const auto response = options_.link->Synchronize(request);
  if (!response.ok()) {
    LogWarn("agent", "control cannot be reached, trying again: {}", MessageOf(response.status()));
    Retry();
    return false;
  }
  back_off_ = kBackOffFirst;
  changed_devices_.clear();
  if (response->epoch_expired()) {
    LoseEpoch();
    return false;
  }
  for (const std::string& uuid : response->released_device_uuids()) {
    LogInfo("agent", "control puts device {} back into service", uuid);
    if (options_.release_device) options_.release_device(uuid);
  }
  for (int64_t unit_id : response->revoked_unit_ids()) {
    const auto found = units_.find(unit_id);
    if (found != units_.end()) Drop(*found->second);
  }
  PassFailpoint("agent.claim.received");
  bool adopted = false;
  if (!draining_) {
    for (const wire::Assignment& assignment : response->assignments()) adopted = Adopt(assignment) || adopted;
  }
  if (adopted || response->revoked_unit_ids_size() > 0) PumpSoon();
  // Only who has asked can have been told that there is nothing.
  starved_ = !adopted && request.demands_size() > 0;
  return adopted;
}

Agent::Session::Device* Agent::Session::FindDevice(const std::string& uuid) {
  for (Device& device : devices_) {
    if (device.runner->uuid() == uuid) return &device;
  }
  return nullptr;
}

bool Agent::Session::Adopt(const wire::Assignment& assignment) {
  // A unit that is still being killed may come back with a new token; control offers it again until it is listed.
  if (units_.count(assignment.unit_id()) != 0) return false;
  Device* device = FindDevice(assignment.device_uuid());
  if (device == nullptr) {
    LogError("agent", "unit {} is for device {}, which is not here", assignment.unit_id(), assignment.device_uuid());
    return false;
  }
  auto unit = maker_.Make(assignment);
  if (!unit.ok()) {
    // Not listed as in hand, so control offers it again.
    LogWarn("agent", "unit {} cannot be taken up yet: {}", assignment.unit_id(), MessageOf(unit.status()));
    if (unit.status().code() == absl::StatusCode::kUnavailable) Retry();
    return false;
  }
  UnitWork* adopted = unit->get();
  units_[assignment.unit_id()] = *std::move(unit);
  device->unit_trials = std::max(1, assignment.trials_size());
  device->runner->Add(adopted);
  return true;
}

void Agent::Session::Flush() {
  if (stopped_ || epoch_ == 0 || retry_timer_ != 0) return;
  std::vector<int64_t> ids;
  for (const auto& [id, unit] : units_) {
    const bool ended = unit->unfinished() == 0;
    if (unit->revoked || (unit->pending.empty() && !ended)) continue;
    if (ended || !MayGather(*unit)) ids.push_back(id);
  }
  gathered_ = false;
  for (int64_t id : ids) {
    const auto found = units_.find(id);
    if (found == units_.end()) continue;
    if (!FlushUnit(*found->second)) return;
  }
}

bool Agent::Session::MayGather(const UnitWork& unit) {
  const Device* device = FindDevice(unit.assignment.device_uuid());
  if (gathered_ || draining_ || device == nullptr || !device->runner->hurries()) return false;
  if (!gathering_) {
    gathering_ = true;
    options_.executor->PostAfter(kReportDelay, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self == nullptr) return;
      self->gathering_ = false;
      self->gathered_ = true;
      self->Pump();
    });
  }
  return true;
}

void Agent::Session::GiveBack(Device& device) {
  if (stopped_ || epoch_ == 0 || retry_timer_ != 0) return;
  std::vector<UnitWork*> given;
  for (const auto& [id, unit] : units_) {
    if (!unit->revoked && FindDevice(unit->assignment.device_uuid()) == &device) given.push_back(unit.get());
  }
  for (UnitWork* unit : given) {
    if (!FlushUnit(*unit, true)) return;  // the retry comes back
  }
  if (std::exchange(device.rests, true)) return;
  options_.executor->PostAfter(kRest, [weak = weak_from_this(), &device] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    device.rests = false;
    device.runner->ReturnToService();
    self->Pump();
    self->Synchronize();
  });
}

bool Agent::Session::FlushUnit(UnitWork& unit, bool returned) {
  wire::ReportTrialsRequest request;
  request.set_agent_id(agent_id_);
  request.set_epoch(epoch_);
  request.set_unit_id(unit.assignment.unit_id());
  request.set_token(unit.assignment.token());
  for (const auto& trial : unit.pending) *request.add_trials() = trial;
  request.set_unit_done(unit.unfinished() == 0);
  request.set_unit_returned(returned && !request.unit_done());
  const auto response = SendReport(options_.link, request);
  if (!response.ok()) {
    if (response.status().code() == absl::StatusCode::kUnavailable) {
      LogWarn("agent", "control cannot take {} results, trying again: {}", unit.pending.size(),
              MessageOf(response.status()));
      Retry();
      return false;
    }
    LogError("agent", "control refuses the results of unit {}, which is dropped: {}", unit.assignment.unit_id(),
             MessageOf(response.status()));
    Drop(unit);
    return true;
  }
  back_off_ = kBackOffFirst;
  unit.pending.clear();
  if (response->verdict() != wire::REPORT_VERDICT_ACCEPTED) {
    LogInfo("agent", "unit {} has another owner and is dropped", unit.assignment.unit_id());
    Drop(unit);
  } else if (request.unit_done()) {
    unit.revoked = true;  // nothing is left to do; RemoveGoneUnits takes it away
  } else if (request.unit_returned()) {
    Drop(unit);
  }
  return true;
}

void Agent::Session::Drop(UnitWork& unit) {
  unit.pending.clear();
  if (Device* device = FindDevice(unit.assignment.device_uuid())) device->runner->Revoke(&unit);
  PumpSoon();
}

void Agent::Session::LoseEpoch() {
  LogWarn("agent", "control no longer knows this agent; registering again");
  epoch_ = 0;
  for (auto& [id, unit] : units_) Drop(*unit);
  PumpSoon();
}

void Agent::Session::RemoveGoneUnits() {
  bool removed = false;
  for (auto it = units_.begin(); it != units_.end();) {
    if (!it->second->revoked || it->second->in_flight() > 0) {
      ++it;
      continue;
    }
    if (Device* device = FindDevice(it->second->assignment.device_uuid())) device->runner->Remove(it->second.get());
    it = units_.erase(it);
    removed = true;
  }
  if (!removed || stopped_) return;
  // Tells control at once that they are gone: a cancel waits for it.
  PostSelf(&Session::Synchronize);
}

void Agent::Session::Drain(std::function<void()> done) {
  if (done) drained_.push_back(std::move(done));
  draining_ = true;
  for (Device& device : devices_) device.runner->StopStarting();
  PumpSoon();
}

void Agent::Session::Stop(std::function<void()> done) {
  if (done) ended_.push_back(std::move(done));
  if (!stopped_) {
    stopped_ = true;
    if (started_) options_.link->SetWake(nullptr);
    for (Device& device : devices_) device.runner->StopStarting();
    for (auto& [id, unit] : units_) Drop(*unit);
  }
  PumpSoon();
}

void Agent::Session::CheckEnded() {
  const bool idle =
      std::all_of(devices_.begin(), devices_.end(), [](const Device& device) { return device.runner->idle(); });
  if (!idle) return;
  if (draining_ && (stopped_ || Backlog() == 0)) {
    if (!stopped_ && started_) options_.link->SetWake(nullptr);
    stopped_ = true;
  }
  if (!stopped_) return;
  auto callbacks = std::exchange(drained_, {});
  for (auto& callback : std::exchange(ended_, {})) callbacks.push_back(std::move(callback));
  for (const auto& callback : callbacks) callback();
}

void Agent::Session::DeviceChanged(const tunefarm::v1::Device& device) {
  for (tunefarm::v1::Device& known : known_devices_) {
    if (known.uuid() != device.uuid()) continue;
    known = device;
    changed_devices_[device.uuid()] = device;
    Synchronize();
    return;
  }
}

Agent::Agent(const AgentOptions& options) : session_(std::make_shared<Session>(options)) {}

Agent::~Agent() {
  session_->executor()->Post([session = session_] { session->Stop(nullptr); });
}

void Agent::Start() {
  session_->executor()->Post([session = session_] { session->Start(); });
}

void Agent::DeviceChanged(const tunefarm::v1::Device& device) {
  session_->executor()->Post([session = session_, device] { session->DeviceChanged(device); });
}

void Agent::Drain(std::function<void()> done) {
  session_->executor()->Post(
      [session = session_, done = std::move(done)]() mutable { session->Drain(std::move(done)); });
}

void Agent::Stop(std::function<void()> done) {
  session_->executor()->Post(
      [session = session_, done = std::move(done)]() mutable { session->Stop(std::move(done)); });
}

}  // namespace tunefarm
