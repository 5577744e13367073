#include "server/farm/control_link.h"

#include <algorithm>
#include <set>
#include <utility>

#include "server/base/format.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/records/trial_rows.h"
#include "server/store/agent_store.h"
#include "server/store/trial_store.h"
#include "server/store/unit_store.h"

namespace tunefarm {

namespace wire = tunefarm::agent::v1;
using tunefarm::v1::Trial;

namespace {

constexpr int kUnitsPerDemandMax = 8;
constexpr int kTrialsPerReportMax = 64;
constexpr int kReportsPerCallMax = 64;
constexpr int kConfigsPerCallMax = 256;

}  // namespace

ControlLink::ControlLink(Store* store, Clock* clock, KernelRegistry* kernels, PoisonIndex* poison,
                         DeviceDirectory* devices, Hooks hooks, Options options, DataFileStore* data_files)
    : store_(store),
      clock_(clock),
      kernels_(kernels),
      hooks_(std::move(hooks)),
      data_files_(data_files),
      compiles_(clock),
      filters_(store, clock, poison),
      claims_(store->Replacements()),
      agents_(store, clock, devices, &claims_, &hooks_, std::move(options)),
      desk_({store, clock, kernels, devices, &agents_, &claims_, &filters_, &compiles_, &hooks_}) {}

absl::Status ControlLink::CheckOpen() const {
  return closed_.load() ? Unavailable("the daemon is stopping") : absl::OkStatus();
}

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

absl::StatusOr<wire::RegisterResponse> ControlLink::Register(const wire::RegisterRequest& request) {
  RETURN_IF_ERROR(CheckOpen());
  ASSIGN_OR_RETURN(wire::RegisterResponse response, agents_.Register(request));
  claims_.ShareWorks();  // a new process knows nothing of the studies that run
  return response;
}

absl::StatusOr<wire::DeregisterResponse> ControlLink::Deregister(const wire::DeregisterRequest& request) {
  RETURN_IF_ERROR(agents_.Deregister(request));
  return wire::DeregisterResponse();
}

absl::StatusOr<bool> ControlLink::TakeOver(const std::string& agent_id, int64_t epoch,
                                           const google::protobuf::RepeatedPtrField<wire::UnitInHand>& units) {
  MutexLock one_at_a_time(&taking_over_);
  return ReadAgent(agent_id, epoch, units);
}

absl::Status ControlLink::MakeKnown(const std::string& agent_id, int64_t epoch) {
  if (claims_.EpochOf(agent_id) >= epoch) return absl::OkStatus();
  MutexLock one_at_a_time(&taking_over_);
  // Its Synchronize, which says what it has in hand, may have come first.
  if (claims_.EpochOf(agent_id) >= epoch) return absl::OkStatus();
  return ReadAgent(agent_id, epoch, {}).status();
}

absl::StatusOr<bool> ControlLink::ReadAgent(const std::string& agent_id, int64_t epoch,
                                            const google::protobuf::RepeatedPtrField<wire::UnitInHand>& units) {
  const int64_t replacements = FollowStore();
  ASSIGN_OR_RETURN(std::optional<AgentRegistry::Agent> agent, agents_.Read(agent_id, epoch));
  if (!agent.has_value()) return false;
  std::map<int64_t, std::string> device_of;
  std::set<int64_t> in_hand;
  for (const wire::UnitInHand& unit : units) {
    device_of[unit.unit_id()] = unit.device_uuid();
    if (!unit.device_uuid().empty()) in_hand.insert(unit.unit_id());
  }
  ASSIGN_OR_RETURN(std::vector<Claim> claims, desk_.Read(agent->about, epoch, replacements, device_of, {}));
  LogInfo("jobs", "agent {} on {} is taken over with {} in flight", agent->about.display_name(), agent->about.host(),
          FormatCount(static_cast<int64_t>(units.size()), "unit"));
  FollowStore();
  RETURN_IF_ERROR(claims_.Serve(agent_id, epoch, replacements, std::move(claims), in_hand));
  agents_.Put(*std::move(agent));
  return true;
}

absl::StatusOr<bool> ControlLink::Greet(const wire::SynchronizeRequest& request) {
  const std::string& agent_id = request.agent_id();
  RETURN_IF_ERROR(CheckOpen());
  FollowStore();
  const int64_t epoch = claims_.EpochOf(agent_id);
  // One that comes from another daemon may have begun again there, in a restored database.
  const bool from_elsewhere = !request.control().empty() && request.control() != control_id();
  if (epoch > request.epoch() && !from_elsewhere) return false;
  if (epoch != request.epoch() || from_elsewhere || !agents_.Has(agent_id)) {
    ASSIGN_OR_RETURN(const bool taken, TakeOver(agent_id, request.epoch(), request.units()));
    if (!taken) return false;
  }
  ASSIGN_OR_RETURN(const AgentRegistry::Renewal renewal, agents_.Renew(request));
  if (renewal != AgentRegistry::Renewal::kRenewed) return renewal != AgentRegistry::Renewal::kOver;
  const std::optional<AgentRegistry::Agent> agent = agents_.Find(agent_id);
  if (!agent.has_value()) return false;
  const absl::Status taken = desk_.ReadLate(agent->about, request.epoch());
  if (!taken.ok()) LogWarn("jobs", "claims of agent {} are looked at later: {}", agent_id, MessageOf(taken));
  return true;
}

absl::StatusOr<wire::SynchronizeResponse> ControlLink::Synchronize(const wire::SynchronizeRequest& request) {
  wire::SynchronizeResponse response;
  response.set_control(control_id());
  response.set_gather_ms(agents_.gather_ms());
  response.set_has_binaries(compiles_.is_used());
  ASSIGN_OR_RETURN(const bool is_current, Greet(request));
  if (!is_current) {
    response.set_epoch_expired(true);
    return response;
  }
  ASSIGN_OR_RETURN(const bool may_have_work, agents_.Ask(request, &response));
  const bool gets_work = may_have_work && !claims_held_.load();
  std::map<std::string, Claims::Demand> wanted;
  for (const wire::DeviceDemand& demand : request.demands()) {
    if (!gets_work) break;
    wanted[demand.device_uuid()] = {std::clamp(demand.units(), 0, kUnitsPerDemandMax), std::max(0, demand.trials())};
  }
  std::set<int64_t> left_jobs;
  if (!claims_.Compare(request, &wanted, &left_jobs, &response)) {
    return Unavailable("the agent is being taken out; ask again");
  }
  desk_.EndDropped();
  for (int64_t job_id : left_jobs) hooks_.gone(job_id);
  bool is_sated = true;
  for (auto& [uuid, demand] : wanted) {
    if (demand.units <= 0) continue;
    const int before = response.assignments_size();
    const absl::Status claimed = desk_.ClaimFor(request, uuid, demand, &response);
    for (int i = before; i < response.assignments_size(); ++i) demand.Take(response.assignments(i));
    is_sated = is_sated && demand.units <= 0;
    if (absl::IsFailedPrecondition(claimed)) {
      agents_.Lose(request.agent_id());
      response.set_epoch_expired(true);
      return response;
    }
    // What was handed out before the error is given with the next answer, as it is not listed.
    RETURN_IF_ERROR(claimed);
  }
  // Not of one that may have nothing now: what it was refused, it still wants.
  if (is_sated && gets_work) agents_.Sate(request.agent_id());
  if (agents_.size() > 1) claims_.ShareWorks();
  response.set_shares_work(shares_work());  // this agent and the units of this response count
  return response;
}

bool ControlLink::shares_work() const {
  // Agents of other daemons come and go without a word here.
  const bool may_have_other_daemons = agents_.options().own_agent_lease_ms > 0;
  return may_have_other_daemons || agents_.size() > 1 || claims_.SharesWorks();
}

absl::StatusOr<wire::ClaimWorkResponse> ControlLink::ClaimWork(const wire::ClaimWorkRequest& request) {
  if (static_cast<size_t>(request.claims_size()) > UnitStore::kWorkClaimsMax) {
    return InvalidArgument("{} works in one call, at most {} are taken", request.claims_size(),
                           UnitStore::kWorkClaimsMax);
  }
  RETURN_IF_ERROR(CheckOpen());
  FollowStore();
  RETURN_IF_ERROR(MakeKnown(request.agent_id(), request.epoch()));
  if (!claims_.KnowsUnits(request)) {
    // Claimed through another daemon since the agent was served here last.
    const std::optional<AgentRegistry::Agent> agent = agents_.Find(request.agent_id());
    if (agent.has_value()) RETURN_IF_ERROR(desk_.ReadLate(agent->about, request.epoch()));
  }
  const WorkClaimRequest asked = claims_.BeginAsk(request);
  const absl::StatusOr<std::vector<WorkAnswer>> answers = store_->units()->ClaimWorks(asked);
  claims_.EndAsk(asked, answers.ok() ? *answers : std::vector<WorkAnswer>());
  RETURN_IF_ERROR(answers.status());
  wire::ClaimWorkResponse response;
  for (const WorkAnswer& answer : *answers) {
    wire::WorkAnswer* const told = response.add_answers();
    told->set_is_elsewhere(answer.is_elsewhere);
    if (!answer.measured.has_value()) continue;
    absl::StatusOr<Trial> trial = TrialOfRow(*answer.measured);
    if (!trial.ok()) {
      LogWarn("jobs", "a work of study {} is measured again: {}", answer.measured->study_id, MessageOf(trial.status()));
      continue;
    }
    trial->clear_config();
    *told->mutable_measured() = *std::move(trial);
  }
  return response;
}

absl::StatusOr<std::optional<Claim>> ControlLink::FindClaim(const wire::ReportTrialsRequest& request) {
  for (int i = 0; i < 2; ++i) {
    RETURN_IF_ERROR(CheckOpen());
    FollowStore();
    std::optional<Claim> found = claims_.Find(request);
    if (found.has_value() || i > 0) return found;
    google::protobuf::RepeatedPtrField<wire::UnitInHand> units;
    if (request.trials_size() > 0) {
      wire::UnitInHand* unit = units.Add();
      unit->set_unit_id(request.unit_id());
      unit->set_device_uuid(request.trials(0).device_uuid());
    }
    if (claims_.EpochOf(request.agent_id()) == request.epoch()) {
      // Claimed through another control daemon, or taken away.
      ASSIGN_OR_RETURN(const std::vector<ClaimedUnit> held,
                       store_->units()->ClaimsOf(request.agent_id(), request.epoch()));
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

absl::StatusOr<wire::ReportTrialsResponse> ControlLink::ReportTrials(const wire::ReportTrialsRequest& request) {
  if (request.trials_size() > kTrialsPerReportMax) {
    return InvalidArgument("{} trials in one report, at most {} are taken", request.trials_size(), kTrialsPerReportMax);
  }
  wire::ReportTrialsResponse response;
  response.set_verdict(wire::REPORT_VERDICT_STALE);
  ASSIGN_OR_RETURN(std::optional<Claim> found, FindClaim(request));
  if (!found.has_value()) return response;
  const Claim& claim = *found;
  std::vector<Trial> trials = OwnTrials(claim, request, clock_->WallMs());
  UnitAfter after = UnitAfter::kGoesOn;
  if (request.unit_done() || request.unit_returned()) {
    // What was cancelled meanwhile ends with what it has; of a part the rest comes next.
    const bool is_whole = request.unit_done() && !claim.is_part;
    after = is_whole || claim.mode == ClaimMode::kDropped ? UnitAfter::kDone : UnitAfter::kReturned;
  }
  ASSIGN_OR_RETURN(const ReportVerdict verdict, StoreTrials(store_, claim, trials, after, clock_->WallMs()));
  std::set<std::string> may_go_on;
  if (verdict == ReportVerdict::kAccepted) may_go_on = claims_.EndWorks(claim, trials);
  if (verdict == ReportVerdict::kStale || after != UnitAfter::kGoesOn) {
    claims_.Erase(claim);
  } else {
    claims_.Reported(claim, trials);
  }
  if (verdict == ReportVerdict::kStale) return response;
  agents_.WakeThese(may_go_on);
  filters_.Record(claim, trials);
  hooks_.reported(claim.study_id, claim.unit_id, std::move(trials), after == UnitAfter::kDone);
  if (after != UnitAfter::kGoesOn) hooks_.gone(claim.job_id);
  if (after == UnitAfter::kReturned) {
    if (request.unit_returned()) {
      LogInfo("jobs", "unit {} is given back: device {} takes no work", claim.unit_id, claim.assignment.device_uuid());
    }
    Wake();  // another device may take it
  }
  response.set_verdict(wire::REPORT_VERDICT_ACCEPTED);
  return response;
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

absl::StatusOr<wire::FetchKernelResponse> ControlLink::FetchKernel(const wire::FetchKernelRequest& request) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const KernelPlan> plan, kernels_->Get(request.kernel_id()));
  wire::FetchKernelResponse response;
  response.set_kernel(plan->kernel().SerializeAsString());
  return response;
}

absl::StatusOr<wire::TakeCompilesResponse> ControlLink::TakeCompiles(const wire::TakeCompilesRequest& request) {
  RETURN_IF_ERROR(CheckOpen());
  const std::optional<AgentRegistry::Agent> agent = agents_.Find(request.agent_id());
  if (!agent.has_value()) return Unavailable("the agent is not known here yet");
  if (agent->epoch != request.epoch()) return FailedPrecondition("the agent's epoch is over");
  wire::TakeCompilesResponse response;
  if (agent->draining) return response;
  int left = std::clamp(request.configs(), 1, kConfigsPerCallMax);
  while (left > 0) {
    std::vector<CompileDesk::Unit> units = compiles_.Take(left);
    if (units.empty()) break;
    for (CompileDesk::Unit& unit : units) {
      // What is cancelled or paused is not compiled; of a paused job the rest is compiled where it runs.
      if (claims_.ModeOf(unit.job_id, unit.study_id, UnitKind::kSearch) != ClaimMode::kActive) continue;
      left -= unit.task.configs_size();
      *response.add_tasks() = std::move(unit.task);
    }
  }
  return response;
}

absl::StatusOr<wire::OfferBinaryResponse> ControlLink::OfferBinary(const wire::OfferBinaryRequest& request) {
  ASSIGN_OR_RETURN(const Digest key, Digest::FromHex(request.key()));
  RETURN_IF_ERROR(compiles_.Offer(key, request.binary()));
  return wire::OfferBinaryResponse();
}

absl::StatusOr<wire::FetchBinaryResponse> ControlLink::FetchBinary(const wire::FetchBinaryRequest& request) {
  ASSIGN_OR_RETURN(const Digest key, Digest::FromHex(request.key()));
  wire::FetchBinaryResponse response;
  response.set_binary(compiles_.Find(key));
  return response;
}

absl::StatusOr<wire::FetchDataFileResponse> ControlLink::FetchDataFile(const wire::FetchDataFileRequest& request) {
  if (data_files_ == nullptr) {
    return WithReason(NotFound("this daemon keeps no data files"), "DATA_FILE_NOT_FOUND");
  }
  ASSIGN_OR_RETURN(DataFileStore::Piece piece, data_files_->Read(request.digest(), request.offset()));
  wire::FetchDataFileResponse response;
  response.set_part(std::move(piece.bytes));
  response.set_total_bytes(piece.total_bytes);
  return response;
}

void ControlLink::Hold(int64_t job_id) {
  claims_.Hold(job_id);
  WakeAll();
}

void ControlLink::Resume(int64_t job_id) {
  if (claims_.Resume(job_id)) WakeAll();
}

void ControlLink::Cancel(int64_t job_id) {
  claims_.Cancel(job_id);
  desk_.EndDropped();
  WakeAll();
}

void ControlLink::StopSearch(int64_t job_id) {
  claims_.StopSearch(job_id);
  desk_.EndDropped();
  WakeAll();
}

void ControlLink::StopStudySearch(int64_t job_id, int64_t study_id) {
  if (!claims_.StopStudySearch(job_id, study_id)) return;
  desk_.EndDropped();
  WakeAll();
}

void ControlLink::HoldClaims(bool held) {
  if (claims_held_.exchange(held) != held) WakeAll();
}

void ControlLink::BeginAgain() {
  FollowStore();
  claims_.BeginAgain();
  agents_.Clear();
  // A claim that the store has and its agent has not waits for the agent's next word.
  WakeAll();
}

void ControlLink::Close() {
  if (closed_.exchange(true)) return;
  claims_.Close();
  // Those on other machines go on, with this daemon's successor or with another one.
  for (const std::string& agent_id : agents_.Own()) {
    const absl::Status released = store_->agents()->ReleaseAgent(agent_id, clock_->WallMs());
    if (!released.ok()) {
      LogWarn("jobs", "units in flight return to the queue at the next start: {}", MessageOf(released));
    }
  }
  agents_.CloseWaits();
}

}  // namespace tunefarm
