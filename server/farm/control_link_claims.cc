// How units are claimed for an agent and handed to it.

#include <algorithm>
#include <utility>
#include <vector>

#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/farm/control_link.h"

namespace tunefarm {

namespace wire = tunefarm::agent::v1;

namespace {

// How often the store is asked for one demand when all that it gives must be dropped.
constexpr int kClaimsPerDemandMax = 64;

}  // namespace

bool ControlLink::HasOther(const std::string& agent_id, int64_t unit_id, bool alone) const {
  for (const int64_t other_id : claims_.OfAgent(agent_id)) {
    const Claim& other = *claims_.Find(other_id);
    if (other_id != unit_id && other.delivered && (alone || other.is_alone)) return true;
  }
  return false;
}

absl::Status ControlLink::ClaimFor(const wire::SynchronizeRequest& request, const std::string& device_uuid,
                                   const Demand& demand, wire::SynchronizeResponse* response) {
  {
    MutexLock lock(&mutex_);
    ++claiming_;
    claiming_for_.insert(request.agent_id());
  }
  const absl::Status claimed = ClaimUntilDelivered(request, device_uuid, demand, response);
  std::vector<int64_t> cancelled;
  {
    MutexLock lock(&mutex_);
    claiming_for_.erase(claiming_for_.find(request.agent_id()));
    if (--claiming_ == 0) ended_while_claiming_.clear();
    for (const auto& [job_id, job] : jobs_) {
      if (job.cancelled) cancelled.push_back(job_id);
    }
  }
  FinishDropped();
  // Their end may have waited for this claim only.
  for (int64_t job_id : cancelled) hooks_.gone(job_id);
  return claimed;
}

absl::Status ControlLink::ClaimUntilDelivered(const wire::SynchronizeRequest& request, const std::string& device_uuid,
                                              const Demand& demand, wire::SynchronizeResponse* response) {
  const std::string class_id = devices_->ClassForWork(device_uuid, request.agent_id());
  if (class_id.empty()) return absl::OkStatus();
  std::vector<Unmade> units = TakeUnmade(request.agent_id(), device_uuid);
  // Units of a search whose time is up are dropped here, and the device must not wait for its next question because of
  // them.
  for (int claims = 0; claims < kClaimsPerDemandMax; ++claims) {
    if (units.empty()) {
      const int64_t replacements = FollowReplacements();
      const ClaimRequest claim_request{request.agent_id(),
                                       request.epoch(),
                                       device_uuid,
                                       class_id,
                                       demand.units,
                                       clock_->WallMs(),
                                       devices_->NamesOf(device_uuid),
                                       demand.trials};
      ASSIGN_OR_RETURN(std::vector<ClaimedUnit> claimed, store_->ClaimUnits(claim_request));
      for (ClaimedUnit& unit : claimed) {
        units.push_back({request.agent_id(), device_uuid, std::move(unit), replacements});
      }
    }
    if (units.empty()) break;
    bool enough = false;
    for (const Unmade& unit : units) enough = HandOut(request, unit, response) || enough;
    if (enough) break;
    units.clear();
  }
  return absl::OkStatus();
}

bool ControlLink::HandOut(const wire::SynchronizeRequest& request, const Unmade& unit,
                          wire::SynchronizeResponse* response) {
  const ClaimedUnit& claimed = unit.claimed;
  compiles_.Remove(claimed.unit.unit_id);
  tunefarm::v1::Job spec;
  auto claim = MakeClaim(request.agent_id(), request.epoch(), unit.device_uuid, claimed, kernels_, *devices_);
  if (claim.status().code() == absl::StatusCode::kUnavailable) {
    LogWarn("jobs", "unit {} waits until its kernel can be read: {}", claimed.unit.unit_id, MessageOf(claim.status()));
    MutexLock lock(&mutex_);
    if (unit.replacements == replacements_) unmade_.push_back(unit);
    return true;
  }
  if (!claim.ok()) {
    // Stays claimed until the next start; the job's driver has failed on the same data.
    LogError("jobs", "unit {} cannot be handed out: {}", claimed.unit.unit_id, MessageOf(claim.status()));
    return false;
  }
  spec.ParseFromString(claimed.job_spec);  // MakeClaim has read it
  claim->replacements = unit.replacements;
  const absl::Status may_run = CheckMayRun(request.agent_id(), *claim, spec);
  if (!may_run.ok()) {
    GiveUp(*claim, may_run);
    return true;  // what comes next in the queue is probably like it
  }
  const bool is_free = [&] {
    MutexLock lock(&mutex_);
    return !HasOther(claim->agent_id, claim->unit_id, false);
  }();
  if (!is_free) {
    const absl::StatusOr<ReportVerdict> returned = StoreTrials(*claim, {}, After::kReturned);
    if (!returned.ok()) LogWarn("jobs", "it waits for the end of its agent: {}", MessageOf(returned.status()));
    return true;
  }
  const absl::Status on_one_device = FilterBegunFinal(&*claim, claimed.present_devices);
  if (!on_one_device.ok()) {
    LogWarn("jobs", "final {} waits until it can begin again: {}", claimed.unit.unit_id, MessageOf(on_one_device));
    if (absl::IsAborted(on_one_device)) return false;
    MutexLock lock(&mutex_);
    if (unit.replacements == replacements_) unmade_.push_back(unit);
    return true;
  }
  hooks_.claimed(claimed.job_id);
  const absl::Status filtered = FilterPoisoned(&*claim, spec);
  if (!filtered.ok()) {
    LogWarn("jobs", "known crashes cannot be looked up; unit {} runs whole: {}", claimed.unit.unit_id,
            MessageOf(filtered));
  }
  const absl::Status lost = FilterLost(&*claim, spec);
  if (!lost.ok()) LogWarn("jobs", "unit {} is tried once more: {}", claimed.unit.unit_id, MessageOf(lost));
  const absl::Status taken_over = FilterMeasured(&*claim);
  if (!taken_over.ok()) {
    LogWarn("jobs", "earlier measurements cannot be looked up; unit {} runs whole: {}", claimed.unit.unit_id,
            MessageOf(taken_over));
  }
  MutexLock lock(&mutex_);
  if (claim->replacements != replacements_) return true;  // what became of it is read when the agent is taken over
  claim->mode =
      claim->assignment.trials().empty() ? Mode::kDropped : ModeOf(claim->job_id, claim->study_id, claim->kind);
  claim->delivered = claim->mode == Mode::kActive && !HasOther(claim->agent_id, claim->unit_id, claim->is_alone);
  const bool delivered = claim->delivered;
  if (delivered) *response->add_assignments() = claim->assignment;
  claims_.Put(*std::move(claim));
  return delivered;
}

std::vector<ControlLink::Unmade> ControlLink::TakeUnmade(const std::string& agent_id, const std::string& device_uuid) {
  MutexLock lock(&mutex_);
  std::vector<Unmade> taken;
  for (auto it = unmade_.begin(); it != unmade_.end();) {
    const bool own = it->agent_id == agent_id && it->device_uuid == device_uuid;
    if (own) taken.push_back(std::move(*it));
    it = own ? unmade_.erase(it) : std::next(it);
  }
  return taken;
}

}  // namespace tunefarm
