#include "server/farm/claim_desk.h"

#include <algorithm>
#include <utility>

#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/job_store.h"

namespace tunefarm {

namespace wire = tunefarm::agent::v1;

namespace {

// How often the store is asked for one demand when all that it gives must be dropped.
constexpr int kClaimsPerDemandMax = 64;

}  // namespace

absl::Status ClaimDesk::ClaimFor(const wire::SynchronizeRequest& request, const std::string& device_uuid,
                                 const Claims::Demand& demand, wire::SynchronizeResponse* response) {
  p_.claims->BeginClaim(request.agent_id());
  const absl::Status claimed = ClaimUntilDelivered(request, device_uuid, demand, response);
  const std::vector<int64_t> cancelled = p_.claims->EndClaim(request.agent_id());
  EndDropped();
  for (int64_t job_id : cancelled) p_.hooks->gone(job_id);
  return claimed;
}

absl::Status ClaimDesk::ClaimUntilDelivered(const wire::SynchronizeRequest& request, const std::string& device_uuid,
                                            const Claims::Demand& demand, wire::SynchronizeResponse* response) {
  const std::string class_id = p_.devices->ClassForWork(device_uuid, request.agent_id());
  if (class_id.empty()) return absl::OkStatus();
  std::vector<Claims::Unmade> units = p_.claims->TakeUnmade(request.agent_id(), device_uuid);
  // Units of a search whose time is up are dropped here, and the device must not wait for its next question because of
  // them.
  for (int claims = 0; claims < kClaimsPerDemandMax; ++claims) {
    if (units.empty()) {
      const int64_t replacements = p_.claims->Follow(p_.store->Replacements());
      const ClaimRequest claim_request{request.agent_id(),
                                       request.epoch(),
                                       device_uuid,
                                       class_id,
                                       demand.units,
                                       p_.clock->WallMs(),
                                       p_.devices->NamesOf(device_uuid),
                                       demand.trials};
      ASSIGN_OR_RETURN(std::vector<ClaimedUnit> claimed, p_.store->units()->ClaimUnits(claim_request));
      for (ClaimedUnit& unit : claimed) {
        units.push_back({request.agent_id(), device_uuid, std::move(unit), replacements});
      }
    }
    if (units.empty()) break;
    bool enough = false;
    for (const Claims::Unmade& unit : units) enough = HandOut(request, unit, response) || enough;
    if (enough) break;
    units.clear();
  }
  return absl::OkStatus();
}

bool ClaimDesk::HandOut(const wire::SynchronizeRequest& request, const Claims::Unmade& unit,
                        wire::SynchronizeResponse* response) {
  const ClaimedUnit& claimed = unit.claimed;
  p_.compiles->Remove(claimed.unit.unit_id);
  auto claim = MakeClaim(request.agent_id(), request.epoch(), unit.device_uuid, claimed, unit.replacements, p_.kernels,
                         *p_.devices);
  if (absl::IsUnavailable(claim.status())) {
    LogWarn("jobs", "unit {} waits until its kernel can be read: {}", claimed.unit.unit_id, MessageOf(claim.status()));
    p_.claims->PutUnmade(unit);
    return true;
  }
  if (!claim.ok()) {
    // Stays claimed until the next start; the job's driver has failed on the same data.
    LogError("jobs", "unit {} cannot be handed out: {}", claimed.unit.unit_id, MessageOf(claim.status()));
    return false;
  }
  if (!p_.agents->SaysHeaders(request.agent_id())) claim->measured_scope.clear();
  tunefarm::v1::Job spec;
  spec.ParseFromString(claimed.job_spec);  // MakeClaim has read it
  const absl::Status may_run = p_.agents->CheckMayRun(request.agent_id(), *claim, spec);
  if (!may_run.ok()) {
    LogWarn("jobs", "unit {} goes to another agent than {}: {}", claim->unit_id, claim->agent_id, MessageOf(may_run));
    p_.agents->Rest(request.agent_id());
    Return(*claim);
    return true;  // what comes next in the queue is probably like it
  }
  if (p_.claims->HasOtherAlone(request.agent_id(), claim->unit_id)) {
    Return(*claim);
    return true;
  }
  const absl::Status on_one_device =
      StoreWithoutRun(&*claim, p_.filters->OfBegunFinal(*claim, claimed.present_devices));
  if (!on_one_device.ok()) {
    LogWarn("jobs", "final {} waits until it can begin again: {}", claimed.unit.unit_id, MessageOf(on_one_device));
    if (absl::IsAborted(on_one_device)) return false;
    p_.claims->PutUnmade(unit);
    return true;
  }
  p_.hooks->claimed(claimed.job_id);
  NoteWorks(*claim);
  Filter(&*claim, spec);
  return p_.claims->HandOut(*std::move(claim), response);
}

void ClaimDesk::Filter(Claim* claim, const tunefarm::v1::Job& spec) {
  const absl::Status poisoned = StoreWithoutRun(claim, p_.filters->Poisoned(*claim, spec));
  if (!poisoned.ok()) {
    LogWarn("jobs", "known crashes cannot be looked up; unit {} runs whole: {}", claim->unit_id, MessageOf(poisoned));
  }
  const absl::Status lost = StoreWithoutRun(claim, p_.filters->Lost(*claim, spec));
  if (!lost.ok()) LogWarn("jobs", "unit {} is tried once more: {}", claim->unit_id, MessageOf(lost));
  const absl::Status measured = StoreWithoutRun(claim, p_.filters->Measured(claim));
  if (!measured.ok()) {
    LogWarn("jobs", "earlier measurements cannot be looked up; unit {} runs whole: {}", claim->unit_id,
            MessageOf(measured));
  }
}

absl::Status ClaimDesk::StoreWithoutRun(Claim* claim, absl::StatusOr<ClaimFilters::Trials> trials) {
  RETURN_IF_ERROR(trials.status());
  if (trials->empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const ReportVerdict verdict,
                   StoreTrials(p_.store, *claim, *trials, UnitAfter::kGoesOn, p_.clock->WallMs()));
  if (verdict == ReportVerdict::kStale) return Aborted("another agent owns it now");
  claim->EraseTrials(*trials);
  p_.hooks->reported(claim->study_id, claim->unit_id, *std::move(trials), false);
  return absl::OkStatus();
}

void ClaimDesk::NoteWorks(const Claim& claim) {
  if (claim.measured_scope.empty() || p_.claims->KnowsWorks(claim.study_id)) return;
  const absl::StatusOr<bool> has_works = p_.store->units()->HasWorks(claim.study_id);
  p_.claims->NoteWorks(claim, has_works.value_or(true));
}

void ClaimDesk::Return(const Claim& claim) {
  const auto returned = StoreTrials(p_.store, claim, {}, UnitAfter::kReturned, p_.clock->WallMs());
  if (!returned.ok()) LogWarn("jobs", "it waits for the end of its agent: {}", MessageOf(returned.status()));
}

absl::StatusOr<std::string> ClaimDesk::DeviceOf(const wire::RegisterRequest& about, const ClaimedUnit& claimed) {
  if (about.devices_size() == 1) return about.devices(0).uuid();
  ASSIGN_OR_RETURN(const JobRow job, p_.store->jobs()->GetJob(claimed.job_id));
  for (const StudyRow& study : job.studies) {
    if (study.study_id != claimed.unit.study_id) continue;
    for (const auto& device : about.devices()) {
      if (p_.devices->ClassForWork(device.uuid(), about.agent_id()) != study.class_id) continue;
      const std::vector<std::string> names = p_.devices->NamesOf(device.uuid());
      if (study.device_selector.empty() || study.device_selector == device.uuid() ||
          std::find(names.begin(), names.end(), study.device_selector) != names.end()) {
        return device.uuid();
      }
    }
  }
  return NotFound("agent {} has no device for unit {}", about.display_name(), claimed.unit.unit_id);
}

absl::StatusOr<std::vector<Claim>> ClaimDesk::Read(const wire::RegisterRequest& about, int64_t epoch,
                                                   int64_t replacements,
                                                   const std::map<int64_t, std::string>& device_of,
                                                   const std::set<int64_t>& except) {
  const std::string& agent_id = about.agent_id();
  ASSIGN_OR_RETURN(const std::vector<ClaimedUnit> held, p_.store->units()->ClaimsOf(agent_id, epoch));
  std::vector<Claim> claims;
  for (const ClaimedUnit& claimed : held) {
    if (except.count(claimed.unit.unit_id) > 0) continue;
    const auto listed = device_of.find(claimed.unit.unit_id);
    std::string device = listed == device_of.end() ? "" : listed->second;
    if (device.empty() || p_.devices->OwnerOf(device) != agent_id) {
      absl::StatusOr<std::string> found = DeviceOf(about, claimed);
      if (absl::IsUnavailable(found.status())) return found.status();
      if (!found.ok()) {
        LogWarn("jobs", "a claim waits for the end of its agent: {}", MessageOf(found.status()));
        continue;
      }
      device = *std::move(found);
    }
    absl::StatusOr<Claim> claim = MakeClaim(agent_id, epoch, device, claimed, replacements, p_.kernels, *p_.devices);
    if (absl::IsUnavailable(claim.status())) return claim.status();
    if (!claim.ok()) {
      LogError("jobs", "unit {} cannot be taken over: {}", claimed.unit.unit_id, MessageOf(claim.status()));
      continue;
    }
    if (!AgentRegistry::SaysHeaders(about)) claim->measured_scope.clear();
    RETURN_IF_ERROR(StoreWithoutRun(&*claim, p_.filters->OfBegunFinal(*claim, claimed.present_devices)));
    NoteWorks(*claim);
    claims.push_back(*std::move(claim));
  }
  return claims;
}

absl::Status ClaimDesk::ReadLate(const wire::RegisterRequest& about, int64_t epoch) {
  const int64_t replacements = p_.claims->Follow(p_.store->Replacements());
  // What is known and ends meanwhile is no news.
  const std::set<int64_t> known = p_.claims->UnitsOf(about.agent_id());
  ASSIGN_OR_RETURN(std::vector<Claim> claims, Read(about, epoch, replacements, {}, known));
  p_.claims->AddLate(about.agent_id(), replacements, std::move(claims));
  return absl::OkStatus();
}

void ClaimDesk::EndDropped() {
  bool has_returned = false;
  for (const auto& [claim, after] : p_.claims->Dropped()) {
    const auto verdict = StoreTrials(p_.store, claim, {}, after, p_.clock->WallMs());
    if (!verdict.ok()) {
      LogWarn("jobs", "unit {} cannot be ended yet: {}", claim.unit_id, MessageOf(verdict.status()));
      continue;
    }
    // Another thread may be ending the same claim and erase it first; the store accepts only one of them, and that one
    // tells.
    if (*verdict == ReportVerdict::kAccepted) {
      p_.hooks->reported(claim.study_id, claim.unit_id, {}, after == UnitAfter::kDone);
    }
    p_.claims->Erase(claim);
    p_.hooks->gone(claim.job_id);
    has_returned = has_returned || after == UnitAfter::kReturned;
  }
  if (has_returned) p_.agents->Wake();
}

}  // namespace tunefarm
