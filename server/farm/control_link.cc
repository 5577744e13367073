#include "server/farm/control_link.h"

#include <algorithm>
#include <utility>

#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/records/measured_key.h"
#include "server/records/trial_rows.h"

namespace tunefarm {

namespace wire = tunefarm::agent::v1;
using tunefarm::v1::Trial;

namespace {

constexpr int kUnitsPerDemandMax = 8;
constexpr int kTrialsPerReportMax = 64;

}  // namespace

ControlLink::ControlLink(Store* store, Clock* clock, KernelRegistry* kernels, PoisonIndex* poison,
                         DeviceDirectory* devices, Hooks hooks, Options options)
    : store_(store),
      clock_(clock),
      kernels_(kernels),
      poison_(poison),
      other_studies_(store, clock),
      devices_(devices),
      hooks_(std::move(hooks)),
      options_(std::move(options)),
      replacements_(store->Replacements()),
      compiles_(clock) {}

void ControlLink::SetWake(std::function<void()> wake) {
  MutexLock lock(&wake_mutex_);
  wake_ = std::move(wake);
}

void ControlLink::Wake() {
  std::vector<std::string> hungry;
  {
    MutexLock lock(&mutex_);
    for (auto& [agent_id, agent] : agents_) {
      if (agent.hungry) hungry.push_back(agent_id);
      agent.hungry = false;
    }
  }
  wakes_.Wake(hungry);
  MutexLock lock(&wake_mutex_);
  if (wake_) wake_();
}

void ControlLink::WakeFor(const std::string& class_id, size_t units) {
  std::vector<std::string> told;
  {
    MutexLock lock(&mutex_);
    auto next = agents_.upper_bound(woken_last_);
    for (size_t i = 0; i < agents_.size() && told.size() < units; ++i, ++next) {
      if (next == agents_.end()) next = agents_.begin();
      AgentState& agent = next->second;
      if (!agent.hungry || agent.draining || clock_->Now() < agent.rests_until) continue;
      if (agent.classes.count(class_id) == 0) continue;
      agent.hungry = false;
      told.push_back(next->first);
    }
    if (!told.empty()) woken_last_ = told.back();
  }
  wakes_.Wake(told);
  MutexLock lock(&wake_mutex_);
  if (wake_) wake_();
}

void ControlLink::WakeAll() {
  wakes_.WakeAll();
  MutexLock lock(&wake_mutex_);
  if (wake_) wake_();
}

ControlLink::Mode ControlLink::ModeOf(int64_t job_id, int64_t study_id, UnitKind kind) const {
  if (ended_while_claiming_.count(job_id) > 0) return Mode::kDropped;
  const auto found = jobs_.find(job_id);
  if (found == jobs_.end()) return Mode::kActive;
  const JobMode& job = found->second;
  const bool search_is_over = job.search_stopped || job.stopped_studies.count(study_id) > 0;
  if (job.cancelled || (search_is_over && kind == UnitKind::kSearch)) return Mode::kDropped;
  return job.held ? Mode::kHeld : Mode::kActive;
}

void ControlLink::ApplyModes(int64_t job_id) {
  for (const auto& [unit_id, claim] : claims_.all()) {
    if (claim.job_id != job_id) continue;
    claims_.SetMode(claims_.Find(unit_id), ModeOf(job_id, claim.study_id, claim.kind));
  }
}

absl::StatusOr<wire::SynchronizeResponse> ControlLink::Synchronize(const wire::SynchronizeRequest& request) {
  wire::SynchronizeResponse response;
  std::map<std::string, Demand> wanted;
  std::set<int64_t> left_jobs;
  bool gets_work = false;
  response.set_control(options_.control_id);
  response.set_gather_ms(gather_ms_.load(std::memory_order_relaxed));
  response.set_has_binaries(compiles_.is_used());
  ASSIGN_OR_RETURN(const bool is_current, Greet(request));
  if (!is_current) {
    response.set_epoch_expired(true);
    return response;
  }
  {
    MutexLock lock(&mutex_);
    const auto agent = agents_.find(request.agent_id());
    if (closed_) return Unavailable("the daemon is stopping");
    if (agent == agents_.end()) return Unavailable("the agent is being taken out; ask again");
    for (const std::string& uuid : agent->second.released) response.add_released_device_uuids(uuid);
    agent->second.released.clear();
    // Before the store is asked: units that come meanwhile wake it.
    agent->second.hungry = request.demands_size() > 0;
    gets_work = !claims_held_ && !agent->second.draining && clock_->Now() >= agent->second.rests_until;
    for (const wire::DeviceDemand& demand : request.demands()) {
      if (!gets_work) break;
      wanted[demand.device_uuid()] = {std::clamp(demand.units(), 0, kUnitsPerDemandMax), std::max(0, demand.trials())};
    }
    CompareWithList(request, &wanted, &left_jobs, &response);
  }
  FinishDropped();
  for (int64_t job_id : left_jobs) hooks_.gone(job_id);
  bool is_sated = true;
  for (auto& [uuid, demand] : wanted) {
    if (demand.units <= 0) continue;
    const int before = response.assignments_size();
    const absl::Status claimed = ClaimFor(request, uuid, demand, &response);
    for (int i = before; i < response.assignments_size(); ++i) demand.Take(response.assignments(i));
    is_sated = is_sated && demand.units <= 0;
    if (absl::IsFailedPrecondition(claimed)) {
      Lose(request.agent_id());
      response.set_epoch_expired(true);
      return response;
    }
    // What was handed out before the error is given with the next answer, as it is not listed.
    RETURN_IF_ERROR(claimed);
  }
  if (is_sated) {
    MutexLock lock(&mutex_);
    const auto agent = agents_.find(request.agent_id());
    // Not of one that may have nothing now: what it was refused, it still wants.
    if (agent != agents_.end() && gets_work) agent->second.hungry = false;
  }
  return response;
}

void ControlLink::CompareWithList(const wire::SynchronizeRequest& request, std::map<std::string, Demand>* wanted,
                                  std::set<int64_t>* left_jobs, wire::SynchronizeResponse* response) {
  std::set<int64_t> listed;
  for (const wire::UnitInHand& unit : request.units()) {
    const Claim* const claim = claims_.Find(unit.unit_id());
    const bool owned = claim != nullptr && claim->agent_id == request.agent_id() && claim->token == unit.token();
    if (owned) listed.insert(unit.unit_id());
    if (!owned || claim->mode != Mode::kActive) response->add_revoked_unit_ids(unit.unit_id());
  }
  bool waits_alone = false;  // a unit that it must have alone: nothing more is claimed until it has ended
  for (int64_t unit_id : claims_.OfAgent(request.agent_id())) {
    Claim* const claim = claims_.Find(unit_id);
    waits_alone = waits_alone || (claim->is_alone && claim->mode == Mode::kActive);
    if (listed.count(unit_id) > 0) continue;
    if (claim->delivered && claim->mode != Mode::kActive) left_jobs->insert(claim->job_id);
    claims_.SetDelivered(claim, false);
    Demand& room = (*wanted)[claim->assignment.device_uuid()];
    const bool fits = claim->mode == Mode::kActive && room.units > 0;
    if (!fits || HasOther(claim->agent_id, unit_id, claim->is_alone)) continue;
    room.Take(claim->assignment);
    claims_.SetDelivered(claim, true);
    *response->add_assignments() = claim->assignment;
  }
  if (waits_alone) wanted->clear();
}

absl::StatusOr<ReportVerdict> ControlLink::StoreTrials(const Claim& claim, const std::vector<Trial>& trials,
                                                       After after) {
  ReportRequest report;
  report.agent_id = claim.agent_id;
  report.epoch = claim.epoch;
  report.unit_id = claim.unit_id;
  report.token = claim.token;
  report.unit_done = after == After::kDone;
  report.unit_returned = after == After::kReturned;
  report.now_ms = clock_->WallMs();
  report.replacements = claim.replacements;
  for (const Trial& trial : trials) {
    ASSIGN_OR_RETURN(const std::string text, ConfigText(claim, trial));
    report.trials.push_back(RowOfTrial(claim.study_id, text, trial));
    if (IsMeasurement(trial)) report.trials.back().measured_key = MeasuredKey(claim.measured_scope, text);
  }
  return store_->ReportTrials(report);
}

Claim ControlLink::ReportedPart(const Claim& claim, const wire::ReportTrialsRequest& request) {
  std::set<int64_t> reported;
  for (const Trial& trial : request.trials()) reported.insert(trial.ordinal());
  Claim part = claim.WithoutTrials();
  for (const wire::TrialSpec& spec : claim.assignment.trials()) {
    if (reported.count(spec.ordinal()) > 0) *part.assignment.add_trials() = spec;
  }
  // The agent may have reported the others to a database that is no more.
  if (part.assignment.trials_size() < claim.assignment.trials_size()) part.is_part = true;
  return part;
}

std::vector<Trial> ControlLink::OwnTrials(Claim* claim, const wire::ReportTrialsRequest& request) {
  std::map<int64_t, wire::TrialSpec*> specs;
  for (wire::TrialSpec& spec : *claim->assignment.mutable_trials()) specs[spec.ordinal()] = &spec;
  std::vector<Trial> trials;
  trials.reserve(static_cast<size_t>(request.trials_size()));
  for (const Trial& reported : request.trials()) {
    const auto found = specs.find(reported.ordinal());
    if (found == specs.end()) continue;  // stored before, or listed twice
    wire::TrialSpec& spec = *found->second;
    Trial& trial = trials.emplace_back(reported);
    trial.set_purpose(spec.purpose());
    trial.clear_config();
    if (spec.purpose() != tunefarm::v1::TRIAL_PURPOSE_BASELINE) trial.mutable_config()->Swap(spec.mutable_config());
    trial.set_problem_key(claim->problem_key);
    trial.set_ended_at_ms(clock_->WallMs());
    specs.erase(found);
  }
  return trials;
}

void ControlLink::NotePoison(const Claim& claim, const std::vector<Trial>& trials) {
  for (const Trial& trial : trials) {
    if (!Poisons(trial.outcome()) || trial.purpose() == tunefarm::v1::TRIAL_PURPOSE_BASELINE) continue;
    // It never came to the config itself: what crashed or hung were the reference or the inputs.
    if (trial.phase() == tunefarm::v1::PHASE_UNSPECIFIED) continue;
    const absl::StatusOr<std::string> text = ConfigText(claim, trial);
    const absl::Status recorded = text.ok() ? poison_->Record(claim.poison, *text, trial.outcome()) : text.status();
    if (!recorded.ok()) LogWarn("jobs", "a crash could not be remembered: {}", MessageOf(recorded));
  }
}

absl::StatusOr<wire::ReportTrialsResponse> ControlLink::ReportTrials(const wire::ReportTrialsRequest& request) {
  if (request.trials_size() > kTrialsPerReportMax) {
    return InvalidArgument("{} trials in one report, at most {} are taken", request.trials_size(), kTrialsPerReportMax);
  }
  wire::ReportTrialsResponse response;
  response.set_verdict(wire::REPORT_VERDICT_STALE);
  ASSIGN_OR_RETURN(std::optional<Claim> found_claim, FindClaim(request));
  if (!found_claim.has_value()) return response;
  Claim& claim = *found_claim;
  std::vector<Trial> trials = OwnTrials(&claim, request);
  // What was cancelled meanwhile ends with what it has; of a part the rest comes next.
  const bool is_dropped = claim.mode == Mode::kDropped;
  const bool done =
      (request.unit_done() && !claim.is_part) || ((request.unit_done() || request.unit_returned()) && is_dropped);
  const bool returned = (request.unit_done() || request.unit_returned()) && !done;
  ASSIGN_OR_RETURN(const ReportVerdict verdict, StoreTrials(claim, trials,
                                                            done       ? After::kDone
                                                            : returned ? After::kReturned
                                                                       : After::kGoesOn));
  {
    MutexLock lock(&mutex_);
    Claim* const found = claims_.Find(request.unit_id());
    if (found != nullptr && found->token == claim.token && found->replacements == claim.replacements) {
      if (verdict == ReportVerdict::kStale || done || returned) {
        claims_.Erase(request.unit_id());
      } else {
        std::set<int64_t> ordinals;
        for (const Trial& trial : trials) ordinals.insert(trial.ordinal());
        auto* open = found->assignment.mutable_trials();
        open->erase(
            std::remove_if(open->begin(), open->end(), [&](const auto& s) { return ordinals.count(s.ordinal()) > 0; }),
            open->end());
      }
    }
  }
  if (verdict == ReportVerdict::kStale) return response;
  NotePoison(claim, trials);
  hooks_.reported(claim.study_id, claim.unit_id, std::move(trials), done);
  if (done || returned) hooks_.gone(claim.job_id);
  if (returned) {
    if (request.unit_returned()) {
      LogInfo("jobs", "unit {} is given back: device {} takes no work", claim.unit_id, claim.assignment.device_uuid());
    }
    Wake();  // another device may take it
  }
  response.set_verdict(wire::REPORT_VERDICT_ACCEPTED);
  return response;
}

void ControlLink::FinishDropped() {
  std::vector<std::pair<Claim, After>> dropped;
  {
    MutexLock lock(&mutex_);
    for (int64_t unit_id : claims_.ended()) {
      const Claim& claim = *claims_.Find(unit_id);
      const bool has_rest = claim.is_part && ModeOf(claim.job_id, claim.study_id, claim.kind) != Mode::kDropped;
      dropped.emplace_back(claim.WithoutTrials(), has_rest ? After::kReturned : After::kDone);
    }
  }
  bool has_returned = false;
  for (const auto& [claim, after] : dropped) {
    const auto verdict = StoreTrials(claim, {}, after);
    if (!verdict.ok()) {
      LogWarn("jobs", "unit {} cannot be ended yet: {}", claim.unit_id, MessageOf(verdict.status()));
      continue;  // the next Synchronize tries again
    }
    // Another thread may be ending the same claim and erase it first; the store accepts only one of them, and that one
    // tells.
    if (*verdict == ReportVerdict::kAccepted) {
      hooks_.reported(claim.study_id, claim.unit_id, {}, after == After::kDone);
    }
    {
      MutexLock lock(&mutex_);
      const Claim* const found = claims_.Find(claim.unit_id);
      if (found != nullptr && found->token == claim.token && found->replacements == claim.replacements) {
        claims_.Erase(claim.unit_id);
      }
    }
    hooks_.gone(claim.job_id);
    has_returned = has_returned || after == After::kReturned;
  }
  if (has_returned) Wake();
}

absl::StatusOr<wire::FetchKernelResponse> ControlLink::FetchKernel(const wire::FetchKernelRequest& request) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const KernelPlan> plan, kernels_->Get(request.kernel_id()));
  wire::FetchKernelResponse response;
  response.set_kernel(plan->kernel().SerializeAsString());
  return response;
}

