#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "server/agent/agent_session.h"
#include "server/agent/control_list.h"
#include "server/agent/device_runner.h"
#include "server/agent/study_notes.h"
#include "server/agent/unit_maker.h"
#include "server/base/failpoint.h"
#include "server/base/format.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {

namespace wire = tunefarm::agent::v1;

namespace {

constexpr Duration kBackOffMax = std::chrono::seconds(5);
constexpr int kUnitsPerDeviceMax = 16;
// Per device, including units that wait for other agents.
constexpr int kUnitsInHandMax = 64;
constexpr int kUnitsPerDemandMax = 8;
// Reports that control has not taken: above this nothing new is started.
constexpr int kBacklogMax = 256;
constexpr int kWorksPerCallMax = 256;
// Between a ClaimWork that control did not answer and the next one; each has at least as long for its answer.
constexpr Duration kClaimRetryDelay = std::chrono::milliseconds(250);

}  // namespace

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
    hooks.open_data_files = [files = options_.data_files](const KernelPlan& plan, const AgentDataFiles::Done& done) {
      if (files != nullptr) return files->Open(plan.kernel(), done);
      done(FailedPrecondition("this agent keeps no data files"));
    };
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
      const auto self = weak.lock();
      if (self == nullptr) return;
      self->ClaimAgain();
      self->Synchronize();
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
    self->ClaimAgain();
    self->Synchronize();
    self->Tick();
  });
}

