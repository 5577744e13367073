// A store whose calls fail as a database far away does: before anything was done, or after it was all done and only the
// answer got lost. What fails is the test's to say, by the name of the call.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/store/store.h"
#include "tests/fakes/forwarding_store.h"

namespace tunefarm {

class FaultyStore : public ForwardingStore {
 public:
  enum class Fault { kNone, kBefore, kAfter };
  using Faults = std::function<Fault(std::string_view call)>;

  explicit FaultyStore(Store* store) : ForwardingStore(store), store_(store) {}

  void set_faults(Faults faults) { faults_ = std::move(faults); }

  absl::StatusOr<SubmitResult> SubmitJob(const SubmitRequest& request) override {
    return Call("SubmitJob", [&] { return store_->SubmitJob(request); });
  }
  absl::Status PutKernel(const KernelRow& kernel) override {
    return Call("PutKernel", [&] { return store_->PutKernel(kernel); });
  }
  absl::StatusOr<KernelRow> GetKernel(std::string_view kernel_id) override {
    return Call("GetKernel", [&] { return store_->GetKernel(kernel_id); });
  }
  absl::StatusOr<KernelRow> FindKernel(std::string_view display_name) override {
    return Call("FindKernel", [&] { return store_->FindKernel(display_name); });
  }
  absl::StatusOr<Page<KernelRow>> ListKernels(const PageRequest& page) override {
    return Call("ListKernels", [&] { return store_->ListKernels(page); });
  }
  absl::Status PutDevice(const DeviceRow& device, const DeviceClassRow& device_class) override {
    return Call("PutDevice", [&] { return store_->PutDevice(device, device_class); });
  }
  absl::StatusOr<std::vector<DeviceClassRow>> ListDeviceClasses() override {
    return Call("ListDeviceClasses", [&] { return store_->ListDeviceClasses(); });
  }
  absl::StatusOr<int64_t> RegisterAgent(const AgentRegistration& agent) override {
    return Call("RegisterAgent", [&] { return store_->RegisterAgent(agent); });
  }
  absl::StatusOr<AgentRow> RenewAgent(std::string_view agent_id, int64_t epoch, int64_t lease_ms,
                                      const std::optional<std::string>& detail) override {
    return Call("RenewAgent", [&] { return store_->RenewAgent(agent_id, epoch, lease_ms, detail); });
  }
  absl::StatusOr<std::optional<AgentRow>> FindAgent(std::string_view agent_id) override {
    return Call("FindAgent", [&] { return store_->FindAgent(agent_id); });
  }
  absl::StatusOr<std::vector<AgentRow>> ListAgents() override {
    return Call("ListAgents", [&] { return store_->ListAgents(); });
  }
  absl::Status SetAgentDraining(std::string_view agent_id, bool draining) override {
    return Call("SetAgentDraining", [&] { return store_->SetAgentDraining(agent_id, draining); });
  }
  absl::StatusOr<std::vector<ClaimedUnit>> ClaimsOf(std::string_view agent_id, int64_t epoch) override {
    return Call("ClaimsOf", [&] { return store_->ClaimsOf(agent_id, epoch); });
  }
  absl::StatusOr<std::vector<ClaimedUnit>> ClaimUnits(const ClaimRequest& request) override {
    return Call("ClaimUnits", [&] { return store_->ClaimUnits(request); });
  }
  absl::StatusOr<ReportVerdict> ReportTrials(const ReportRequest& request) override {
    return Call("ReportTrials", [&] { return store_->ReportTrials(request); });
  }
  absl::Status ReleaseAgent(std::string_view agent_id, int64_t now_ms, bool was_lost) override {
    return Call("ReleaseAgent", [&] { return store_->ReleaseAgent(agent_id, now_ms, was_lost); });
  }
  absl::StatusOr<int64_t> ReleaseOtherAgents(const std::vector<std::string>& keep, int64_t now_ms) override {
    return Call("ReleaseOtherAgents", [&] { return store_->ReleaseOtherAgents(keep, now_ms); });
  }
  absl::StatusOr<std::vector<std::string>> ReapAgents(int64_t now_ms) override {
    return Call("ReapAgents", [&] { return store_->ReapAgents(now_ms); });
  }
  absl::StatusOr<LeaseRow> TakeLease(const LeaseRequest& request) override {
    return Call("TakeLease", [&] { return store_->TakeLease(request); });
  }
  absl::Status ReleaseLease(std::string_view name, std::string_view holder) override {
    return Call("ReleaseLease", [&] { return store_->ReleaseLease(name, holder); });
  }
  absl::Status SetDeviceOrder(const DeviceOrderRow& order) override {
    return Call("SetDeviceOrder", [&] { return store_->SetDeviceOrder(order); });
  }
  absl::StatusOr<std::vector<DeviceOrderRow>> ListDeviceOrders() override {
    return Call("ListDeviceOrders", [&] { return store_->ListDeviceOrders(); });
  }
  absl::StatusOr<std::vector<LeaseRow>> ListLeases(std::string_view prefix) override {
    return Call("ListLeases", [&] { return store_->ListLeases(prefix); });
  }
  absl::StatusOr<std::vector<JobRow>> ActiveJobs() override {
    return Call("ActiveJobs", [&] { return store_->ActiveJobs(); });
  }
  absl::StatusOr<StudyHistory> LoadHistory(int64_t study_id, int64_t after_sequence, int events_max) override {
    return Call("LoadHistory", [&] { return store_->LoadHistory(study_id, after_sequence, events_max); });
  }
  absl::StatusOr<DriveResult> Drive(const DriveStep& step) override {
    return Call("Drive", [&] { return store_->Drive(step); });
  }
  absl::Status SetJobState(int64_t job_id, const std::vector<JobState>& from, JobState to, std::string_view error,
                           int64_t now_ms, int64_t driver_epoch) override {
    return Call("SetJobState", [&] { return store_->SetJobState(job_id, from, to, error, now_ms, driver_epoch); });
  }
  absl::StatusOr<std::vector<DrivenJob>> AdoptJobs(std::string_view node, int jobs_max,
                                                   const std::vector<int64_t>& except) override {
    return Call("AdoptJobs", [&] { return store_->AdoptJobs(node, jobs_max, except); });
  }
  absl::Status YieldJob(int64_t job_id, int64_t driver_epoch) override {
    return Call("YieldJob", [&] { return store_->YieldJob(job_id, driver_epoch); });
  }
  absl::StatusOr<std::vector<JobStateRow>> JobStates(const std::vector<int64_t>& job_ids) override {
    return Call("JobStates", [&] { return store_->JobStates(job_ids); });
  }
  absl::StatusOr<StudyHistory> LoadDone(int64_t study_id, int units_max,
                                        const std::vector<int64_t>& known_unit_ids = {}) override {
    return Call("LoadDone", [&] { return store_->LoadDone(study_id, units_max, known_unit_ids); });
  }
  absl::StatusOr<std::vector<KnownStudyRow>> StudiesOfProgram(std::string_view program_digest, int limit) override {
    return Call("StudiesOfProgram", [&] { return store_->StudiesOfProgram(program_digest, limit); });
  }
  absl::StatusOr<std::vector<ResultRow>> SampleResults(const ResultQuery& query) override {
    return Call("SampleResults", [&] { return store_->SampleResults(query); });
  }
  absl::StatusOr<std::vector<PriorRow>> LoadPriors(int64_t study_id) override {
    return Call("LoadPriors", [&] { return store_->LoadPriors(study_id); });
  }
  absl::StatusOr<std::vector<std::optional<MeasuredRow>>> FindMeasured(
      const std::vector<std::string>& measured_keys) override {
    return Call("FindMeasured", [&] { return store_->FindMeasured(measured_keys); });
  }
  absl::StatusOr<std::vector<BestRow>> LoadBests() override {
    return Call("LoadBests", [&] { return store_->LoadBests(); });
  }
  absl::StatusOr<std::vector<BestRow>> LoadBestsSince(int64_t revision) override {
    return Call("LoadBestsSince", [&] { return store_->LoadBestsSince(revision); });
  }
  absl::StatusOr<std::optional<BestRow>> FindBest(std::string_view program_digest, std::string_view problem_key,
                                                  std::string_view class_id) override {
    return Call("FindBest", [&] { return store_->FindBest(program_digest, problem_key, class_id); });
  }
  absl::StatusOr<int64_t> CatalogRevision() override {
    return Call("CatalogRevision", [&] { return store_->CatalogRevision(); });
  }
  absl::StatusOr<std::vector<BestRemovalRow>> LoadBestRemovals() override {
    return Call("LoadBestRemovals", [&] { return store_->LoadBestRemovals(); });
  }
  absl::StatusOr<BestRow> PromoteBest(const BestRow& best) override {
    return Call("PromoteBest", [&] { return store_->PromoteBest(best); });
  }
  absl::StatusOr<BestChangeRow> EditBest(const BestEdit& edit) override {
    return Call("EditBest", [&] { return store_->EditBest(edit); });
  }
  absl::StatusOr<Page<BestChangeRow>> ListBestChanges(const BestChangeQuery& query) override {
    return Call("ListBestChanges", [&] { return store_->ListBestChanges(query); });
  }
  absl::Status WriteMisses(const MissChanges& changes) override {
    return Call("WriteMisses", [&] { return store_->WriteMisses(changes); });
  }
  absl::StatusOr<std::vector<MissRow>> LoadMisses() override {
    return Call("LoadMisses", [&] { return store_->LoadMisses(); });
  }
  absl::Status RecordPoison(const PoisonRow& row) override {
    return Call("RecordPoison", [&] { return store_->RecordPoison(row); });
  }
  absl::StatusOr<std::vector<PoisonRow>> LoadPoison(std::string_view program_digest,
                                                    std::string_view class_id) override {
    return Call("LoadPoison", [&] { return store_->LoadPoison(program_digest, class_id); });
  }
  absl::StatusOr<JobRow> GetJob(int64_t job_id) override {
    return Call("GetJob", [&] { return store_->GetJob(job_id); });
  }
  absl::StatusOr<Page<JobRow>> ListJobs(const std::vector<JobState>& states, const PageRequest& page) override {
    return Call("ListJobs", [&] { return store_->ListJobs(states, page); });
  }
  absl::StatusOr<Page<TrialRow>> ListTrials(const TrialQuery& query) override {
    return Call("ListTrials", [&] { return store_->ListTrials(query); });
  }
  absl::StatusOr<TrialRow> GetTrial(int64_t job_id, int study_number, int64_t ordinal) override {
    return Call("GetTrial", [&] { return store_->GetTrial(job_id, study_number, ordinal); });
  }
  absl::StatusOr<std::vector<OutcomeCountRow>> CountOutcomes(int64_t job_id) override {
    return Call("CountOutcomes", [&] { return store_->CountOutcomes(job_id); });
  }
  absl::Status DeleteJob(int64_t job_id) override {
    return Call("DeleteJob", [&] { return store_->DeleteJob(job_id); });
  }
  absl::StatusOr<std::vector<JobRow>> EndedJobs(int64_t ended_before_ms, int64_t after_job_id, int limit) override {
    return Call("EndedJobs", [&] { return store_->EndedJobs(ended_before_ms, after_job_id, limit); });
  }
  absl::StatusOr<int64_t> PruneTrialData(int64_t ended_before_ms, int rows_max) override {
    return Call("PruneTrialData", [&] { return store_->PruneTrialData(ended_before_ms, rows_max); });
  }
  absl::StatusOr<int64_t> DeleteUnusedKernels(int64_t created_before_ms) override {
    return Call("DeleteUnusedKernels", [&] { return store_->DeleteUnusedKernels(created_before_ms); });
  }
  absl::StatusOr<StoreStatus> Status() override {
    return Call("Status", [&] { return store_->Status(); });
  }
  absl::StatusOr<QueueCounts> CountQueue() override {
    return Call("CountQueue", [&] { return store_->CountQueue(); });
  }
  absl::Status CheckWritable() override {
    return Call("CheckWritable", [&] { return store_->CheckWritable(); });
  }
  absl::Status Backup(const std::string& path) override {
    return Call("Backup", [&] { return store_->Backup(path); });
  }
  absl::Status PutSetting(std::string_view name, std::string_view value) override {
    return Call("PutSetting", [&] { return store_->PutSetting(name, value); });
  }
  absl::StatusOr<std::string> GetOrPutSetting(std::string_view name, std::string_view value_if_absent) override {
    return Call("GetOrPutSetting", [&] { return store_->GetOrPutSetting(name, value_if_absent); });
  }

 private:
  template <typename Made>
  auto Call(std::string_view name, Made made) -> decltype(made()) {
    const Fault fault = faults_ ? faults_(name) : Fault::kNone;
    if (fault == Fault::kBefore) return absl::UnavailableError("the database is away");
    auto answer = made();
    if (fault == Fault::kAfter) return absl::UnavailableError("the database went away while it answered");
    return answer;
  }

  Store* const store_;
  Faults faults_;
};

}  // namespace tunefarm