void ControlLink::Hold(int64_t job_id) {
  {
    MutexLock lock(&mutex_);
    if (jobs_are_outdated_) return;
    jobs_[job_id].held = true;
    ApplyModes(job_id);
  }
  WakeAll();
}

void ControlLink::Resume(int64_t job_id) {
  {
    MutexLock lock(&mutex_);
    const auto job = jobs_.find(job_id);
    if (job == jobs_.end() || !std::exchange(job->second.held, false)) return;
    ApplyModes(job_id);
  }
  WakeAll();
}

void ControlLink::Cancel(int64_t job_id) {
  {
    MutexLock lock(&mutex_);
    if (jobs_are_outdated_) return;
    jobs_[job_id].cancelled = true;
    ApplyModes(job_id);
  }
  FinishDropped();
  WakeAll();
}

void ControlLink::StopSearch(int64_t job_id) {
  {
    MutexLock lock(&mutex_);
    if (jobs_are_outdated_) return;
    jobs_[job_id].search_stopped = true;
    ApplyModes(job_id);
  }
  FinishDropped();
  WakeAll();
}

void ControlLink::StopStudySearch(int64_t job_id, int64_t study_id) {
  {
    MutexLock lock(&mutex_);
    if (jobs_are_outdated_) return;
    if (!jobs_[job_id].stopped_studies.insert(study_id).second) return;
    ApplyModes(job_id);
  }
  FinishDropped();
  WakeAll();
}

