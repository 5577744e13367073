// A store that passes everything on: the base of those that step in somewhere. Thread-safe as what stands behind it,
// which outlives it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/store/store.h"

namespace tunefarm {

class ForwardingStore : public Store {
 public:
  explicit ForwardingStore(Store* store) : store_(store) {}
  // Another one stands behind it from now on. Between calls only.
  void PutBehind(Store* store) { store_ = store; }

  absl::StatusOr<SubmitResult> SubmitJob(const SubmitRequest& r) override { return store_->SubmitJob(r); }
  absl::Status PutKernel(const KernelRow& kernel) override { return store_->PutKernel(kernel); }
  absl::StatusOr<KernelRow> GetKernel(std::string_view id) override { return store_->GetKernel(id); }
  absl::StatusOr<KernelRow> FindKernel(std::string_view name) override { return store_->FindKernel(name); }
  absl::StatusOr<Page<KernelRow>> ListKernels(const PageRequest& page) override { return store_->ListKernels(page); }
  absl::Status PutDevice(const DeviceRow& device, const DeviceClassRow& device_class) override {
    return store_->PutDevice(device, device_class);
  }
  absl::StatusOr<std::vector<DeviceClassRow>> ListDeviceClasses() override { return store_->ListDeviceClasses(); }
  absl::StatusOr<int64_t> RegisterAgent(const AgentRegistration& agent) override {
    return store_->RegisterAgent(agent);
  }
  absl::StatusOr<AgentRow> RenewAgent(std::string_view agent_id, int64_t epoch, int64_t lease_ms,
                                      const std::optional<std::string>& detail) override {
    return store_->RenewAgent(agent_id, epoch, lease_ms, detail);
  }
  absl::StatusOr<std::optional<AgentRow>> FindAgent(std::string_view agent_id) override {
    return store_->FindAgent(agent_id);
  }
  absl::StatusOr<std::vector<AgentRow>> ListAgents() override { return store_->ListAgents(); }
  absl::Status SetAgentDraining(std::string_view agent_id, bool draining) override {
    return store_->SetAgentDraining(agent_id, draining);
  }
  absl::StatusOr<std::vector<ClaimedUnit>> ClaimsOf(std::string_view agent_id, int64_t epoch) override {
    return store_->ClaimsOf(agent_id, epoch);
  }
  absl::StatusOr<std::vector<ClaimedUnit>> ClaimUnits(const ClaimRequest& request) override {
    return store_->ClaimUnits(request);
  }
  absl::StatusOr<ReportVerdict> ReportTrials(const ReportRequest& request) override {
    return store_->ReportTrials(request);
  }
  absl::Status ReleaseAgent(std::string_view agent_id, int64_t now_ms, bool was_lost) override {
    return store_->ReleaseAgent(agent_id, now_ms, was_lost);
  }
  absl::StatusOr<int64_t> ReleaseOtherAgents(const std::vector<std::string>& keep, int64_t now_ms) override {
    return store_->ReleaseOtherAgents(keep, now_ms);
  }
  absl::StatusOr<std::vector<std::string>> ReapAgents(int64_t now_ms) override { return store_->ReapAgents(now_ms); }
  absl::StatusOr<LeaseRow> TakeLease(const LeaseRequest& request) override { return store_->TakeLease(request); }
  absl::Status ReleaseLease(std::string_view name, std::string_view holder) override {
    return store_->ReleaseLease(name, holder);
  }
  absl::Status SetDeviceOrder(const DeviceOrderRow& order) override { return store_->SetDeviceOrder(order); }
  absl::StatusOr<std::vector<DeviceOrderRow>> ListDeviceOrders() override { return store_->ListDeviceOrders(); }
  absl::StatusOr<std::vector<LeaseRow>> ListLeases(std::string_view prefix) override {
    return store_->ListLeases(prefix);
  }
  absl::StatusOr<std::vector<JobRow>> ActiveJobs() override { return store_->ActiveJobs(); }
  absl::StatusOr<StudyHistory> LoadHistory(int64_t study_id, int64_t after_sequence, int events_max) override {
    return store_->LoadHistory(study_id, after_sequence, events_max);
  }
  absl::StatusOr<DriveResult> Drive(const DriveStep& step) override { return store_->Drive(step); }
  absl::Status SetJobState(int64_t job_id, const std::vector<JobState>& from, JobState to, std::string_view error,
                           int64_t now_ms, int64_t driver_epoch) override {
    return store_->SetJobState(job_id, from, to, error, now_ms, driver_epoch);
  }
  absl::StatusOr<std::vector<DrivenJob>> AdoptJobs(std::string_view node, int jobs_max,
                                                   const std::vector<int64_t>& except) override {
    return store_->AdoptJobs(node, jobs_max, except);
  }
  absl::Status YieldJob(int64_t job_id, int64_t driver_epoch) override {
    return store_->YieldJob(job_id, driver_epoch);
  }
  absl::StatusOr<std::vector<JobStateRow>> JobStates(const std::vector<int64_t>& job_ids) override {
    return store_->JobStates(job_ids);
  }
  absl::StatusOr<StudyHistory> LoadDone(int64_t study_id, int units_max,
                                        const std::vector<int64_t>& known_unit_ids = {}) override {
    return store_->LoadDone(study_id, units_max, known_unit_ids);
  }
  absl::StatusOr<std::vector<KnownStudyRow>> StudiesOfProgram(std::string_view program, int limit) override {
    return store_->StudiesOfProgram(program, limit);
  }
  absl::StatusOr<std::vector<ResultRow>> SampleResults(const ResultQuery& query) override {
    return store_->SampleResults(query);
  }
  absl::StatusOr<std::vector<PriorRow>> LoadPriors(int64_t study_id) override { return store_->LoadPriors(study_id); }
  absl::StatusOr<std::vector<std::optional<MeasuredRow>>> FindMeasured(const std::vector<std::string>& keys) override {
    return store_->FindMeasured(keys);
  }
  absl::StatusOr<std::vector<BestRow>> LoadBests() override { return store_->LoadBests(); }
  absl::StatusOr<std::vector<BestRow>> LoadBestsSince(int64_t revision) override {
    return store_->LoadBestsSince(revision);
  }
  absl::StatusOr<int64_t> CatalogRevision() override { return store_->CatalogRevision(); }
  absl::StatusOr<std::vector<BestRemovalRow>> LoadBestRemovals() override { return store_->LoadBestRemovals(); }
  absl::StatusOr<BestRow> PromoteBest(const BestRow& best) override { return store_->PromoteBest(best); }
  absl::StatusOr<BestChangeRow> EditBest(const BestEdit& edit) override { return store_->EditBest(edit); }
  absl::StatusOr<Page<BestChangeRow>> ListBestChanges(const BestChangeQuery& query) override {
    return store_->ListBestChanges(query);
  }
  absl::StatusOr<std::optional<BestRow>> FindBest(std::string_view program_digest, std::string_view problem_key,
                                                  std::string_view class_id) override {
    return store_->FindBest(program_digest, problem_key, class_id);
  }
  absl::Status WriteMisses(const MissChanges& changes) override { return store_->WriteMisses(changes); }
  absl::StatusOr<std::vector<MissRow>> LoadMisses() override { return store_->LoadMisses(); }
  absl::Status RecordPoison(const PoisonRow& row) override { return store_->RecordPoison(row); }
  absl::StatusOr<std::vector<PoisonRow>> LoadPoison(std::string_view program, std::string_view class_id) override {
    return store_->LoadPoison(program, class_id);
  }
  absl::StatusOr<JobRow> GetJob(int64_t job_id) override { return store_->GetJob(job_id); }
  absl::StatusOr<Page<JobRow>> ListJobs(const std::vector<JobState>& states, const PageRequest& page) override {
    return store_->ListJobs(states, page);
  }
  absl::StatusOr<Page<TrialRow>> ListTrials(const TrialQuery& query) override { return store_->ListTrials(query); }
  absl::StatusOr<TrialRow> GetTrial(int64_t job_id, int study_number, int64_t ordinal) override {
    return store_->GetTrial(job_id, study_number, ordinal);
  }
  absl::StatusOr<std::vector<OutcomeCountRow>> CountOutcomes(int64_t job_id) override {
    return store_->CountOutcomes(job_id);
  }
  absl::Status DeleteJob(int64_t job_id) override { return store_->DeleteJob(job_id); }
  absl::StatusOr<std::vector<JobRow>> EndedJobs(int64_t ended_before_ms, int64_t after_job_id, int limit) override {
    return store_->EndedJobs(ended_before_ms, after_job_id, limit);
  }
  absl::StatusOr<int64_t> PruneTrialData(int64_t ended_before_ms, int rows_max) override {
    return store_->PruneTrialData(ended_before_ms, rows_max);
  }
  absl::StatusOr<int64_t> DeleteUnusedKernels(int64_t created_before_ms) override {
    return store_->DeleteUnusedKernels(created_before_ms);
  }
  TokenStore* tokens() override { return store_->tokens(); }
  absl::StatusOr<StoreStatus> Status() override { return store_->Status(); }
  absl::StatusOr<QueueCounts> CountQueue() override { return store_->CountQueue(); }
  CommitStats Commits() const override { return store_->Commits(); }
  int64_t Replacements() const override { return store_->Replacements(); }
  absl::Status CheckWritable() override { return store_->CheckWritable(); }
  absl::Status Backup(const std::string& path) override { return store_->Backup(path); }
  absl::Status PutSetting(std::string_view name, std::string_view value) override {
    return store_->PutSetting(name, value);
  }
  absl::StatusOr<std::string> GetOrPutSetting(std::string_view name, std::string_view value_if_absent) override {
    return store_->GetOrPutSetting(name, value_if_absent);
  }

 private:
  Store* store_;
};

}  // namespace tunefarm
