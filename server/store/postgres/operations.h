#pragma once

// What the store does in a transaction of one session. Rows are locked in this order: agent, job, study, unit; then
// the catalog's revision. Whoever commits and answers is Pool's business.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/postgres/claim_board.h"
#include "server/store/postgres/session.h"
#include "server/store/store.h"

namespace tunefarm::postgres {

// --- submit.cc ---
absl::StatusOr<SubmitResult> SubmitJob(Session& session, const SubmitRequest& request);
absl::Status PutKernel(Session& session, const KernelRow& kernel);
absl::Status PutDevice(Session& session, const DeviceRow& device, const DeviceClassRow& device_class);

// --- read_kernels.cc ---
absl::StatusOr<KernelRow> GetKernel(Session& session, std::string_view kernel_id);
absl::StatusOr<KernelRow> FindKernel(Session& session, std::string_view display_name);
absl::StatusOr<Page<KernelRow>> ListKernels(Session& session, const PageRequest& page);
absl::StatusOr<std::vector<DeviceClassRow>> ListDeviceClasses(Session& session);

// --- agents.cc ---
absl::Status EpochEnded(std::string_view agent_id, int64_t epoch);
// `step`, here and below: by how much epochs and tokens grow (fence_step.h).
absl::StatusOr<int64_t> RegisterAgent(Session& session, const AgentRegistration& agent, int64_t step);
absl::StatusOr<AgentRow> RenewAgent(Session& session, std::string_view agent_id, int64_t epoch, int64_t lease_ms,
                                    const std::optional<std::string>& detail);
absl::StatusOr<std::optional<AgentRow>> FindAgent(Session& session, std::string_view agent_id);
absl::StatusOr<std::vector<AgentRow>> ListAgents(Session& session);
absl::Status SetAgentDraining(Session& session, std::string_view agent_id, bool draining);
absl::Status ReleaseAgent(Session& session, std::string_view agent_id, int64_t now_ms, bool was_lost);
absl::StatusOr<int64_t> ReleaseOtherAgents(Session& session, const std::vector<std::string>& keep, int64_t now_ms);
absl::StatusOr<std::vector<std::string>> ReapAgents(Session& session, int64_t now_ms);

// --- leases.cc ---
absl::StatusOr<LeaseRow> TakeLease(Session& session, const LeaseRequest& request);
absl::Status ReleaseLease(Session& session, std::string_view name, std::string_view holder);
absl::StatusOr<std::vector<LeaseRow>> ListLeases(Session& session, std::string_view prefix);
absl::Status SetDeviceOrder(Session& session, const DeviceOrderRow& order);
absl::StatusOr<std::vector<DeviceOrderRow>> ListDeviceOrders(Session& session);
absl::StatusOr<std::vector<DrivenJob>> AdoptJobs(Session& session, std::string_view node, int jobs_max,
                                                 const std::vector<int64_t>& except, int64_t step);
absl::Status YieldJob(Session& session, int64_t job_id, int64_t driver_epoch);
absl::StatusOr<std::vector<JobStateRow>> JobStates(Session& session, const std::vector<int64_t>& job_ids);

// --- claim.cc ---
// What every unit of a study is handed out with. Never changes.
struct StudyFacts {
  int64_t job_id = 0;
  std::string kernel_id, problem, job_spec;
};
absl::StatusOr<StudyFacts> LoadFacts(Session& session, int64_t study_id);
// The studies of a class that have READY units behind their floor.
absl::StatusOr<std::vector<ReadyStudy>> LoadReady(Session& session, std::string_view class_id,
                                                  const ClaimBoard::Floors& floors);
struct ClaimStep {
  const ClaimRequest* request = nullptr;
  ClaimBoard::Pick pick;
  int units_max = 1;
  int64_t nonce = 0;
  int64_t token_step = 1;
};
struct ClaimStepResult {
  std::vector<UnitRow> units;
  std::vector<std::vector<int64_t>> present;  // of each
  std::vector<std::vector<std::string>> devices;
  int64_t last_seq = 0;
  int64_t trials = 0;
};
// One statement: units of one study. FailedPrecondition if the epoch has ended.
absl::StatusOr<ClaimStepResult> ClaimOfStudy(Session& session, const ClaimStep& step);
// The same for a job that is QUEUED, which becomes RUNNING if anything is claimed.
absl::StatusOr<ClaimStepResult> ClaimOfQueued(Session& session, const ClaimStep& step);
// What a call with this nonce has claimed.
absl::StatusOr<ClaimStepResult> FindClaimed(Session& session, const ClaimStep& step);
absl::StatusOr<std::vector<ClaimedUnit>> ClaimsOf(Session& session, std::string_view agent_id, int64_t epoch);

// --- report.cc ---
// One statement, unless something is to be found out. `is_repeat`: it may have been stored already.
absl::StatusOr<ReportVerdict> ReportTrials(Session& session, const ReportRequest& request, bool is_repeat);
// For a unit that is given back: a transaction.
absl::StatusOr<ReportVerdict> ReportAndReturn(Session& session, const ReportRequest& request);

// --- drive.cc ---
struct Driven {
  DriveResult result;
  std::string class_id;
  ReadyStudy study;
  int64_t first_seq = 0;  // of its new units; 0: none that can be claimed
};
absl::StatusOr<Driven> Drive(Session& session, const DriveStep& step);
absl::Status SetJobState(Session& session, int64_t job_id, const std::vector<JobState>& from, JobState to,
                         std::string_view error, int64_t now_ms, int64_t driver_epoch);

// --- memory.cc ---
absl::StatusOr<std::vector<KnownStudyRow>> StudiesOfProgram(Session& session, std::string_view program_digest,
                                                            int limit);
absl::StatusOr<std::vector<ResultRow>> SampleResults(Session& session, const ResultQuery& query);
absl::StatusOr<std::vector<PriorRow>> LoadPriors(Session& session, int64_t study_id);
absl::StatusOr<std::vector<std::optional<MeasuredRow>>> FindMeasured(Session& session,
                                                                     const std::vector<std::string>& measured_keys);
absl::Status StorePriors(Session& session, int64_t study_id, const std::vector<PriorRow>& priors);

// --- catalog.cc, best_history.cc ---
absl::StatusOr<std::vector<BestRow>> LoadBests(Session& session, int64_t after_revision);
absl::StatusOr<std::optional<BestRow>> FindBest(Session& session, const BestKey& key);
absl::StatusOr<std::vector<BestRemovalRow>> LoadBestRemovals(Session& session);
absl::StatusOr<BestRow> PromoteBest(Session& session, const BestRow& best);
absl::StatusOr<BestChangeRow> EditBest(Session& session, const BestEdit& edit);
absl::StatusOr<Page<BestChangeRow>> ListBestChanges(Session& session, const BestChangeQuery& query);
absl::Status WriteMisses(Session& session, const MissChanges& changes);
absl::StatusOr<std::vector<MissRow>> LoadMisses(Session& session);
absl::Status RecordPoison(Session& session, const PoisonRow& row);
absl::StatusOr<std::vector<PoisonRow>> LoadPoison(Session& session, std::string_view program_digest,
                                                  std::string_view class_id);
absl::StatusOr<std::optional<std::string>> FindSetting(Session& session, std::string_view name);
absl::Status PutSetting(Session& session, std::string_view name, std::string_view value);
absl::StatusOr<std::string> GetOrPutSetting(Session& session, std::string_view name, std::string_view value_if_absent);

// --- read_jobs.cc, read_trials.cc ---
absl::Status RequireJob(Session& session, int64_t job_id);
absl::StatusOr<std::vector<JobRow>> ActiveJobs(Session& session);
absl::StatusOr<JobRow> GetJob(Session& session, int64_t job_id);
absl::StatusOr<Page<JobRow>> ListJobs(Session& session, const std::vector<JobState>& states, const PageRequest& page);
absl::StatusOr<StudyHistory> LoadHistory(Session& session, int64_t study_id, int64_t after_sequence, int events_max);
absl::StatusOr<StudyHistory> LoadDone(Session& session, int64_t study_id, int units_max,
                                      const std::vector<int64_t>& known_unit_ids);
absl::StatusOr<Page<TrialRow>> ListTrials(Session& session, const TrialQuery& query);
absl::StatusOr<TrialRow> GetTrial(Session& session, int64_t job_id, int study_number, int64_t ordinal);
absl::StatusOr<std::vector<OutcomeCountRow>> CountOutcomes(Session& session, int64_t job_id);

// --- retain.cc ---
// True: that was the last part.
absl::StatusOr<bool> DeleteJobPart(Session& session, int64_t job_id, int rows_max);
absl::StatusOr<std::vector<JobRow>> EndedJobs(Session& session, int64_t ended_before_ms, int64_t after_job_id,
                                              int limit);
absl::StatusOr<int64_t> PruneTrialData(Session& session, int64_t ended_before_ms, int rows_max);
absl::StatusOr<int64_t> DeleteUnusedKernels(Session& session, int64_t created_before_ms);
absl::StatusOr<StoreStatus> ReadStatus(Session& session);
absl::StatusOr<QueueCounts> CountQueue(Session& session);
absl::Status CheckWritable(Session& session);

}  // namespace tunefarm::postgres
