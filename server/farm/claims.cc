#include "server/farm/claims.h"

#include <algorithm>

#include "server/base/check.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/records/measured_key.h"

namespace tunefarm {

namespace wire = tunefarm::agent::v1;

int64_t Claims::Follow(int64_t replacements) {
  MutexLock lock(&mutex_);
  if (replacements > replacements_) {
    ForgetAll();
    replacements_ = replacements;
    wishes_are_old_ = true;
  }
  return replacements_;
}

void Claims::BeginAgain() {
  MutexLock lock(&mutex_);
  ForgetAll();
  wishes_are_old_ = false;
}

void Claims::ForgetAll() {
  served_.clear();
  table_.Clear();
  works_.Clear();
  jobs_.clear();
  unmade_.clear();
  ended_while_claiming_.clear();
}

void Claims::Close() {
  MutexLock lock(&mutex_);
  closed_ = true;
  served_.clear();
  table_.Clear();
  unmade_.clear();
}

void Claims::ApplyModes(int64_t job_id) {
  for (const auto& [unit_id, claim] : table_.all()) {
    if (claim.job_id == job_id) table_.SetMode(table_.Find(unit_id), Mode(job_id, claim.study_id, claim.kind));
  }
}

void Claims::Wish(int64_t job_id, bool JobWishes::*wish) {
  MutexLock lock(&mutex_);
  if (wishes_are_old_) return;
  jobs_[job_id].*wish = true;
  ApplyModes(job_id);
}

bool Claims::Resume(int64_t job_id) {
  MutexLock lock(&mutex_);
  const auto job = jobs_.find(job_id);
  if (job == jobs_.end() || !std::exchange(job->second.held, false)) return false;
  ApplyModes(job_id);
  return true;
}

bool Claims::StopStudySearch(int64_t job_id, int64_t study_id) {
  MutexLock lock(&mutex_);
  if (wishes_are_old_ || !jobs_[job_id].stopped_studies.insert(study_id).second) return false;
  ApplyModes(job_id);
  return true;
}

void Claims::Forget(int64_t job_id) {
  MutexLock lock(&mutex_);
  if (wishes_are_old_) return;
  jobs_.erase(job_id);
  if (!claiming_.empty()) ended_while_claiming_.insert(job_id);
  std::erase_if(unmade_, [&](const Unmade& unmade) { return unmade.claimed.job_id == job_id; });
  table_.EraseJob(job_id);
  works_.ForgetJob(job_id);
}

ClaimMode Claims::Mode(int64_t job_id, int64_t study_id, UnitKind kind) const {
  if (ended_while_claiming_.count(job_id) > 0) return ClaimMode::kDropped;
  const auto found = jobs_.find(job_id);
  if (found == jobs_.end()) return ClaimMode::kActive;
  const JobWishes& job = found->second;
  const bool search_is_over = job.search_stopped || job.stopped_studies.count(study_id) > 0;
  if (job.cancelled || (search_is_over && kind == UnitKind::kSearch)) return ClaimMode::kDropped;
  return job.held ? ClaimMode::kHeld : ClaimMode::kActive;
}

ClaimMode Claims::ModeOf(int64_t job_id, int64_t study_id, UnitKind kind) const {
  MutexLock lock(&mutex_);
  return Mode(job_id, study_id, kind);
}

ClaimMode Claims::ModeOfNew(const Claim& claim) const {
  if (claim.assignment.trials().empty()) return ClaimMode::kDropped;
  return Mode(claim.job_id, claim.study_id, claim.kind);
}

std::vector<int64_t> Claims::Jobs() const {
  MutexLock lock(&mutex_);
  std::set<int64_t> jobs;
  for (const auto& [unit_id, claim] : table_.all()) jobs.insert(claim.job_id);
  return {jobs.begin(), jobs.end()};
}

absl::Status Claims::Serve(const std::string& agent_id, int64_t epoch, int64_t replacements, std::vector<Claim> claims,
                           const std::set<int64_t>& in_hand) {
  MutexLock lock(&mutex_);
  if (closed_) return Unavailable("the daemon is stopping");
  if (replacements != replacements_) {
    return Unavailable("the database was replaced while agent {} was read from it; try again", agent_id);
  }
  table_.EraseAgent(agent_id);
  for (Claim& claim : claims) {
    claim.mode = ModeOfNew(claim);
    claim.delivered = in_hand.count(claim.unit_id) > 0;
    table_.Put(std::move(claim));
  }
  served_[agent_id] = epoch;
  return absl::OkStatus();
}

bool Claims::IsServed(const std::string& agent_id, int64_t epoch) const {
  const auto found = served_.find(agent_id);
  return found != served_.end() && found->second == epoch;
}

int64_t Claims::EpochOf(const std::string& agent_id) const {
  MutexLock lock(&mutex_);
  const auto found = served_.find(agent_id);
  return found == served_.end() ? 0 : found->second;
}

std::set<int64_t> Claims::EraseAgent(const std::string& agent_id) {
  MutexLock lock(&mutex_);
  std::set<int64_t> jobs;
  for (int64_t unit_id : table_.OfAgent(agent_id)) jobs.insert(table_.Find(unit_id)->job_id);
  table_.EraseAgent(agent_id);
  std::erase_if(unmade_, [&](const Unmade& unmade) { return unmade.agent_id == agent_id; });
  served_.erase(agent_id);
  return jobs;
}

std::map<std::string, int> Claims::UnitsByAgent() const {
  MutexLock lock(&mutex_);
  std::map<std::string, int> units;
  for (const auto& [unit_id, claim] : table_.all()) ++units[claim.agent_id];
  return units;
}

void Claims::BeginClaim(const std::string& agent_id) {
  MutexLock lock(&mutex_);
  claiming_.insert(agent_id);
}

std::vector<int64_t> Claims::EndClaim(const std::string& agent_id) {
  MutexLock lock(&mutex_);
  const auto claiming = claiming_.find(agent_id);
  TUNEFARM_CHECK(claiming != claiming_.end());
  claiming_.erase(claiming);
  if (claiming_.empty()) ended_while_claiming_.clear();
  std::vector<int64_t> cancelled;
  for (const auto& [job_id, job] : jobs_) {
    if (job.cancelled) cancelled.push_back(job_id);
  }
  return cancelled;
}

std::vector<Claims::Unmade> Claims::TakeUnmade(const std::string& agent_id, const std::string& device_uuid) {
  MutexLock lock(&mutex_);
  std::vector<Unmade> taken;
  for (auto it = unmade_.begin(); it != unmade_.end();) {
    const bool own = it->agent_id == agent_id && it->device_uuid == device_uuid;
    if (own) taken.push_back(std::move(*it));
    it = own ? unmade_.erase(it) : std::next(it);
  }
  return taken;
}

void Claims::PutUnmade(const Unmade& unmade) {
  MutexLock lock(&mutex_);
  if (unmade.replacements == replacements_) unmade_.push_back(unmade);
}

bool Claims::HasOther(const std::string& agent_id, int64_t unit_id, bool alone) const {
  for (const int64_t other_id : table_.OfAgent(agent_id)) {
    const Claim& other = *table_.Find(other_id);
    if (other_id != unit_id && other.delivered && (alone || other.is_alone)) return true;
  }
  return false;
}

bool Claims::HasOtherAlone(const std::string& agent_id, int64_t unit_id) const {
  MutexLock lock(&mutex_);
  return HasOther(agent_id, unit_id, false);
}

bool Claims::HandOut(Claim claim, wire::SynchronizeResponse* response) {
  MutexLock lock(&mutex_);
  // What became of it is read when the agent is served again.
  if (claim.replacements != replacements_ || !IsServed(claim.agent_id, claim.epoch)) return true;
  claim.mode = ModeOfNew(claim);
  claim.delivered = claim.mode == ClaimMode::kActive && !HasOther(claim.agent_id, claim.unit_id, claim.is_alone);
  const bool delivered = claim.delivered;
  if (delivered) *response->add_assignments() = claim.assignment;
  table_.Put(std::move(claim));
  return delivered;
}

std::set<int64_t> Claims::UnitsOf(const std::string& agent_id) const {
  MutexLock lock(&mutex_);
  std::set<int64_t> units;
  for (const int64_t unit_id : table_.OfAgent(agent_id)) units.insert(unit_id);
  for (const Unmade& unmade : unmade_) {
    if (unmade.agent_id == agent_id) units.insert(unmade.claimed.unit.unit_id);
  }
  return units;
}

void Claims::AddLate(const std::string& agent_id, int64_t replacements, std::vector<Claim> claims) {
  MutexLock lock(&mutex_);
  // What is claimed for it right now may be among them, and is put by who claims it.
  if (replacements != replacements_ || claiming_.count(agent_id) > 0 || served_.count(agent_id) == 0) return;
  for (Claim& claim : claims) {
    // One of an agent that is served elsewhere by now may be old.
    const Claim* const found = table_.Find(claim.unit_id);
    if (found != nullptr && found->token == claim.token) continue;
    LogInfo("jobs", "unit {} had been claimed for agent {}, which was not told", claim.unit_id, agent_id);
    claim.mode = ModeOfNew(claim);
    claim.delivered = false;
    table_.Put(std::move(claim));
  }
}

bool Claims::Compare(const wire::SynchronizeRequest& request, std::map<std::string, Demand>* wanted,
                     std::set<int64_t>* left_jobs, wire::SynchronizeResponse* response) {
  MutexLock lock(&mutex_);
  if (!IsServed(request.agent_id(), request.epoch())) return false;
  std::set<int64_t> listed;
  for (const wire::UnitInHand& unit : request.units()) {
    Claim* const claim = table_.Find(unit.unit_id());
    const bool owned = claim != nullptr && claim->agent_id == request.agent_id() && claim->token == unit.token();
    if (owned) {
      listed.insert(unit.unit_id());
      // Where the claim was read for a call that lists no units, neither was known.
      table_.SetDelivered(claim, true);
      if (!unit.device_uuid().empty()) claim->assignment.set_device_uuid(unit.device_uuid());
    }
    if (!owned || claim->mode != ClaimMode::kActive) response->add_revoked_unit_ids(unit.unit_id());
  }
  bool waits_alone = false;  // a unit that it must have alone: nothing more is claimed until it has ended
  for (int64_t unit_id : table_.OfAgent(request.agent_id())) {
    Claim* const claim = table_.Find(unit_id);
    waits_alone = waits_alone || (claim->is_alone && claim->mode == ClaimMode::kActive);
    if (listed.count(unit_id) > 0) continue;
    if (claim->delivered && claim->mode != ClaimMode::kActive) left_jobs->insert(claim->job_id);
    table_.SetDelivered(claim, false);
    Demand& room = (*wanted)[claim->assignment.device_uuid()];
    const bool fits = claim->mode == ClaimMode::kActive && room.units > 0;
    if (!fits || HasOther(claim->agent_id, unit_id, claim->is_alone)) continue;
    room.Take(claim->assignment);
    table_.SetDelivered(claim, true);
    *response->add_assignments() = claim->assignment;
  }
  if (waits_alone) wanted->clear();
  return true;
}

std::optional<Claim> Claims::Find(const wire::ReportTrialsRequest& report) const {
  MutexLock lock(&mutex_);
  const Claim* const claim = table_.Find(report.unit_id());
  if (claim == nullptr || claim->agent_id != report.agent_id() || claim->epoch != report.epoch() ||
      claim->token != report.token()) {
    return std::nullopt;
  }
  std::set<int64_t> reported;
  for (const tunefarm::v1::Trial& trial : report.trials()) reported.insert(trial.ordinal());
  Claim part = claim->WithoutTrials();
  for (const wire::TrialSpec& spec : claim->assignment.trials()) {
    if (reported.count(spec.ordinal()) > 0) *part.assignment.add_trials() = spec;
  }
  // The agent may have reported the others to a database that is no more.
  if (part.assignment.trials_size() < claim->assignment.trials_size()) part.is_part = true;
  return part;
}

bool Claims::IsKnown(const Claim& claim) const {
  const Claim* const found = table_.Find(claim.unit_id);
  return found != nullptr && found->token == claim.token && found->replacements == claim.replacements;
}

void Claims::Reported(const Claim& claim, const std::vector<tunefarm::v1::Trial>& trials) {
  MutexLock lock(&mutex_);
  if (IsKnown(claim)) table_.Find(claim.unit_id)->EraseTrials(trials);
}

void Claims::Erase(const Claim& claim) {
  MutexLock lock(&mutex_);
  if (IsKnown(claim)) table_.Erase(claim.unit_id);
}

bool Claims::KnowsUnits(const wire::ClaimWorkRequest& request) const {
  MutexLock lock(&mutex_);
  return !IsServed(request.agent_id(), request.epoch()) ||
         std::all_of(request.claims().begin(), request.claims().end(),
                     [&](const wire::WorkClaim& trial) { return table_.Find(trial.unit_id()) != nullptr; });
}

WorkClaimRequest Claims::BeginAsk(const wire::ClaimWorkRequest& request) {
  MutexLock lock(&mutex_);
  WorkClaimRequest asked{request.agent_id(), request.epoch(), {}};
  const bool is_served = IsServed(request.agent_id(), request.epoch());
  for (const wire::WorkClaim& trial : request.claims()) {
    WorkClaim& one = asked.claims.emplace_back();
    const Claim* const claim = is_served ? table_.Find(trial.unit_id()) : nullptr;
    if (claim == nullptr || claim->agent_id != request.agent_id() || claim->token != trial.token()) continue;
    one = {claim->study_id, WorkKey(claim->measured_scope, trial.work()), claim->unit_id, claim->token,
           trial.ordinal()};
    if (one.work != 0) works_.Wait(claim->study_id, one.work, asked.agent_id);
  }
  return asked;
}

void Claims::EndAsk(const WorkClaimRequest& request, const std::vector<WorkAnswer>& answers) {
  MutexLock lock(&mutex_);
  for (size_t i = 0; i < request.claims.size(); ++i) {
    const WorkClaim& asked = request.claims[i];
    if (asked.work == 0 || (i < answers.size() && answers[i].is_elsewhere)) continue;
    works_.Stop(asked.study_id, asked.work, request.agent_id);
  }
}

std::set<std::string> Claims::EndWorks(const Claim& claim, const std::vector<tunefarm::v1::Trial>& trials) {
  MutexLock lock(&mutex_);
  std::set<std::string> waiting;
  for (const tunefarm::v1::Trial& trial : trials) {
    const int64_t work = WorkKey(claim.measured_scope, trial.work());
    if (work != 0) waiting.merge(works_.End(claim.study_id, work, claim.agent_id));
  }
  return waiting;
}

bool Claims::KnowsWorks(int64_t study_id) const {
  MutexLock lock(&mutex_);
  return works_.Knows(study_id);
}

void Claims::NoteWorks(const Claim& claim, bool has_works) {
  MutexLock lock(&mutex_);
  // Of an ended job nothing would forget it again.
  if (claim.replacements != replacements_ || ended_while_claiming_.count(claim.job_id) > 0) return;
  works_.Note(claim.job_id, claim.study_id, has_works);
}

void Claims::ShareWorks() {
  MutexLock lock(&mutex_);
  works_.ShareAll();
}

bool Claims::SharesWorks() const {
  MutexLock lock(&mutex_);
  return works_.has_shared();
}

std::vector<std::pair<Claim, UnitAfter>> Claims::Dropped() const {
  MutexLock lock(&mutex_);
  std::vector<std::pair<Claim, UnitAfter>> dropped;
  for (int64_t unit_id : table_.ended()) {
    const Claim& claim = *table_.Find(unit_id);
    const bool has_rest = claim.is_part && Mode(claim.job_id, claim.study_id, claim.kind) != ClaimMode::kDropped;
    dropped.emplace_back(claim.WithoutTrials(), has_rest ? UnitAfter::kReturned : UnitAfter::kDone);
  }
  return dropped;
}

}  // namespace tunefarm
