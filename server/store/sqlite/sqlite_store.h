#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/base/clock.h"
#include "server/store/sqlite/operations.h"
#include "server/store/sqlite/reader_pool.h"
#include "server/store/sqlite/tokens.h"
#include "server/store/sqlite/writer.h"
#include "server/store/store.h"

namespace tunefarm::sqlite {

// Store on one SQLite file: writes go through the writer thread, reads through the pool. Thread-safe.
class SqliteStore : public Store {
 public:
  // `clock` and `entropy` outlive the store.
  SqliteStore(std::unique_ptr<Writer> writer, std::unique_ptr<ReaderPool> readers, Clock* clock,
              EntropySource* entropy);
  // Notes the clean end in the file. Nobody may be in a method any more.
  ~SqliteStore() override;

  absl::StatusOr<SubmitResult> SubmitJob(const SubmitRequest& request) override;
  absl::Status PutKernel(const KernelRow& kernel) override;
  absl::StatusOr<KernelRow> GetKernel(std::string_view kernel_id) override;
  absl::StatusOr<KernelRow> FindKernel(std::string_view display_name) override;
  absl::StatusOr<Page<KernelRow>> ListKernels(const PageRequest& page) override;
  absl::Status PutDevice(const DeviceRow& device, const DeviceClassRow& device_class) override;
  absl::StatusOr<std::vector<DeviceClassRow>> ListDeviceClasses() override;

  absl::StatusOr<int64_t> RegisterAgent(const AgentRegistration& agent) override;
  absl::StatusOr<AgentRow> RenewAgent(std::string_view agent_id, int64_t epoch, int64_t lease_ms,
                                      const std::optional<std::string>& detail) override;
  absl::StatusOr<std::optional<AgentRow>> FindAgent(std::string_view agent_id) override;
  absl::StatusOr<std::vector<AgentRow>> ListAgents() override;
  absl::Status SetAgentDraining(std::string_view agent_id, bool draining) override;
  absl::StatusOr<std::vector<ClaimedUnit>> ClaimsOf(std::string_view agent_id, int64_t epoch) override;
  absl::StatusOr<std::vector<ClaimedUnit>> ClaimUnits(const ClaimRequest& request) override;
  absl::StatusOr<ReportVerdict> ReportTrials(const ReportRequest& request) override;
  absl::Status ReleaseAgent(std::string_view agent_id, int64_t now_ms, bool was_lost) override;
  absl::StatusOr<int64_t> ReleaseOtherAgents(const std::vector<std::string>& keep, int64_t now_ms) override;
  absl::StatusOr<std::vector<std::string>> ReapAgents(int64_t now_ms) override;

  absl::StatusOr<LeaseRow> TakeLease(const LeaseRequest& request) override;
  absl::Status ReleaseLease(std::string_view name, std::string_view holder) override;
  absl::StatusOr<std::vector<LeaseRow>> ListLeases(std::string_view prefix) override;
  absl::Status SetDeviceOrder(const DeviceOrderRow& order) override;
  absl::StatusOr<std::vector<DeviceOrderRow>> ListDeviceOrders() override;

  absl::StatusOr<std::vector<JobRow>> ActiveJobs() override;
  absl::StatusOr<StudyHistory> LoadHistory(int64_t study_id, int64_t after_sequence, int events_max) override;
  absl::StatusOr<DriveResult> Drive(const DriveStep& step) override;
  absl::Status SetJobState(int64_t job_id, const std::vector<JobState>& from, JobState to, std::string_view error,
                           int64_t now_ms, int64_t driver_epoch) override;
  absl::StatusOr<std::vector<DrivenJob>> AdoptJobs(std::string_view node, int jobs_max,
                                                   const std::vector<int64_t>& except) override;
  absl::Status YieldJob(int64_t job_id, int64_t driver_epoch) override;
  absl::StatusOr<std::vector<JobStateRow>> JobStates(const std::vector<int64_t>& job_ids) override;
  absl::StatusOr<StudyHistory> LoadDone(int64_t study_id, int units_max,
                                        const std::vector<int64_t>& known_unit_ids = {}) override;

