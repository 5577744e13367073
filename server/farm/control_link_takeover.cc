// How a ControlLink comes to know agents and claims that were made through other daemons, or before this one's start.

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/farm/control_link.h"

namespace tunefarm {

namespace wire = tunefarm::agent::v1;

absl::StatusOr<std::string> ControlLink::DeviceOfClaim(const AgentState& agent, const ClaimedUnit& claimed) {
  if (agent.about.devices_size() == 1) return agent.about.devices(0).uuid();
  ASSIGN_OR_RETURN(const JobRow job, store_->GetJob(claimed.job_id));
  for (const StudyRow& study : job.studies) {
    if (study.study_id != claimed.unit.study_id) continue;
    for (const auto& device : agent.about.devices()) {
      if (devices_->ClassForWork(device.uuid(), agent.about.agent_id()) != study.class_id) continue;
      const std::vector<std::string> names = devices_->NamesOf(device.uuid());
      if (study.device_uuid.empty() || study.device_uuid == device.uuid() ||
          std::find(names.begin(), names.end(), study.device_uuid) != names.end()) {
        return device.uuid();
      }
    }
  }
  return NotFound("agent {} has no device for unit {}", agent.about.display_name(), claimed.unit.unit_id);
}

absl::StatusOr<std::vector<Claim>> ControlLink::ReadClaims(const AgentState& agent, const std::string& agent_id,
                                                           int64_t replacements,
                                                           const std::map<int64_t, std::string>& device_of,
                                                           const std::set<int64_t>& except) {
  ASSIGN_OR_RETURN(const std::vector<ClaimedUnit> held, store_->ClaimsOf(agent_id, agent.epoch));
  std::vector<Claim> claims;
  for (const ClaimedUnit& claimed : held) {
    if (except.count(claimed.unit.unit_id) > 0) continue;
    const auto listed = device_of.find(claimed.unit.unit_id);
    std::string device = listed == device_of.end() ? "" : listed->second;
    if (device.empty() || devices_->OwnerOf(device) != agent_id) {
      absl::StatusOr<std::string> found = DeviceOfClaim(agent, claimed);
      if (absl::IsUnavailable(found.status())) return found.status();
      if (!found.ok()) {
        LogWarn("jobs", "a claim waits for the end of its agent: {}", MessageOf(found.status()));
        continue;
      }
      device = *std::move(found);
    }
    absl::StatusOr<Claim> claim = MakeClaim(agent_id, agent.epoch, device, claimed, kernels_, *devices_);
    if (absl::IsUnavailable(claim.status())) return claim.status();
    if (!claim.ok()) {
      LogError("jobs", "unit {} cannot be taken over: {}", claimed.unit.unit_id, MessageOf(claim.status()));
      continue;
    }
    claim->replacements = replacements;
    RETURN_IF_ERROR(FilterBegunFinal(&*claim, claimed.present_devices));
    claims.push_back(*std::move(claim));
  }
  return claims;
}

void ControlLink::PutTakenOver(Claim claim, bool delivered) {
  claim.mode = claim.assignment.trials().empty() ? Mode::kDropped : ModeOf(claim.job_id, claim.study_id, claim.kind);
  claim.delivered = delivered;
  claims_.Put(std::move(claim));
}

absl::Status ControlLink::TakeOverLateClaims(const std::string& agent_id, int64_t epoch) {
  const int64_t replacements = FollowReplacements();
  AgentState agent;
  std::set<int64_t> known;  // what is known and ends meanwhile is no news
  {
    MutexLock lock(&mutex_);
    const auto found = agents_.find(agent_id);
    if (found == agents_.end() || found->second.epoch != epoch) return absl::OkStatus();
    agent = found->second;
    for (const int64_t unit_id : claims_.OfAgent(agent_id)) known.insert(unit_id);
    for (const Unmade& unmade : unmade_) known.insert(unmade.claimed.unit.unit_id);
  }
  ASSIGN_OR_RETURN(std::vector<Claim> claims, ReadClaims(agent, agent_id, replacements, {}, known));
  MutexLock lock(&mutex_);
  if (replacements != replacements_) return absl::OkStatus();
  // What is claimed for it right now may be among them, and is put by who claims it.
  if (claiming_for_.count(agent_id) > 0) return absl::OkStatus();
  for (Claim& claim : claims) {
    // One of an agent that is served elsewhere by now may be old.
    const Claim* const found = claims_.Find(claim.unit_id);
    if (found != nullptr && found->token == claim.token) continue;
    LogInfo("jobs", "unit {} had been claimed for agent {}, which was not told", claim.unit_id,
            agent.about.display_name());
    PutTakenOver(std::move(claim), false);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> ControlLink::TakeOver(const std::string& agent_id, int64_t epoch,
                                           const google::protobuf::RepeatedPtrField<wire::UnitInHand>& units) {
  MutexLock one_at_a_time(&taking_over_);
  const int64_t replacements = FollowReplacements();
  ASSIGN_OR_RETURN(const std::optional<AgentRow> row, store_->FindAgent(agent_id));
  if (!row.has_value() || row->epoch != epoch) {
    Lose(agent_id);
    return false;
  }
  wire::RegisterRequest about;
  if (!about.ParseFromString(row->detail)) return DataLoss("what is stored of agent {} cannot be read", agent_id);
  AgentState agent = StateOf(about);
  agent.epoch = epoch;
  agent.draining = row->draining;
  agent.renewed = clock_->Now() - std::chrono::milliseconds(agent.lease_ms);  // renew it now
  absl::Status noted = NoteDevices(agent);
  if (absl::IsFailedPrecondition(noted)) {
    // They may have been another agent's that is gone by now.
    RETURN_IF_ERROR(RefreshAgents(/*reap=*/false));
    noted = NoteDevices(agent);
  }
  RETURN_IF_ERROR(noted);
  std::map<int64_t, std::string> device_of;
  for (const wire::UnitInHand& unit : units) device_of[unit.unit_id()] = unit.device_uuid();
  ASSIGN_OR_RETURN(std::vector<Claim> claims, ReadClaims(agent, agent_id, replacements, device_of, {}));
  LogInfo("jobs", "agent {} on {} is taken over with {} units in hand", agent.about.display_name(), row->host,
          units.size());
  MutexLock lock(&mutex_);
  if (closed_) return Unavailable("the daemon is stopping");
  if (store_->Replacements() != replacements || replacements_ != replacements) {
    return Unavailable("the database was replaced while agent {} was read from it; try again", agent_id);
  }
  claims_.EraseAgent(agent_id);
  for (Claim& claim : claims) {
    const auto listed = device_of.find(claim.unit_id);
    PutTakenOver(std::move(claim), listed != device_of.end() && !listed->second.empty());
  }
  agents_[agent_id] = std::move(agent);
  return true;
}

absl::StatusOr<std::optional<Claim>> ControlLink::FindClaim(const wire::ReportTrialsRequest& request) {
  bool is_known = false;
  for (int i = 0; i < 2; ++i) {
    FollowReplacements();
    {
      MutexLock lock(&mutex_);
      if (closed_) return Unavailable("the daemon is stopping");
      const Claim* const found = claims_.Find(request.unit_id());
      if (found != nullptr && found->agent_id == request.agent_id() && found->epoch == request.epoch() &&
          found->token == request.token()) {
        return ReportedPart(*found, request);
      }
      const auto agent = agents_.find(request.agent_id());
      is_known = agent != agents_.end() && agent->second.epoch == request.epoch();
    }
    if (i > 0) return std::nullopt;
    google::protobuf::RepeatedPtrField<wire::UnitInHand> units;
    if (request.trials_size() > 0) {
      wire::UnitInHand* unit = units.Add();
      unit->set_unit_id(request.unit_id());
      unit->set_device_uuid(request.trials(0).device_uuid());
    }
    if (is_known) {
      // Claimed through another control daemon, or taken away.
      ASSIGN_OR_RETURN(const std::vector<ClaimedUnit> held, store_->ClaimsOf(request.agent_id(), request.epoch()));
      if (std::none_of(held.begin(), held.end(), [&](const ClaimedUnit& claimed) {
            return claimed.unit.unit_id == request.unit_id() && claimed.unit.token == request.token();
          })) {
        return std::nullopt;
      }
    }
    ASSIGN_OR_RETURN(const bool taken, TakeOver(request.agent_id(), request.epoch(), units));
    if (!taken) return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace tunefarm