void Agent::Session::Register() {
  if (stopped_ || draining_ || epoch_ != 0 || !units_.empty()) return;
  wire::RegisterRequest request = options_.about;
  if (request.display_name().empty()) request.set_display_name(options_.host);
  request.set_agent_id(agent_id_);
  request.set_host(options_.host);
  for (const auto& device : known_devices_) *request.add_devices() = device;
  const auto response = options_.link->Register(request);
  if (!response.ok()) {
    LogWarn("agent", "control does not accept the registration yet: {}", MessageOf(response.status()));
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
  gate_.shares_work = options_.link->shares_work();
  if (!gate_.shares_work) claims_fail_since_.reset();
  // First the device, then the paperwork: a report blocks until it is durable.
  if (!stopped_ && Backlog() < kBacklogMax) {
    for (Device& device : devices_) device.runner->Pump();
  }
  ClaimWork();
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

void Agent::Session::ClaimWork() {
  if (stopped_ || draining_ || epoch_ == 0 || claims_work_ || !gate_.shares_work) return;
  wire::ClaimWorkRequest request;
  for (Device& device : devices_) device.runner->TakeClaims(kWorksPerCallMax - request.claims_size(), &request);
  if (request.claims().empty()) return;
  request.set_agent_id(agent_id_);
  request.set_epoch(epoch_);
  claims_work_ = true;
  const auto answered = [weak = weak_from_this(), executor = options_.executor, call = ++claim_calls_,
                         request](const absl::StatusOr<wire::ClaimWorkResponse>& response) {
    executor->Post([weak, call, request, response] {
      if (const auto self = weak.lock()) self->TakeAnswers(call, request, response);
    });
  };
  claim_called_at_ = options_.executor->clock()->Now();
  const Duration waited = claim_called_at_ - claims_fail_since_.value_or(claim_called_at_);
  claim_timer_ =
      options_.executor->PostAfter(std::max<Duration>(kClaimRetryDelay, kAgentClaimPatience - waited),
                                   [answered] { answered(Unavailable("control has not answered in time")); });
  options_.link->ClaimWork(request, answered);
}

void Agent::Session::TakeAnswers(int64_t call, const wire::ClaimWorkRequest& request,
                                 const absl::StatusOr<wire::ClaimWorkResponse>& response) {
  // Also an answer that comes too late for its own trials: control answers, and later trials may wait for it.
  if (response.ok()) claims_fail_since_.reset();
  if (call != claim_calls_ || !claims_work_ || claim_timer_ == 0) return;
  options_.executor->Cancel(std::exchange(claim_timer_, 0));
  if (!response.ok() && !claims_fail_since_.has_value()) claims_fail_since_ = claim_called_at_;
  const bool is_away = IsAway(response.status()) && !absl::IsUnimplemented(response.status());
  if (is_away && gate_.shares_work && options_.executor->clock()->Now() - *claims_fail_since_ < kAgentClaimPatience) {
    // Nothing else is claimed until then.
    options_.executor->PostAfter(kClaimRetryDelay, [weak = weak_from_this(), request] {
      const auto self = weak.lock();
      if (self == nullptr) return;
      self->claims_work_ = false;
      for (Device& device : self->devices_) device.runner->ClaimLater(request);
      self->PumpSoon();
    });
    return;
  }
  if (!response.ok()) {
    LogInfo("agent", "{} without asking whether others do the same: {}",
            FormatCount(request.claims_size(), "trial runs", "trials run"), MessageOf(response.status()));
  }
  claims_work_ = false;
  const bool claims_again = std::exchange(claims_again_, false);
  for (int i = 0; i < request.claims_size(); ++i) {
    const wire::WorkClaim& claim = request.claims(i);
    const auto unit = units_.find(claim.unit_id());
    if (unit == units_.end() || unit->second->assignment.token() != claim.token()) continue;
    Device* const device = FindDevice(unit->second->assignment.device_uuid());
    const bool is_answered = response.ok() && i < response->answers_size();
    device->runner->TakeAnswer(*unit->second, claim.ordinal(), is_answered ? response->answers(i) : wire::WorkAnswer());
  }
  if (claims_again) ClaimAgain();
  PumpSoon();
}

void Agent::Session::ClaimAgain() {
  if (!gate_.shares_work) return;
  claims_again_ = claims_work_;
  for (Device& device : devices_) device.runner->ClaimAgain();
  PumpSoon();
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

int Agent::Session::UnitsWanted(const Device& device, const InHand& in_hand) const {
  const int missing = device.runner->trials_wanted() - device.runner->unfinished();
  const int room = std::min(kUnitsPerDeviceMax - (in_hand.units - in_hand.elsewhere), kUnitsInHandMax - in_hand.units);
  if (draining_ || !device.takes_work || device.rests || missing <= 0 || room <= 0) return 0;
  // Control in this process is asked as often as needed; of one far away, every question takes its time.
  if (gate_.round_trip_ms <= 0) return 1;
  return std::min({missing, kUnitsPerDemandMax, room});
}

wire::SynchronizeRequest Agent::Session::MakeRequest() {
  wire::SynchronizeRequest request;
  request.set_agent_id(agent_id_);
  request.set_epoch(epoch_);
  std::map<std::string, InHand> in_hand;
  for (const auto& [id, unit] : units_) {
    auto* listed = request.add_units();
    listed->set_unit_id(id);
    listed->set_token(unit->assignment.token());
    listed->set_device_uuid(unit->assignment.device_uuid());
    InHand& of_device = in_hand[unit->assignment.device_uuid()];
    ++of_device.units;
    of_device.elsewhere += gate_.shares_work && unit->is_elsewhere();
  }
  gate_.round_trip_ms = std::chrono::duration<double, std::milli>(options_.link->round_trip()).count();
  for (const Device& device : devices_) {
    const int units = UnitsWanted(device, in_hand[device.runner->uuid()]);
    if (units == 0) continue;
    auto* demand = request.add_demands();
    demand->set_device_uuid(device.runner->uuid());
    demand->set_units(units);
    demand->set_trials(device.runner->trials_wanted() - device.runner->unfinished());
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
    LogInfo("agent", "control returns device {} to service", uuid);
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
    LogError("agent", "unit {} is for device {}, which this agent does not have", assignment.unit_id(),
             assignment.device_uuid());
    return false;
  }
  auto unit = maker_.Make(assignment);
  if (!unit.ok()) {
    // Not listed as in flight, so control offers it again.
    LogWarn("agent", "unit {} cannot be started yet: {}", assignment.unit_id(), MessageOf(unit.status()));
    if (unit.status().code() == absl::StatusCode::kUnavailable) Retry();
    return false;
  }
  UnitWork* adopted = unit->get();
  units_[assignment.unit_id()] = *std::move(unit);
  device->runner->Add(adopted);
  return true;
}

void Agent::Session::Drop(UnitWork& unit) {
  unit.pending.clear();
  if (Device* device = FindDevice(unit.assignment.device_uuid())) device->runner->Revoke(&unit);
  PumpSoon();
}

void Agent::Session::LoseEpoch() {
  LogWarn("agent", "control does not know this agent; registering again");
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