  absl::StatusOr<std::vector<KnownStudyRow>> StudiesOfProgram(std::string_view program_digest, int limit) override;
  absl::StatusOr<std::vector<ResultRow>> SampleResults(const ResultQuery& query) override;
  absl::StatusOr<std::vector<PriorRow>> LoadPriors(int64_t study_id) override;
  absl::StatusOr<std::vector<std::optional<MeasuredRow>>> FindMeasured(
      const std::vector<std::string>& measured_keys) override;

  absl::StatusOr<std::vector<BestRow>> LoadBests() override;
  absl::StatusOr<std::vector<BestRow>> LoadBestsSince(int64_t revision) override;
  absl::StatusOr<std::optional<BestRow>> FindBest(std::string_view program_digest, std::string_view problem_key,
                                                  std::string_view class_id) override;
  absl::StatusOr<int64_t> CatalogRevision() override;
  absl::StatusOr<std::vector<BestRemovalRow>> LoadBestRemovals() override;
  absl::StatusOr<BestRow> PromoteBest(const BestRow& best) override;
  absl::StatusOr<BestChangeRow> EditBest(const BestEdit& edit) override;
  absl::StatusOr<Page<BestChangeRow>> ListBestChanges(const BestChangeQuery& query) override;

  absl::Status WriteMisses(const MissChanges& changes) override;
  absl::StatusOr<std::vector<MissRow>> LoadMisses() override;

  absl::Status RecordPoison(const PoisonRow& row) override;
  absl::StatusOr<std::vector<PoisonRow>> LoadPoison(std::string_view program_digest,
                                                    std::string_view class_id) override;

  absl::StatusOr<JobRow> GetJob(int64_t job_id) override;
  absl::StatusOr<Page<JobRow>> ListJobs(const std::vector<JobState>& states, const PageRequest& page) override;
  absl::StatusOr<Page<TrialRow>> ListTrials(const TrialQuery& query) override;
  absl::StatusOr<TrialRow> GetTrial(int64_t job_id, int study_number, int64_t ordinal) override;
  absl::StatusOr<std::vector<OutcomeCountRow>> CountOutcomes(int64_t job_id) override;
  absl::Status DeleteJob(int64_t job_id) override;

  absl::StatusOr<std::vector<JobRow>> EndedJobs(int64_t ended_before_ms, int64_t after_job_id, int limit) override;
  absl::StatusOr<int64_t> PruneTrialData(int64_t ended_before_ms, int rows_max) override;
  absl::StatusOr<int64_t> DeleteUnusedKernels(int64_t created_before_ms) override;

  TokenStore* tokens() override { return &tokens_; }

  absl::StatusOr<StoreStatus> Status() override;
  absl::StatusOr<QueueCounts> CountQueue() override;
  CommitStats Commits() const override { return writer_->stats(); }
  int64_t Replacements() const override { return 0; }  // its file is open as long as it lives
  absl::Status CheckWritable() override;
  absl::Status Backup(const std::string& path) override;
  absl::Status PutSetting(std::string_view name, std::string_view value) override;
  absl::StatusOr<std::string> GetOrPutSetting(std::string_view name, std::string_view value_if_absent) override;

 private:
  // The time of leases: the wall clock as it was when the store was opened, going on with the monotonic one, so that a
  // step of the wall clock ends no lease.
  int64_t NowMs() const;

  Clock* const clock_;
  EntropySource* const entropy_;
  const int64_t opened_at_ms_;
  const MonotonicTime opened_at_;
  // The writer closes last: the last connection to close must be the one that checkpoints.
  const std::unique_ptr<Writer> writer_;
  std::unique_ptr<ReaderPool> readers_;
  SqliteTokenStore tokens_;
};

// The marker that is set while the store is open: still set at the next start means that the process died. Names that
// start with this prefix are the store's own.
inline constexpr std::string_view kReservedSettingPrefix = "store.";
absl::Status SetOpenMarker(Database& database, bool is_open);
absl::StatusOr<bool> ReadOpenMarker(Database& database);

}  // namespace tunefarm::sqlite
