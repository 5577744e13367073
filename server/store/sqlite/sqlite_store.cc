#include "server/store/sqlite/sqlite_store.h"

#include <utility>

#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/fence_step.h"

namespace tunefarm::sqlite {
namespace {

// Some ten milliseconds of deleting, for which other writes wait.
constexpr int kRowsDeletedAtOnceMax = 2000;

absl::Status CheckSettingName(std::string_view name) {
  if (!name.starts_with(kReservedSettingPrefix)) return absl::OkStatus();
  return InvalidArgument("setting \"{}\": names that start with \"{}\" are the store's own", name,
                         kReservedSettingPrefix);
}

}  // namespace

SqliteStore::SqliteStore(std::unique_ptr<Writer> writer, std::unique_ptr<ReaderPool> readers, Clock* clock,
                         EntropySource* entropy)
    : clock_(clock),
      entropy_(entropy),
      opened_at_ms_(clock->WallMs()),
      opened_at_(clock->Now()),
      writer_(std::move(writer)),
      readers_(std::move(readers)),
      tokens_(writer_.get(), readers_.get()) {}

SqliteStore::~SqliteStore() {
  readers_.reset();
  const absl::Status status = writer_->Run([](Database& database) { return SetOpenMarker(database, false); });
  if (!status.ok()) LogWarn("store", "cannot note the clean end, so the next start checks the whole file: {}", status);
}

int64_t SqliteStore::NowMs() const {
  return opened_at_ms_ + std::chrono::duration_cast<std::chrono::milliseconds>(clock_->Now() - opened_at_).count();
}

absl::StatusOr<SubmitResult> SqliteStore::SubmitJob(const SubmitRequest& request) {
  return writer_->Call([&](Database& database) { return sqlite::SubmitJob(database, request); });
}

absl::Status SqliteStore::PutKernel(const KernelRow& kernel) {
  return writer_->Run([&](Database& database) { return sqlite::PutKernel(database, kernel); });
}

absl::StatusOr<KernelRow> SqliteStore::GetKernel(std::string_view kernel_id) {
  return readers_->Read([&](Database& database) { return sqlite::GetKernel(database, kernel_id); });
}

absl::StatusOr<KernelRow> SqliteStore::FindKernel(std::string_view display_name) {
  return readers_->Read([&](Database& database) { return sqlite::FindKernel(database, display_name); });
}

absl::StatusOr<Page<KernelRow>> SqliteStore::ListKernels(const PageRequest& page) {
  return readers_->Read([&](Database& database) { return sqlite::ListKernels(database, page); });
}

absl::Status SqliteStore::PutDevice(const DeviceRow& device, const DeviceClassRow& device_class) {
  return writer_->Run([&](Database& database) { return sqlite::PutDevice(database, device, device_class); });
}

absl::StatusOr<std::vector<DeviceClassRow>> SqliteStore::ListDeviceClasses() {
  return readers_->Read([&](Database& database) { return sqlite::ListDeviceClasses(database); });
}

absl::StatusOr<int64_t> SqliteStore::RegisterAgent(const AgentRegistration& agent) {
  const int64_t step = FenceStep(entropy_);
  return writer_->Call([&](Database& database) { return sqlite::RegisterAgent(database, agent, step, NowMs()); });
}

absl::StatusOr<AgentRow> SqliteStore::RenewAgent(std::string_view agent_id, int64_t epoch, int64_t lease_ms,
                                                 const std::optional<std::string>& detail) {
  return writer_->Call(
      [&](Database& database) { return sqlite::RenewAgent(database, agent_id, epoch, lease_ms, detail, NowMs()); });
}

absl::StatusOr<std::optional<AgentRow>> SqliteStore::FindAgent(std::string_view agent_id) {
  return readers_->Read([&](Database& database) { return sqlite::FindAgent(database, agent_id, NowMs()); });
}

absl::StatusOr<std::vector<AgentRow>> SqliteStore::ListAgents() {
  return readers_->Read([&](Database& database) { return sqlite::ListAgents(database, NowMs()); });
}

absl::Status SqliteStore::SetAgentDraining(std::string_view agent_id, bool draining) {
  return writer_->Run([&](Database& database) { return sqlite::SetAgentDraining(database, agent_id, draining); });
}

absl::StatusOr<std::vector<ClaimedUnit>> SqliteStore::ClaimsOf(std::string_view agent_id, int64_t epoch) {
  return readers_->Read([&](Database& database) { return sqlite::ClaimsOf(database, agent_id, epoch); });
}

absl::StatusOr<std::vector<ClaimedUnit>> SqliteStore::ClaimUnits(const ClaimRequest& request) {
  const int64_t step = FenceStep(entropy_);
  return writer_->Call([&](Database& database) { return sqlite::ClaimUnits(database, request, step); });
}

absl::StatusOr<ReportVerdict> SqliteStore::ReportTrials(const ReportRequest& request) {
  return writer_->Call([&](Database& database) { return sqlite::ReportTrials(database, request); });
}

absl::Status SqliteStore::ReleaseAgent(std::string_view agent_id, int64_t now_ms, bool was_lost) {
  return writer_->Run([&](Database& database) { return sqlite::ReleaseAgent(database, agent_id, now_ms, was_lost); });
}

absl::StatusOr<int64_t> SqliteStore::ReleaseOtherAgents(const std::vector<std::string>& keep, int64_t now_ms) {
  return writer_->Call([&](Database& database) { return sqlite::ReleaseOtherAgents(database, keep, now_ms); });
}

absl::StatusOr<std::vector<std::string>> SqliteStore::ReapAgents(int64_t now_ms) {
  return writer_->Call([&](Database& database) { return sqlite::ReapAgents(database, now_ms, NowMs()); });
}

absl::StatusOr<LeaseRow> SqliteStore::TakeLease(const LeaseRequest& request) {
  return writer_->Call([&](Database& database) { return sqlite::TakeLease(database, request, NowMs()); });
}

absl::Status SqliteStore::ReleaseLease(std::string_view name, std::string_view holder) {
  return writer_->Run([&](Database& database) { return sqlite::ReleaseLease(database, name, holder, NowMs()); });
}

absl::StatusOr<std::vector<LeaseRow>> SqliteStore::ListLeases(std::string_view prefix) {
  return readers_->Read([&](Database& database) { return sqlite::ListLeases(database, prefix, NowMs()); });
}

absl::Status SqliteStore::SetDeviceOrder(const DeviceOrderRow& order) {
  return writer_->Run([&](Database& database) { return sqlite::SetDeviceOrder(database, order); });
}

absl::StatusOr<std::vector<DeviceOrderRow>> SqliteStore::ListDeviceOrders() {
  return readers_->Read([](Database& database) { return sqlite::ListDeviceOrders(database); });
}

absl::StatusOr<std::vector<JobRow>> SqliteStore::ActiveJobs() {
  return readers_->Read([](Database& database) { return sqlite::ActiveJobs(database); });
}

absl::StatusOr<StudyHistory> SqliteStore::LoadHistory(int64_t study_id, int64_t after_sequence, int events_max) {
  return readers_->Read(
      [&](Database& database) { return sqlite::LoadHistory(database, study_id, after_sequence, events_max); });
}

absl::StatusOr<DriveResult> SqliteStore::Drive(const DriveStep& step) {
  return writer_->Call([&](Database& database) { return sqlite::Drive(database, step); });
}

absl::Status SqliteStore::SetJobState(int64_t job_id, const std::vector<JobState>& from, JobState to,
                                      std::string_view error, int64_t now_ms, int64_t driver_epoch) {
  return writer_->Run(
      [&](Database& database) { return sqlite::SetJobState(database, job_id, from, to, error, now_ms, driver_epoch); });
}

absl::StatusOr<std::vector<DrivenJob>> SqliteStore::AdoptJobs(std::string_view node, int jobs_max,
                                                              const std::vector<int64_t>& except) {
  const int64_t step = FenceStep(entropy_);
  return writer_->Call(
      [&](Database& database) { return sqlite::AdoptJobs(database, node, jobs_max, except, step, NowMs()); });
}

absl::Status SqliteStore::YieldJob(int64_t job_id, int64_t driver_epoch) {
  return writer_->Run([&](Database& database) { return sqlite::YieldJob(database, job_id, driver_epoch); });
}

absl::StatusOr<std::vector<JobStateRow>> SqliteStore::JobStates(const std::vector<int64_t>& job_ids) {
  return readers_->Read([&](Database& database) { return sqlite::JobStates(database, job_ids); });
}

absl::StatusOr<StudyHistory> SqliteStore::LoadDone(int64_t study_id, int units_max,
                                                   const std::vector<int64_t>& known_unit_ids) {
  return readers_->Read(
      [&](Database& database) { return sqlite::LoadDone(database, study_id, units_max, known_unit_ids); });
}

absl::StatusOr<std::vector<KnownStudyRow>> SqliteStore::StudiesOfProgram(std::string_view program_digest, int limit) {
  return readers_->Read([&](Database& database) { return sqlite::StudiesOfProgram(database, program_digest, limit); });
}

absl::StatusOr<std::vector<ResultRow>> SqliteStore::SampleResults(const ResultQuery& query) {
  return readers_->Read([&](Database& database) { return sqlite::SampleResults(database, query); });
}

absl::StatusOr<std::vector<PriorRow>> SqliteStore::LoadPriors(int64_t study_id) {
  return readers_->Read([&](Database& database) { return sqlite::LoadPriors(database, study_id); });
}

absl::StatusOr<std::vector<std::optional<MeasuredRow>>> SqliteStore::FindMeasured(
    const std::vector<std::string>& measured_keys) {
  return readers_->Read([&](Database& database) { return sqlite::FindMeasured(database, measured_keys); });
}

absl::StatusOr<std::vector<BestRow>> SqliteStore::LoadBests() { return LoadBestsSince(0); }

absl::StatusOr<std::vector<BestRow>> SqliteStore::LoadBestsSince(int64_t revision) {
  return readers_->Read([&](Database& database) { return sqlite::LoadBests(database, revision); });
}

absl::StatusOr<std::optional<BestRow>> SqliteStore::FindBest(std::string_view program_digest,
                                                             std::string_view problem_key, std::string_view class_id) {
  return readers_->Read(
      [&](Database& database) { return sqlite::FindBest(database, program_digest, problem_key, class_id); });
}

absl::StatusOr<int64_t> SqliteStore::CatalogRevision() {
  return readers_->Read([](Database& database) { return database.QueryInt("SELECT revision FROM catalog_rev"); });
}

absl::StatusOr<std::vector<BestRemovalRow>> SqliteStore::LoadBestRemovals() {
  return readers_->Read([](Database& database) { return sqlite::LoadBestRemovals(database); });
}

absl::StatusOr<BestRow> SqliteStore::PromoteBest(const BestRow& best) {
  return writer_->Call([&](Database& database) { return sqlite::PromoteBest(database, best); });
}

absl::StatusOr<BestChangeRow> SqliteStore::EditBest(const BestEdit& edit) {
  return writer_->Call([&](Database& database) { return sqlite::EditBest(database, edit); });
}

absl::StatusOr<Page<BestChangeRow>> SqliteStore::ListBestChanges(const BestChangeQuery& query) {
  return readers_->Read([&](Database& database) { return sqlite::ListBestChanges(database, query); });
}

absl::Status SqliteStore::WriteMisses(const MissChanges& changes) {
  return writer_->Run([&](Database& database) { return sqlite::WriteMisses(database, changes); });
}

absl::StatusOr<std::vector<MissRow>> SqliteStore::LoadMisses() {
  return readers_->Read([](Database& database) { return sqlite::LoadMisses(database); });
}

absl::Status SqliteStore::RecordPoison(const PoisonRow& row) {
  return writer_->Run([&](Database& database) { return sqlite::RecordPoison(database, row); });
}

absl::StatusOr<std::vector<PoisonRow>> SqliteStore::LoadPoison(std::string_view program_digest,
                                                               std::string_view class_id) {
  return readers_->Read([&](Database& database) { return sqlite::LoadPoison(database, program_digest, class_id); });
}

absl::StatusOr<JobRow> SqliteStore::GetJob(int64_t job_id) {
  return readers_->Read([&](Database& database) { return sqlite::GetJob(database, job_id); });
}

absl::StatusOr<Page<JobRow>> SqliteStore::ListJobs(const std::vector<JobState>& states, const PageRequest& page) {
  return readers_->Read([&](Database& database) { return sqlite::ListJobs(database, states, page); });
}

absl::StatusOr<Page<TrialRow>> SqliteStore::ListTrials(const TrialQuery& query) {
  return readers_->Read([&](Database& database) { return sqlite::ListTrials(database, query); });
}

absl::StatusOr<TrialRow> SqliteStore::GetTrial(int64_t job_id, int study_number, int64_t ordinal) {
  return readers_->Read([&](Database& database) { return sqlite::GetTrial(database, job_id, study_number, ordinal); });
}

absl::StatusOr<std::vector<OutcomeCountRow>> SqliteStore::CountOutcomes(int64_t job_id) {
  return readers_->Read([&](Database& database) { return sqlite::CountOutcomes(database, job_id); });
}

absl::Status SqliteStore::DeleteJob(int64_t job_id) {
  while (true) {
    const absl::StatusOr<bool> is_last = writer_->Call(
        [&](Database& database) { return sqlite::DeleteJobPart(database, job_id, kRowsDeletedAtOnceMax); });
    RETURN_IF_ERROR(is_last.status());
    if (*is_last) return absl::OkStatus();
  }
}

absl::StatusOr<std::vector<JobRow>> SqliteStore::EndedJobs(int64_t ended_before_ms, int64_t after_job_id, int limit) {
  return readers_->Read(
      [&](Database& database) { return sqlite::EndedJobs(database, ended_before_ms, after_job_id, limit); });
}

absl::StatusOr<int64_t> SqliteStore::PruneTrialData(int64_t ended_before_ms, int rows_max) {
  return writer_->Call([&](Database& database) { return sqlite::PruneTrialData(database, ended_before_ms, rows_max); });
}

absl::StatusOr<int64_t> SqliteStore::DeleteUnusedKernels(int64_t created_before_ms) {
  return writer_->Call([&](Database& database) { return sqlite::DeleteUnusedKernels(database, created_before_ms); });
}

absl::StatusOr<StoreStatus> SqliteStore::Status() {
  return readers_->Read([](Database& database) { return sqlite::ReadStatus(database); });
}

absl::StatusOr<QueueCounts> SqliteStore::CountQueue() {
  return readers_->Read([](Database& database) { return sqlite::CountQueue(database); });
}

absl::Status SqliteStore::CheckWritable() {
  return writer_->Run([](Database& database) { return sqlite::CheckWritable(database); });
}

absl::Status SqliteStore::Backup(const std::string& path) {
  // From a reader: writing goes on meanwhile.
  return readers_->Use([&](Database& database) { return database.CopyTo(path); });
}

absl::StatusOr<std::string> SqliteStore::GetOrPutSetting(std::string_view name, std::string_view value_if_absent) {
  RETURN_IF_ERROR(CheckSettingName(name));
  // Most often it is there: daemons ask again and again.
  ASSIGN_OR_RETURN(std::optional<std::string> found,
                   readers_->Read([&](Database& database) { return sqlite::FindSetting(database, name); }));
  if (found.has_value()) return *std::move(found);
  return writer_->Call([&](Database& database) { return sqlite::GetOrPutSetting(database, name, value_if_absent); });
}

absl::Status SqliteStore::PutSetting(std::string_view name, std::string_view value) {
  RETURN_IF_ERROR(CheckSettingName(name));
  return writer_->Run([&](Database& database) { return sqlite::PutSetting(database, name, value); });
}

}  // namespace tunefarm::sqlite