void ControlLink::HoldClaims(bool held) {
  {
    MutexLock lock(&mutex_);
    if (claims_held_ == held) return;
    claims_held_ = held;
  }
  WakeAll();
}

bool ControlLink::HasAgent() const {
  MutexLock lock(&mutex_);
  return !closed_ && !agents_.empty();
}

std::vector<int64_t> ControlLink::JobsInHand() const {
  MutexLock lock(&mutex_);
  std::set<int64_t> jobs;
  for (const auto& [unit_id, claim] : claims_.all()) jobs.insert(claim.job_id);
  return {jobs.begin(), jobs.end()};
}

void ControlLink::Forget(int64_t job_id) {
  MutexLock lock(&mutex_);
  if (jobs_are_outdated_) return;
  jobs_.erase(job_id);
  if (claiming_ > 0) ended_while_claiming_.insert(job_id);
  unmade_.erase(std::remove_if(unmade_.begin(), unmade_.end(),
                               [&](const Unmade& unmade) { return unmade.claimed.job_id == job_id; }),
                unmade_.end());
  claims_.EraseJob(job_id);
}

void ControlLink::Close() {
  std::vector<std::string> agents;
  {
    MutexLock lock(&mutex_);
    if (closed_) return;
    closed_ = true;
    // Those on other machines go on, with this daemon's successor or with another one.
    for (const auto& [agent_id, agent] : agents_) {
      if (!agent.is_remote) agents.push_back(agent_id);
    }
    claims_.Clear();
    unmade_.clear();
  }
  for (const std::string& agent_id : agents) {
    const absl::Status released = store_->ReleaseAgent(agent_id, clock_->WallMs());
    if (!released.ok()) LogWarn("jobs", "units in hand go back at the next start: {}", MessageOf(released));
  }
  wakes_.Close();
}

}  // namespace tunefarm
