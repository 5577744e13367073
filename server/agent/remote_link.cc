#include "server/agent/remote_link.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {

namespace wire = tunefarm::agent::v1;

namespace {

constexpr Duration kWaitMax = std::chrono::seconds(10);
// The answer may still be on its way when the wait itself is over.
constexpr Duration kWaitSlack = std::chrono::seconds(5);
constexpr size_t kKernelsMax = 32;
constexpr Duration kHeartbeatMax = std::chrono::seconds(5);
constexpr int kHeartbeatsPerLease = 6;

std::string UnitsOf(const wire::SynchronizeRequest& request) {
  std::string units;
  for (const wire::UnitInHand& unit : request.units()) units += unit.SerializeAsString();
  return units;
}

bool BringsSomething(const wire::SynchronizeResponse& response) {
  return response.assignments_size() > 0 || response.revoked_unit_ids_size() > 0 || response.epoch_expired() ||
         response.released_device_uuids_size() > 0;
}

}  // namespace

RemoteLink::RemoteLink(const RemoteLinkOptions& options)
    : controls_(options.controls),
      calls_(options.calls),
      reports_(options.reports),
      waits_(options.waits),
      spool_(options.spool) {
  MutexLock spool_lock(&spool_mutex_);
  MutexLock lock(&mutex_);
  spool_is_empty_ = spool_->empty();
  spool_is_full_ = spool_->full();
  spool_bytes_ = spool_->bytes();
}

RemoteLink::~RemoteLink() = default;

void RemoteLink::SetWake(std::function<void()> wake) {
  MutexLock lock(&wake_mutex_);
  wake_ = std::move(wake);
}

void RemoteLink::WakeAgent() {
  MutexLock lock(&wake_mutex_);
  if (wake_) wake_();
}

Duration RemoteLink::round_trip() const {
  MutexLock lock(&mutex_);
  return round_trip_;
}

bool RemoteLink::shares_work() const {
  MutexLock lock(&mutex_);
  return shares_work_ && (connected_ || Now() - away_since_ < kAgentClaimPatience);
}

void RemoteLink::Cancel() {
  {
    MutexLock lock(&mutex_);
    cancelled_ = true;
  }
  controls_->Cancel();
}

RemoteLink::Counts RemoteLink::counts() const {
  MutexLock lock(&mutex_);
  return {sent_, spooled_, static_cast<int64_t>(spool_bytes_), connected_, controls_->address()};
}

// ---- Register ----

absl::StatusOr<wire::RegisterResponse> RemoteLink::Register(const wire::RegisterRequest& request) {
  wire::RegisterRequest own = request;
  MutexLock spool_lock(&spool_mutex_);
  while (!spool_->empty()) {
    if (!SendSpooled()) return Unavailable("control does not accept the spooled results yet");
  }
  if (!spool_->identity().empty() && spool_->identity() != request.agent_id()) {
    own.set_replaces_agent_id(spool_->identity());
  }
  own.set_now_ms(calls_->clock()->WallMs());
  ASSIGN_OR_RETURN(wire::RegisterResponse response,
                   controls_->Do([&](ControlChannel& channel) { return channel.Register(own, kCallDeadline); }));
  const absl::Status kept = spool_->SetIdentity(request.agent_id());
  if (!kept.ok()) LogWarn("agent", "the next start cannot tell whose work it takes up: {}", MessageOf(kept));
  {
    MutexLock lock(&mutex_);
    agent_id_ = request.agent_id();
    epoch_ = response.epoch();
    control_ = response.control();
    connected_ = true;
    const Duration lease = std::chrono::milliseconds(response.lease_ms());
    heartbeat_ = lease > Duration::zero() ? std::min(kHeartbeatMax, lease / kHeartbeatsPerLease) : kHeartbeatMax;
    is_asked_ = true;
    ++registration_;
    answer_.reset();
    next_.reset();
    changed_devices_.clear();  // all its devices were part of the registration
    wait_control_.clear();
  }
  LogInfo("agent", "registered with control at {}", controls_->address());
  StartWait();
  return response;
}

// ---- Synchronize ----

absl::StatusOr<wire::SynchronizeResponse> RemoteLink::Synchronize(const SynchronizeRequest& request) {
  // Control may wait for the results of an agent that has no work left, or wants some. Where many agents have results
  // it waits for nobody's alone.
  bool sends_gathered = request.units_size() == 0;
  {
    MutexLock lock(&mutex_);
    for (const auto& device : request.changed_devices()) changed_devices_[device.uuid()] = device;
    if (answer_.has_value()) {
      wire::SynchronizeResponse answer = *std::move(answer_);
      answer_.reset();
      return answer;  // the next request lists what this one brings
    }
    if (!under_way_ && SaysNothingNew(request)) return wire::SynchronizeResponse();
    next_ = request;
    // One that waits for the answer to an earlier one asks again and again.
    const Pending* const first = FirstWaiting();
    const bool is_waited_for = first != nullptr && request.demands_size() > 0 &&
                               (gather_ <= kGather || (starved_ && Now() - first->since >= gather_ / 2));
    sends_gathered = sends_gathered || (!under_way_ && is_waited_for);
    if (!under_way_) StartSynchronize();
  }
  if (sends_gathered) SendGathered();
  return wire::SynchronizeResponse();
}

