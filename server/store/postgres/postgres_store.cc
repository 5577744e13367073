#include "server/store/postgres/postgres_store.h"

#include <algorithm>
#include <set>
#include <utility>

#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/fence_step.h"

namespace tunefarm::postgres {
namespace {

constexpr int kRowsDeletedAtOnceMax = 2000;
constexpr int kUnitsPerClaimMax = 256;
// Of what is known of studies: beyond, all of it is read again.
constexpr size_t kFactsMax = 1024;
constexpr size_t kFactsBytesMax = size_t{64} << 20;
constexpr std::string_view kReservedSettingPrefix = "store.";

absl::Status CheckSettingName(std::string_view name) {
  if (!name.starts_with(kReservedSettingPrefix)) return absl::OkStatus();
  return InvalidArgument("setting \"{}\": names that start with \"{}\" are the store's own", name,
                         kReservedSettingPrefix);
}

}  // namespace

PostgresStore::PostgresStore(SessionOptions session, int connections_max, Clock* clock, EntropySource* entropy)
    : entropy_(entropy), pool_(std::move(session), connections_max, clock, entropy), board_(clock), tokens_(&pool_) {}

absl::StatusOr<PostgresStore::Facts> PostgresStore::FactsOf(int64_t study_id) {
  {
    MutexLock lock(&facts_mutex_);
    const auto found = facts_.find(study_id);
    if (found != facts_.end()) return found->second;
  }
  ASSIGN_OR_RETURN(StudyFacts facts,
                   pool_.Call(&Pool::Read, [&](Session& session) { return LoadFacts(session, study_id); }));
  const size_t bytes = facts.problem.size() + facts.job_spec.size();
  Facts shared = std::make_shared<const StudyFacts>(std::move(facts));
  MutexLock lock(&facts_mutex_);
  if (facts_.size() >= kFactsMax || facts_bytes_ + bytes > kFactsBytesMax) {
    facts_.clear();
    facts_bytes_ = 0;
  }
  if (facts_.emplace(study_id, shared).second) facts_bytes_ += bytes;
  return shared;
}

absl::Status PostgresStore::ReadReady(std::string_view class_id, uint64_t readings_before, bool found_nothing) {
  MutexLock lock(board_.reading_mutex());
  if (board_.readings(class_id) > readings_before) return absl::OkStatus();
  const ClaimBoard::Reading reading = board_.BeginReading(class_id, found_nothing);
  absl::StatusOr<std::vector<ReadyStudy>> ready =
      pool_.Call(&Pool::Read, [&](Session& session) { return LoadReady(session, class_id, reading.floors); });
  if (!ready.ok()) {
    board_.Invalidate();
    return ready.status();
  }
  board_.EndReading(class_id, reading, *ready);
  return absl::OkStatus();
}

absl::StatusOr<ClaimStepResult> PostgresStore::ClaimOnce(const ClaimRequest& request, const ClaimBoard::Pick& pick,
                                                         int units_max) {
  ClaimStep step{&request, pick, units_max, 0, FenceStep(entropy_)};
  entropy_->Fill(&step.nonce, sizeof(step.nonce));
  if (pick.job_is_queued) {
    return pool_.Call(&Pool::Write, [&](Session& session) { return ClaimOfQueued(session, step); });
  }
  absl::StatusOr<ClaimStepResult> result = absl::UnknownError("not run");
  RETURN_IF_ERROR(pool_.WriteStatement([&](Session& session, bool is_repeat) {
    if (is_repeat) {
      result = FindClaimed(session, step);
      if (!result.ok() || !result->units.empty()) return result.status();
    }
    result = ClaimOfStudy(session, step);
    return result.status();
  }));
  return result;
}

absl::Status PostgresStore::ClaimKnown(const ClaimRequest& request, std::vector<ClaimedUnit>* units) {
  const auto units_max = static_cast<size_t>(std::clamp(request.units_max, 0, kUnitsPerClaimMax));
  std::set<std::string_view> names = {"", request.device_uuid};
  names.insert(request.device_names.begin(), request.device_names.end());
  int64_t trials = 0;
  while (units->size() < units_max && (request.trials_max == 0 || trials < request.trials_max)) {
    std::optional<ClaimBoard::Pick> pick = board_.Next(request.class_id, names);
    if (!pick.has_value()) break;
    if (request.trials_max > 0) pick->trials_left = std::min<int64_t>(pick->trials_left, request.trials_max - trials);
    const absl::StatusOr<Facts> facts = FactsOf(pick->study_id);
    if (absl::IsNotFound(facts.status())) {
      board_.Missed(request.class_id, *pick);
      continue;
    }
    RETURN_IF_ERROR(facts.status());
    ASSIGN_OR_RETURN(ClaimStepResult step, ClaimOnce(request, *pick, static_cast<int>(units_max - units->size())));
    if (step.units.empty()) {
      board_.Missed(request.class_id, *pick);
      continue;
    }
    board_.Claimed(request.class_id, *pick, step.trials, step.last_seq);
    trials += step.trials;
    for (size_t i = 0; i < step.units.size(); ++i) {
      const StudyFacts& known = **facts;
      LogDebug("store", "claimed unit={} token={} epoch={}", step.units[i].unit_id, step.units[i].token, request.epoch);
      units->push_back({std::move(step.units[i]), known.job_id, known.kernel_id, known.problem, known.job_spec,
                        std::move(step.present[i]), std::move(step.devices[i])});
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ClaimedUnit>> PostgresStore::ClaimUnits(const ClaimRequest& request) {
  std::vector<ClaimedUnit> units;
  uint64_t readings = board_.readings(request.class_id);
  if (board_.IsStale(request.class_id)) RETURN_IF_ERROR(ReadReady(request.class_id, readings, false));
  absl::Status status = ClaimKnown(request, &units);
  if (status.ok() && units.empty()) {
    // Nothing known is not nothing there.
    readings = board_.readings(request.class_id);
    status = ReadReady(request.class_id, readings, true);
    if (status.ok()) status = ClaimKnown(request, &units);
    // Nor has anybody looked yet whether this agent may be given anything.
    if (status.ok() && units.empty()) {
      ASSIGN_OR_RETURN(const std::optional<AgentRow> agent, FindAgent(request.agent_id));
      if (!agent.has_value() || agent->epoch != request.epoch) return EpochEnded(request.agent_id, request.epoch);
    }
  }
  // What was claimed before something went wrong is claimed.
  if (!status.ok() && units.empty()) return status;
  return units;
}

absl::StatusOr<ReportVerdict> PostgresStore::ReportTrials(const ReportRequest& request) {
  // Asked with a session in hand: the count includes the database of that session.
  const auto check = [&] {
    if (pool_.replacements() == request.replacements) return absl::OkStatus();
    return Unavailable("the database was replaced after unit {} was claimed; try again", request.unit_id);
  };
  absl::StatusOr<ReportVerdict> verdict = absl::UnknownError("not run");
  if (request.unit_returned && !request.unit_done) {
    const absl::Status returned = pool_.Write([&](Session& session) {
      RETURN_IF_ERROR(check());
      verdict = ReportAndReturn(session, request);
      return verdict.status();
    });
    board_.Invalidate();
    RETURN_IF_ERROR(returned);
    return verdict;
  }
  RETURN_IF_ERROR(pool_.WriteStatement([&](Session& session, bool is_repeat) {
    RETURN_IF_ERROR(check());
    verdict = postgres::ReportTrials(session, request, is_repeat);
    return verdict.status();
  }));
  return verdict;
}

absl::StatusOr<DriveResult> PostgresStore::Drive(const DriveStep& step) {
  ASSIGN_OR_RETURN(Driven driven,
                   pool_.Call(&Pool::Write, [&](Session& session) { return postgres::Drive(session, step); }));
  if (driven.first_seq > 0) board_.Add(driven.class_id, driven.study, driven.first_seq);
  return std::move(driven.result);
}

absl::Status PostgresStore::DeleteJob(int64_t job_id) {
  while (true) {
    const absl::StatusOr<bool> is_last = pool_.Call(
        &Pool::Write, [&](Session& session) { return DeleteJobPart(session, job_id, kRowsDeletedAtOnceMax); });
    RETURN_IF_ERROR(is_last.status());
    if (*is_last) return absl::OkStatus();
  }
}

absl::Status PostgresStore::Backup(const std::string& /*path*/) {
  return FailedPrecondition("the store is on PostgreSQL: make copies of it with pg_dump, or with what its server has");
}

absl::StatusOr<std::string> PostgresStore::GetOrPutSetting(std::string_view name, std::string_view value_if_absent) {
  RETURN_IF_ERROR(CheckSettingName(name));
  // Most often it is there: daemons ask again and again.
  ASSIGN_OR_RETURN(std::optional<std::string> found,
                   pool_.Call(&Pool::Read, [&](Session& session) { return postgres::FindSetting(session, name); }));
  if (!found.has_value()) {
    ASSIGN_OR_RETURN(found, pool_.Call(&Pool::Write, [&](Session& session) {
      return postgres::GetOrPutSetting(session, name, value_if_absent);
    }));
  }
  if (name == kCatalogIdSetting) NoteCatalogId(*found);
  return *std::move(found);
}

absl::Status PostgresStore::PutSetting(std::string_view name, std::string_view value) {
  RETURN_IF_ERROR(CheckSettingName(name));
  RETURN_IF_ERROR(pool_.Write([&](Session& session) { return postgres::PutSetting(session, name, value); }));
  if (name == kCatalogIdSetting) NoteCatalogId(value);
  return absl::OkStatus();
}

void PostgresStore::NoteCatalogId(std::string_view id) {
  {
    MutexLock lock(&facts_mutex_);
    if (id == catalog_id_) return;
    catalog_id_ = id;
    facts_.clear();
    facts_bytes_ = 0;
  }
  board_.Invalidate();
}

absl::StatusOr<int64_t> PostgresStore::CatalogRevision() {
  return pool_.Call(&Pool::Read, [](Session& session) { return session.QueryInt("SELECT revision FROM catalog_rev"); });
}

absl::StatusOr<SubmitResult> PostgresStore::SubmitJob(const SubmitRequest& request) {
  return pool_.Call(&Pool::Write, [&](Session& session) { return postgres::SubmitJob(session, request); });
}

absl::Status PostgresStore::PutKernel(const KernelRow& kernel) {
  return pool_.Write([&](Session& session) { return postgres::PutKernel(session, kernel); });
}

absl::StatusOr<KernelRow> PostgresStore::GetKernel(std::string_view kernel_id) {
  return pool_.Call(&Pool::Read, [&](Session& session) { return postgres::GetKernel(session, kernel_id); });
}

absl::StatusOr<KernelRow> PostgresStore::FindKernel(std::string_view display_name) {
  return pool_.Call(&Pool::Read, [&](Session& session) { return postgres::FindKernel(session, display_name); });
}

absl::StatusOr<Page<KernelRow>> PostgresStore::ListKernels(const PageRequest& page) {
  return pool_.Call(&Pool::Read, [&](Session& session) { return postgres::ListKernels(session, page); });
}

absl::Status PostgresStore::PutDevice(const DeviceRow& device, const DeviceClassRow& device_class) {
  return pool_.Write([&](Session& session) { return postgres::PutDevice(session, device, device_class); });
}

absl::StatusOr<std::vector<DeviceClassRow>> PostgresStore::ListDeviceClasses() {
  return pool_.Call(&Pool::Read, [](Session& session) { return postgres::ListDeviceClasses(session); });
}

absl::StatusOr<int64_t> PostgresStore::RegisterAgent(const AgentRegistration& agent) {
  const int64_t step = FenceStep(entropy_);
  absl::StatusOr<int64_t> result =
      pool_.Call(&Pool::Write, [&](Session& session) { return postgres::RegisterAgent(session, agent, step); });
  board_.Invalidate();
  return result;
}

absl::StatusOr<AgentRow> PostgresStore::RenewAgent(std::string_view agent_id, int64_t epoch, int64_t lease_ms,
                                                   const std::optional<std::string>& detail) {
  return pool_.Call(&Pool::Write,
                    [&](Session& session) { return postgres::RenewAgent(session, agent_id, epoch, lease_ms, detail); });
}

absl::StatusOr<std::optional<AgentRow>> PostgresStore::FindAgent(std::string_view agent_id) {
  return pool_.Call(&Pool::Read, [&](Session& session) { return postgres::FindAgent(session, agent_id); });
}

absl::StatusOr<std::vector<AgentRow>> PostgresStore::ListAgents() {
  return pool_.Call(&Pool::Read, [](Session& session) { return postgres::ListAgents(session); });
}

absl::Status PostgresStore::SetAgentDraining(std::string_view agent_id, bool draining) {
  absl::Status result =
      pool_.Write([&](Session& session) { return postgres::SetAgentDraining(session, agent_id, draining); });
  board_.Invalidate();
  return result;
}

absl::StatusOr<std::vector<ClaimedUnit>> PostgresStore::ClaimsOf(std::string_view agent_id, int64_t epoch) {
  return pool_.Call(&Pool::Read, [&](Session& session) { return postgres::ClaimsOf(session, agent_id, epoch); });
}

absl::Status PostgresStore::ReleaseAgent(std::string_view agent_id, int64_t now_ms, bool was_lost) {
  absl::Status result =
      pool_.Write([&](Session& session) { return postgres::ReleaseAgent(session, agent_id, now_ms, was_lost); });
  board_.Invalidate();
  return result;
}

absl::StatusOr<int64_t> PostgresStore::ReleaseOtherAgents(const std::vector<std::string>& keep, int64_t now_ms) {
  absl::StatusOr<int64_t> result =
      pool_.Call(&Pool::Write, [&](Session& session) { return postgres::ReleaseOtherAgents(session, keep, now_ms); });
  board_.Invalidate();
  return result;
}

absl::StatusOr<std::vector<std::string>> PostgresStore::ReapAgents(int64_t now_ms) {
  absl::StatusOr<std::vector<std::string>> result =
      pool_.Call(&Pool::Write, [&](Session& session) { return postgres::ReapAgents(session, now_ms); });
  board_.Invalidate();
  return result;
}

absl::StatusOr<LeaseRow> PostgresStore::TakeLease(const LeaseRequest& request) {
  return pool_.Call(&Pool::Write, [&](Session& session) { return postgres::TakeLease(session, request); });
}

absl::Status PostgresStore::ReleaseLease(std::string_view name, std::string_view holder) {
  return pool_.Write([&](Session& session) { return postgres::ReleaseLease(session, name, holder); });
}

absl::StatusOr<std::vector<LeaseRow>> PostgresStore::ListLeases(std::string_view prefix) {
  return pool_.Call(&Pool::Read, [&](Session& session) { return postgres::ListLeases(session, prefix); });
}

absl::Status PostgresStore::SetDeviceOrder(const DeviceOrderRow& order) {
  return pool_.Write([&](Session& session) { return postgres::SetDeviceOrder(session, order); });
}

absl::StatusOr<std::vector<DeviceOrderRow>> PostgresStore::ListDeviceOrders() {
  return pool_.Call(&Pool::Read, [](Session& session) { return postgres::ListDeviceOrders(session); });
}

absl::StatusOr<std::vector<JobRow>> PostgresStore::ActiveJobs() {
  return pool_.Call(&Pool::ReadSnapshot, [](Session& session) { return postgres::ActiveJobs(session); });
}

absl::StatusOr<StudyHistory> PostgresStore::LoadHistory(int64_t study_id, int64_t after_sequence, int events_max) {
  return pool_.Call(&Pool::ReadSnapshot, [&](Session& session) {
    return postgres::LoadHistory(session, study_id, after_sequence, events_max);
  });
}

absl::Status PostgresStore::SetJobState(int64_t job_id, const std::vector<JobState>& from, JobState to,
                                        std::string_view error, int64_t now_ms, int64_t driver_epoch) {
  absl::Status result = pool_.Write(
      [&](Session& session) { return postgres::SetJobState(session, job_id, from, to, error, now_ms, driver_epoch); });
  board_.Invalidate();
  return result;
}

absl::StatusOr<std::vector<DrivenJob>> PostgresStore::AdoptJobs(std::string_view node, int jobs_max,
                                                                const std::vector<int64_t>& except) {
  const int64_t step = FenceStep(entropy_);
  return pool_.Call(&Pool::Write,
                    [&](Session& session) { return postgres::AdoptJobs(session, node, jobs_max, except, step); });
}

absl::Status PostgresStore::YieldJob(int64_t job_id, int64_t driver_epoch) {
  return pool_.Write([&](Session& session) { return postgres::YieldJob(session, job_id, driver_epoch); });
}

absl::StatusOr<std::vector<JobStateRow>> PostgresStore::JobStates(const std::vector<int64_t>& job_ids) {
  return pool_.Call(&Pool::Read, [&](Session& session) { return postgres::JobStates(session, job_ids); });
}

absl::StatusOr<StudyHistory> PostgresStore::LoadDone(int64_t study_id, int units_max,
                                                     const std::vector<int64_t>& known_unit_ids) {
  return pool_.Call(&Pool::ReadSnapshot,
                    [&](Session& session) { return postgres::LoadDone(session, study_id, units_max, known_unit_ids); });
}

absl::StatusOr<std::vector<KnownStudyRow>> PostgresStore::StudiesOfProgram(std::string_view program_digest, int limit) {
  return pool_.Call(&Pool::Read,
                    [&](Session& session) { return postgres::StudiesOfProgram(session, program_digest, limit); });
}

absl::StatusOr<std::vector<ResultRow>> PostgresStore::SampleResults(const ResultQuery& query) {
  return pool_.Call(&Pool::ReadSnapshot, [&](Session& session) { return postgres::SampleResults(session, query); });
}

absl::StatusOr<std::vector<PriorRow>> PostgresStore::LoadPriors(int64_t study_id) {
  return pool_.Call(&Pool::Read, [&](Session& session) { return postgres::LoadPriors(session, study_id); });
}

absl::StatusOr<std::vector<std::optional<MeasuredRow>>> PostgresStore::FindMeasured(
    const std::vector<std::string>& measured_keys) {
  return pool_.Call(&Pool::Read, [&](Session& session) { return postgres::FindMeasured(session, measured_keys); });
}

absl::StatusOr<std::vector<BestRow>> PostgresStore::LoadBests() {
  return pool_.Call(&Pool::Read, [](Session& session) { return postgres::LoadBests(session, 0); });
}

absl::StatusOr<std::vector<BestRow>> PostgresStore::LoadBestsSince(int64_t revision) {
  return pool_.Call(&Pool::Read, [&](Session& session) { return postgres::LoadBests(session, revision); });
}

absl::StatusOr<std::optional<BestRow>> PostgresStore::FindBest(std::string_view program_digest,
                                                               std::string_view problem_key,
                                                               std::string_view class_id) {
  return pool_.Call(&Pool::Read, [&](Session& session) {
    return postgres::FindBest(session, {std::string(program_digest), std::string(problem_key), std::string(class_id)});
  });
}

absl::StatusOr<std::vector<BestRemovalRow>> PostgresStore::LoadBestRemovals() {
  return pool_.Call(&Pool::Read, [](Session& session) { return postgres::LoadBestRemovals(session); });
}

absl::StatusOr<BestRow> PostgresStore::PromoteBest(const BestRow& best) {
  return pool_.Call(&Pool::Write, [&](Session& session) { return postgres::PromoteBest(session, best); });
}

absl::StatusOr<BestChangeRow> PostgresStore::EditBest(const BestEdit& edit) {
  return pool_.Call(&Pool::Write, [&](Session& session) { return postgres::EditBest(session, edit); });
}

absl::StatusOr<Page<BestChangeRow>> PostgresStore::ListBestChanges(const BestChangeQuery& query) {
  return pool_.Call(&Pool::Read, [&](Session& session) { return postgres::ListBestChanges(session, query); });
}

absl::Status PostgresStore::WriteMisses(const MissChanges& changes) {
  return pool_.Write([&](Session& session) { return postgres::WriteMisses(session, changes); });
}

absl::StatusOr<std::vector<MissRow>> PostgresStore::LoadMisses() {
  return pool_.Call(&Pool::Read, [](Session& session) { return postgres::LoadMisses(session); });
}

absl::Status PostgresStore::RecordPoison(const PoisonRow& row) {
  return pool_.Write([&](Session& session) { return postgres::RecordPoison(session, row); });
}

absl::StatusOr<std::vector<PoisonRow>> PostgresStore::LoadPoison(std::string_view program_digest,
                                                                 std::string_view class_id) {
  return pool_.Call(&Pool::Read,
                    [&](Session& session) { return postgres::LoadPoison(session, program_digest, class_id); });
}

absl::StatusOr<JobRow> PostgresStore::GetJob(int64_t job_id) {
  return pool_.Call(&Pool::ReadSnapshot, [&](Session& session) { return postgres::GetJob(session, job_id); });
}

absl::StatusOr<Page<JobRow>> PostgresStore::ListJobs(const std::vector<JobState>& states, const PageRequest& page) {
  return pool_.Call(&Pool::ReadSnapshot, [&](Session& session) { return postgres::ListJobs(session, states, page); });
}

absl::StatusOr<Page<TrialRow>> PostgresStore::ListTrials(const TrialQuery& query) {
  return pool_.Call(&Pool::ReadSnapshot, [&](Session& session) { return postgres::ListTrials(session, query); });
}

absl::StatusOr<TrialRow> PostgresStore::GetTrial(int64_t job_id, int study_number, int64_t ordinal) {
  return pool_.Call(&Pool::ReadSnapshot,
                    [&](Session& session) { return postgres::GetTrial(session, job_id, study_number, ordinal); });
}

absl::StatusOr<std::vector<OutcomeCountRow>> PostgresStore::CountOutcomes(int64_t job_id) {
  return pool_.Call(&Pool::ReadSnapshot, [&](Session& session) { return postgres::CountOutcomes(session, job_id); });
}

absl::StatusOr<std::vector<JobRow>> PostgresStore::EndedJobs(int64_t ended_before_ms, int64_t after_job_id, int limit) {
  return pool_.Call(&Pool::Read, [&](Session& session) {
    return postgres::EndedJobs(session, ended_before_ms, after_job_id, limit);
  });
}

absl::StatusOr<int64_t> PostgresStore::PruneTrialData(int64_t ended_before_ms, int rows_max) {
  return pool_.Call(&Pool::Write,
                    [&](Session& session) { return postgres::PruneTrialData(session, ended_before_ms, rows_max); });
}

absl::StatusOr<int64_t> PostgresStore::DeleteUnusedKernels(int64_t created_before_ms) {
  return pool_.Call(&Pool::Write,
                    [&](Session& session) { return postgres::DeleteUnusedKernels(session, created_before_ms); });
}

absl::StatusOr<StoreStatus> PostgresStore::Status() {
  return pool_.Call(&Pool::Read, [](Session& session) { return postgres::ReadStatus(session); });
}

absl::StatusOr<QueueCounts> PostgresStore::CountQueue() {
  return pool_.Call(&Pool::Read, [](Session& session) { return postgres::CountQueue(session); });
}

absl::Status PostgresStore::CheckWritable() {
  return pool_.Write([](Session& session) { return postgres::CheckWritable(session); });
}

}  // namespace tunefarm::postgres
