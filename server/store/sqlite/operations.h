#pragma once

// The Store's use cases as functions on a connection. Those under "write" run inside the writer's transaction (each in
// its savepoint, so a failure undoes all of it), those under "read" on a read-only snapshot. Contracts:
// server/store/store.h.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/sqlite/database.h"
#include "server/store/store.h"

namespace tunefarm::sqlite {

// --- write: submit.cc ---
absl::StatusOr<SubmitResult> SubmitJob(Database& database, const SubmitRequest& request);
absl::Status PutKernel(Database& database, const KernelRow& kernel);
absl::Status PutDevice(Database& database, const DeviceRow& device, const DeviceClassRow& device_class);

// --- write: agents.cc, claim.cc ---
// now_ms of leases is the store's own time, which no step of the clock changes (SqliteStore::NowMs).
// `step`, here and below: by how much epochs and tokens grow (fence_step.h).
absl::StatusOr<int64_t> RegisterAgent(Database& database, const AgentRegistration& agent, int64_t step, int64_t now_ms);
absl::StatusOr<AgentRow> RenewAgent(Database& database, std::string_view agent_id, int64_t epoch, int64_t lease_ms,
                                    const std::optional<std::string>& detail, int64_t now_ms);
absl::Status SetAgentDraining(Database& database, std::string_view agent_id, bool draining);
absl::StatusOr<std::vector<std::string>> ReapAgents(Database& database, int64_t released_at_ms, int64_t now_ms);
absl::Status ReleaseAgent(Database& database, std::string_view agent_id, int64_t now_ms, bool was_lost);
absl::StatusOr<int64_t> ReleaseOtherAgents(Database& database, const std::vector<std::string>& keep, int64_t now_ms);
absl::StatusOr<std::vector<ClaimedUnit>> ClaimUnits(Database& database, const ClaimRequest& request, int64_t step);
absl::StatusOr<ReportVerdict> ReportTrials(Database& database, const ReportRequest& request);
absl::Status CheckEpoch(Database& database, std::string_view agent_id, int64_t epoch);
// A place at the end of the queue.
absl::StatusOr<int64_t> NextClaimSequence(Database& database);

// --- read: agents.cc, claim.cc ---
absl::StatusOr<std::optional<AgentRow>> FindAgent(Database& database, std::string_view agent_id, int64_t now_ms);
absl::StatusOr<std::vector<AgentRow>> ListAgents(Database& database, int64_t now_ms);
absl::StatusOr<std::vector<ClaimedUnit>> ClaimsOf(Database& database, std::string_view agent_id, int64_t epoch);

// --- leases.cc; now_ms as above ---
absl::StatusOr<LeaseRow> TakeLease(Database& database, const LeaseRequest& request, int64_t now_ms);
absl::Status ReleaseLease(Database& database, std::string_view name, std::string_view holder, int64_t now_ms);
absl::StatusOr<std::vector<LeaseRow>> ListLeases(Database& database, std::string_view prefix, int64_t now_ms);
absl::Status SetDeviceOrder(Database& database, const DeviceOrderRow& order);
absl::StatusOr<std::vector<DeviceOrderRow>> ListDeviceOrders(Database& database);
absl::StatusOr<std::vector<DrivenJob>> AdoptJobs(Database& database, std::string_view node, int jobs_max,
                                                 const std::vector<int64_t>& except, int64_t step, int64_t now_ms);
absl::Status YieldJob(Database& database, int64_t job_id, int64_t driver_epoch);
absl::StatusOr<std::vector<JobStateRow>> JobStates(Database& database, const std::vector<int64_t>& job_ids);

// --- write: drive.cc ---
absl::StatusOr<DriveResult> Drive(Database& database, const DriveStep& step);
absl::Status SetJobState(Database& database, int64_t job_id, const std::vector<JobState>& from, JobState to,
                         std::string_view error, int64_t now_ms, int64_t driver_epoch);

// --- write: retain.cc ---
// One part of a job's deletion; true: the last one.
absl::StatusOr<bool> DeleteJobPart(Database& database, int64_t job_id, int rows_max);
absl::StatusOr<int64_t> PruneTrialData(Database& database, int64_t ended_before_ms, int rows_max);
absl::StatusOr<int64_t> DeleteUnusedKernels(Database& database, int64_t created_before_ms);
absl::Status CheckWritable(Database& database);

// --- read: retain.cc ---
absl::StatusOr<std::vector<JobRow>> EndedJobs(Database& database, int64_t ended_before_ms, int64_t after_job_id,
                                              int limit);
absl::StatusOr<QueueCounts> CountQueue(Database& database);

// --- write: best_history.cc ---
absl::StatusOr<BestRow> PromoteBest(Database& database, const BestRow& best);
absl::StatusOr<BestChangeRow> EditBest(Database& database, const BestEdit& edit);

// --- read: best_history.cc ---
absl::StatusOr<Page<BestChangeRow>> ListBestChanges(Database& database, const BestChangeQuery& query);
absl::StatusOr<std::vector<BestRemovalRow>> LoadBestRemovals(Database& database);

// --- write: catalog.cc ---
absl::Status RecordPoison(Database& database, const PoisonRow& row);
absl::StatusOr<std::optional<std::string>> FindSetting(Database& database, std::string_view name);
absl::Status PutSetting(Database& database, std::string_view name, std::string_view value);
absl::StatusOr<std::string> GetOrPutSetting(Database& database, std::string_view name,
                                            std::string_view value_if_absent);

// --- read: catalog.cc ---
absl::StatusOr<std::vector<BestRow>> LoadBests(Database& database, int64_t after_revision);
absl::StatusOr<std::optional<BestRow>> FindBest(Database& database, std::string_view program_digest,
                                                std::string_view problem_key, std::string_view class_id);
absl::StatusOr<std::vector<PoisonRow>> LoadPoison(Database& database, std::string_view program_digest,
                                                  std::string_view class_id);

// --- misses.cc ---
absl::Status WriteMisses(Database& database, const MissChanges& changes);
absl::StatusOr<std::vector<MissRow>> LoadMisses(Database& database);

// --- read: read_kernels.cc ---
absl::StatusOr<KernelRow> GetKernel(Database& database, std::string_view kernel_id);
absl::StatusOr<KernelRow> FindKernel(Database& database, std::string_view display_name);
absl::StatusOr<Page<KernelRow>> ListKernels(Database& database, const PageRequest& page);
absl::StatusOr<std::vector<DeviceClassRow>> ListDeviceClasses(Database& database);

// --- read: read_jobs.cc ---
absl::StatusOr<std::vector<JobRow>> ActiveJobs(Database& database);
absl::StatusOr<JobRow> GetJob(Database& database, int64_t job_id);
absl::StatusOr<Page<JobRow>> ListJobs(Database& database, const std::vector<JobState>& states, const PageRequest& page);
absl::StatusOr<StudyHistory> LoadHistory(Database& database, int64_t study_id, int64_t after_sequence, int events_max);
absl::StatusOr<StudyHistory> LoadDone(Database& database, int64_t study_id, int units_max,
                                      const std::vector<int64_t>& known_unit_ids);
absl::StatusOr<StoreStatus> ReadStatus(Database& database);

// --- read: read_trials.cc ---
absl::StatusOr<Page<TrialRow>> ListTrials(Database& database, const TrialQuery& query);
absl::StatusOr<TrialRow> GetTrial(Database& database, int64_t job_id, int study_number, int64_t ordinal);
absl::StatusOr<std::vector<OutcomeCountRow>> CountOutcomes(Database& database, int64_t job_id);

// --- read: memory.cc ---
absl::StatusOr<std::vector<KnownStudyRow>> StudiesOfProgram(Database& database, std::string_view program_digest,
                                                            int limit);
absl::StatusOr<std::vector<ResultRow>> SampleResults(Database& database, const ResultQuery& query);
absl::StatusOr<std::vector<PriorRow>> LoadPriors(Database& database, int64_t study_id);
absl::StatusOr<std::vector<std::optional<MeasuredRow>>> FindMeasured(Database& database,
                                                                     const std::vector<std::string>& measured_keys);

// --- write: memory.cc ---
// Of a study's first step, inside its transaction.
absl::Status StorePriors(Database& database, int64_t study_id, const std::vector<PriorRow>& priors);

// A refusal with the right code unless the job exists.
absl::Status RequireJob(Database& database, int64_t job_id);

}  // namespace tunefarm::sqlite