bool RemoteLink::SaysNothingNew(const SynchronizeRequest& request) const {
  return !is_asked_ && connected_ && request.demands_size() == 0 && changed_devices_.empty() &&
         Now() - answered_at_ < heartbeat_ && UnitsOf(request) == answered_units_;
}

void RemoteLink::StartSynchronize() {
  if (cancelled_ || !next_.has_value()) return;
  under_way_ = true;
  calls_->Post([this] {
    SynchronizeRequest request;
    std::string asked_units;
    {
      MutexLock lock(&mutex_);
      if (cancelled_ || !next_.has_value()) {
        under_way_ = false;
        return;
      }
      request = *std::move(next_);
      next_.reset();
      is_asked_ = false;
      asked_units = UnitsOf(request);
      // What has been reported and not taken is in flight as far as control is concerned.
      std::map<int64_t, bool> listed;
      for (const auto& unit : request.units()) listed[unit.unit_id()] = true;
      for (const auto& [unit_id, unsent] : unsent_) {
        if (listed.count(unit_id) > 0) continue;
        wire::UnitInHand* unit = request.add_units();
        unit->set_unit_id(unit_id);
        unit->set_token(unsent.token);
        unit->set_device_uuid(unsent.device_uuid);
      }
      request.clear_changed_devices();
      for (const auto& [uuid, device] : changed_devices_) *request.add_changed_devices() = device;
      request.set_control(control_);
      request.set_now_ms(calls_->clock()->WallMs());
    }
    SynchronizeNow(std::move(request), std::move(asked_units));
  });
}

void RemoteLink::SynchronizeNow(SynchronizeRequest request, std::string units) {
  const MonotonicTime begin = Now();
  auto response = controls_->Do([&](ControlChannel& channel) { return channel.Synchronize(request, kCallDeadline); });
  const Duration took = Now() - begin;
  if (response.ok()) FetchKernelsOf(*response);
  bool wakes = false;
  bool revokes = false;
  bool came_back = false;
  {
    MutexLock lock(&mutex_);
    under_way_ = false;
    if (request.epoch() != epoch_ || request.agent_id() != agent_id_) return StartSynchronize();
    came_back = response.ok() && !connected_;
    if (connected_ && !response.ok()) away_since_ = begin;
    connected_ = response.ok();
    if (!response.ok()) {
      // Asked again with what the agent says meanwhile, or the same.
      if (!next_.has_value()) next_ = std::move(request);
      under_way_ = true;
      const Duration delay = std::max(kRepeatDelay, controls_->WaitBeforeNext());
      calls_->PostAfter(delay, [this] {
        MutexLock again(&mutex_);
        under_way_ = false;
        StartSynchronize();
      });
    } else {
      round_trip_ = round_trip_ == Duration::zero() ? took : (round_trip_ * 7 + took) / 8;
      control_ = response->control();
      has_binaries_.store(response->has_binaries());
      shares_work_ = response->shares_work();
      gather_ = response->gather_ms() <= 0
                    ? kGather
                    : std::min<Duration>(kGatherMax, std::chrono::milliseconds(response->gather_ms()));
      answered_units_ = std::move(units);
      answered_at_ = Now();
      for (const auto& device : request.changed_devices()) {
        const auto told = changed_devices_.find(device.uuid());
        if (told != changed_devices_.end() && told->second.SerializeAsString() == device.SerializeAsString()) {
          changed_devices_.erase(told);
        }
      }
      wakes = BringsSomething(*response);
      // A job's end waits until units that were taken back have left this agent. Others were done when control
      // read the list.
      for (const int64_t unit_id : response->revoked_unit_ids()) revokes = revokes || unsent_.count(unit_id) > 0;
      starved_ = request.demands_size() > 0 && response->assignments_size() == 0;
      if (wakes) {
        next_.reset();  // it does not list what has come now; the agent asks again
        answer_ = *std::move(response);
      } else {
        StartSynchronize();
      }
    }
  }
  if (came_back || revokes) SendSoon();
  if (wakes) WakeAgent();
}

// ---- Works ----

void RemoteLink::ClaimWork(const wire::ClaimWorkRequest& request,
                           const std::function<void(absl::StatusOr<wire::ClaimWorkResponse>)>& done) {
  bool is_in_flight = false;
  {
    MutexLock lock(&mutex_);
    is_in_flight = std::exchange(claims_work_, true);
  }
  // The thread has other calls to make, before which claims that the agent has given up must not queue up.
  if (is_in_flight) return done(Unavailable("control has not answered the claim before this one yet"));
  calls_->Post([this, request, done] {
    // Whether the daemon is away is found out by other calls: this one may only have waited for the store.
    auto response =
        controls_->Ask([&](ControlChannel& channel) { return channel.ClaimWork(request, kAgentClaimPatience); });
    {
      MutexLock lock(&mutex_);
      claims_work_ = false;
      // The daemon is another one, of a version without this call; the next Synchronize says whether one has it.
      if (absl::IsUnimplemented(response.status())) shares_work_ = false;
    }
    MutexLock lock(&wake_mutex_);
    if (wake_) done(std::move(response));
  });
}

// ---- Binaries ----

absl::StatusOr<wire::TakeCompilesResponse> RemoteLink::TakeCompiles(int configs) {
  wire::TakeCompilesRequest request;
  {
    MutexLock lock(&mutex_);
    if (epoch_ == 0) return Unavailable("the agent is not registered yet");
    request.set_agent_id(agent_id_);
    request.set_epoch(epoch_);
  }
  request.set_configs(configs);
  return controls_->Do([&](ControlChannel& channel) { return channel.TakeCompiles(request, kCallDeadline); });
}

absl::Status RemoteLink::OfferBinary(const std::string& key, std::string binary) {
  wire::OfferBinaryRequest request;
  request.set_key(key);
  request.set_binary(std::move(binary));
  return controls_->Do([&](ControlChannel& channel) { return channel.OfferBinary(request, kCallDeadline); }).status();
}

absl::StatusOr<std::string> RemoteLink::FetchBinary(const std::string& key) {
  wire::FetchBinaryRequest request;
  request.set_key(key);
  absl::StatusOr<wire::FetchBinaryResponse> response =
      controls_->Do([&](ControlChannel& channel) { return channel.FetchBinary(request, kCallDeadline); });
  if (!response.ok()) return response.status();
  return std::move(*response->mutable_binary());
}

// ---- Kernels ----

absl::StatusOr<std::string> RemoteLink::FetchKernelNow(const std::string& kernel_id) {
  {
    MutexLock lock(&mutex_);
    for (const auto& [id, kernel] : kernels_) {
      if (id == kernel_id) return kernel;
    }
  }
  wire::FetchKernelRequest request;
  request.set_kernel_id(kernel_id);
  ASSIGN_OR_RETURN(wire::FetchKernelResponse response,
                   controls_->Do([&](ControlChannel& channel) { return channel.FetchKernel(request, kCallDeadline); }));
  MutexLock lock(&mutex_);
  kernels_.emplace_back(kernel_id, response.kernel());
  if (kernels_.size() > kKernelsMax) kernels_.pop_front();
  return response.kernel();
}

void RemoteLink::FetchKernelsOf(const wire::SynchronizeResponse& response) {
  for (const wire::Assignment& assignment : response.assignments()) {
    // One that could not be fetched now is asked for by the agent, which knows how to wait.
    FetchKernelNow(assignment.kernel_id()).status().IgnoreError();
  }
}

absl::StatusOr<wire::FetchKernelResponse> RemoteLink::FetchKernel(const wire::FetchKernelRequest& request) {
  absl::StatusOr<std::string> kernel = FetchKernelNow(request.kernel_id());
  if (!kernel.ok() && IsAway(kernel.status())) return Unavailable("{}", MessageOf(kernel.status()));
  RETURN_IF_ERROR(kernel.status());
  wire::FetchKernelResponse response;
  response.set_kernel(*std::move(kernel));
  return response;
}

// ---- Wait ----

void RemoteLink::StartWait() {
  uint64_t registration = 0;
  {
    MutexLock lock(&mutex_);
    registration = registration_;
  }
  waits_->Post([this, registration] { WaitOnce(registration); });
}

void RemoteLink::WaitOnce(uint64_t registration) {
  wire::WaitRequest request;
  {
    MutexLock lock(&mutex_);
    if (cancelled_ || registration != registration_) return;
    request.set_agent_id(agent_id_);
    request.set_epoch(epoch_);
    request.set_control(wait_control_);
    request.set_seen(wait_seen_);
    request.set_wait_ms(static_cast<int32_t>(std::chrono::duration_cast<std::chrono::milliseconds>(kWaitMax).count()));
  }
  const auto response =
      controls_->Do([&](ControlChannel& channel) { return channel.Wait(request, kWaitMax + kWaitSlack); });
  Duration delay = Duration::zero();
  if (response.ok()) {
    MutexLock lock(&mutex_);
    wait_control_ = response->control();
    wait_seen_ = response->seen();
  } else {
    delay = std::max(kRepeatDelay, controls_->WaitBeforeNext());
  }
  const auto again = [this, registration] { WaitOnce(registration); };
  if (delay == Duration::zero()) {
    waits_->Post(again);
  } else {
    waits_->PostAfter(delay, again);
  }
  // Another refusal than being away: the epoch may be over, which a Synchronize finds out.
  if (response.ok() ? response->woken() : !IsAway(response.status())) {
    {
      MutexLock lock(&mutex_);
      is_asked_ = true;
    }
    WakeAgent();
  }
}

}  // namespace tunefarm
