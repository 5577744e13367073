// A store that passes everything on, but for the calls that a test says fail, by name: before anything was done, as
// where the database is far away, or after it was all done and only the answer got lost. A test that steps in at a call
// derives from the facet of that call and from FaultyStore, whose accessor it overrides.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/store/agent_store.h"
#include "server/store/best_store.h"
#include "server/store/device_store.h"
#include "server/store/job_store.h"
#include "server/store/lease_store.h"
#include "server/store/lookup_store.h"
#include "server/store/poison_store.h"
#include "server/store/setting_store.h"
#include "server/store/store.h"
#include "server/store/store_maintenance.h"
#include "server/store/study_store.h"
#include "server/store/trial_store.h"
#include "server/store/unit_store.h"

namespace tunefarm {

enum class StoreFault { kNone, kBefore, kAfter };

struct FaultyStoreState {
  Store* behind = nullptr;
  std::function<StoreFault(std::string_view call)> faults;
  std::map<std::string, std::function<absl::Status()>, std::less<>> instead;  // by call
};

template <typename Facet>
class FaultyFacet : public Facet {
 public:
  // The state outlives it. `accessor`: of the facet that stands behind.
  FaultyFacet(const FaultyStoreState* state, Facet* (Store::*accessor)()) : state_(state), accessor_(accessor) {}

 protected:
  using F = Facet;

  Facet* behind() const { return (state_->behind->*accessor_)(); }

  template <typename Method, typename... Arguments>
  auto Call(std::string_view name, Method method, const Arguments&... arguments)
      -> decltype((behind()->*method)(arguments...)) {
    if (const auto found = state_->instead.find(name); found != state_->instead.end() && found->second) {
      absl::Status status = found->second();
      if (!status.ok()) return status;
    }
    const StoreFault fault = state_->faults ? state_->faults(name) : StoreFault::kNone;
    if (fault == StoreFault::kBefore) return absl::UnavailableError("the database is away");
    auto answer = (behind()->*method)(arguments...);
    if (fault == StoreFault::kAfter) return absl::UnavailableError("the database went away while it answered");
    return answer;
  }

 private:
  const FaultyStoreState* const state_;
  Facet* (Store::*const accessor_)();
};

class FaultyKernels : public FaultyFacet<KernelStore> {
 public:
  using FaultyFacet::FaultyFacet;

  absl::Status PutKernel(const KernelRow& kernel) override { return Call(__func__, &F::PutKernel, kernel); }
  absl::StatusOr<KernelRow> GetKernel(std::string_view id) override { return Call(__func__, &F::GetKernel, id); }
  absl::StatusOr<KernelRow> FindKernel(std::string_view name) override { return Call(__func__, &F::FindKernel, name); }
  absl::StatusOr<std::map<std::string, std::string, std::less<>>> NewestPrograms() override {
    return Call(__func__, &F::NewestPrograms);
  }
  absl::StatusOr<KernelRow> FindProgram(std::string_view name, std::string_view digest) override {
    return Call(__func__, &F::FindProgram, name, digest);
  }
  absl::Status DeleteKernel(std::string_view id, const std::optional<std::string>& owner, int64_t now_ms) override {
    return Call(__func__, &F::DeleteKernel, id, owner, now_ms);
  }
  absl::StatusOr<Page<KernelRow>> ListKernels(const PageRequest& page) override {
    return Call(__func__, &F::ListKernels, page);
  }
  absl::StatusOr<int64_t> DeleteUnusedKernels(int64_t before_ms) override {
    return Call(__func__, &F::DeleteUnusedKernels, before_ms);
  }
};

class FaultyDevices : public FaultyFacet<DeviceStore> {
 public:
  using FaultyFacet::FaultyFacet;

  absl::Status PutDevice(const DeviceRow& device, const DeviceClassRow& c) override {
    return Call(__func__, &F::PutDevice, device, c);
  }
  absl::StatusOr<std::vector<DeviceClassRow>> ListDeviceClasses() override {
    return Call(__func__, &F::ListDeviceClasses);
  }
  absl::Status SetDeviceOrder(const DeviceOrderRow& order) override {
    return Call(__func__, &F::SetDeviceOrder, order);
  }
  absl::StatusOr<std::vector<DeviceOrderRow>> ListDeviceOrders() override {
    return Call(__func__, &F::ListDeviceOrders);
  }
};

class FaultyJobs : public FaultyFacet<JobStore> {
 public:
  using FaultyFacet::FaultyFacet;

  absl::StatusOr<SubmitResult> SubmitJob(const SubmitRequest& r) override { return Call(__func__, &F::SubmitJob, r); }
  absl::StatusOr<JobRow> GetJob(int64_t job) override { return Call(__func__, &F::GetJob, job); }
  absl::StatusOr<Page<JobRow>> ListJobs(const std::vector<JobState>& states, const PageRequest& page,
                                        const JobFilter& filter) override {
    return Call(__func__, &F::ListJobs, states, page, filter);
  }
  absl::StatusOr<std::vector<JobRow>> EndedJobs(int64_t before_ms, int64_t after, int limit) override {
    return Call(__func__, &F::EndedJobs, before_ms, after, limit);
  }
  absl::StatusOr<std::vector<JobStateRow>> JobStates(const std::vector<int64_t>& jobs) override {
    return Call(__func__, &F::JobStates, jobs);
  }
  absl::Status SetJobState(int64_t job, const std::vector<JobState>& from, JobState to, std::string_view error,
                           int64_t now_ms, int64_t epoch) override {
    return Call(__func__, &F::SetJobState, job, from, to, error, now_ms, epoch);
  }
  absl::StatusOr<std::vector<DrivenJob>> AdoptJobs(std::string_view node, int max,
                                                   const std::vector<int64_t>& except) override {
    return Call(__func__, &F::AdoptJobs, node, max, except);
  }
  absl::Status YieldJob(int64_t job, int64_t epoch) override { return Call(__func__, &F::YieldJob, job, epoch); }
  absl::Status DeleteJob(int64_t job) override { return Call(__func__, &F::DeleteJob, job); }
};

class FaultyStudies : public FaultyFacet<StudyStore> {
 public:
  using FaultyFacet::FaultyFacet;

  absl::StatusOr<DriveResult> Drive(const DriveStep& step) override { return Call(__func__, &F::Drive, step); }
  absl::StatusOr<StudyHistory> LoadHistory(int64_t study, int64_t after, int max) override {
    return Call(__func__, &F::LoadHistory, study, after, max);
  }
  absl::StatusOr<StudyHistory> LoadDone(int64_t study, int max, const std::vector<int64_t>& known) override {
    return Call(__func__, &F::LoadDone, study, max, known);
  }
  absl::StatusOr<std::vector<PriorRow>> LoadPriors(int64_t study) override {
    return Call(__func__, &F::LoadPriors, study);
  }
  absl::StatusOr<std::vector<KnownStudyRow>> StudiesOfProgram(std::string_view program, int limit) override {
    return Call(__func__, &F::StudiesOfProgram, program, limit);
  }
};

class FaultyUnits : public FaultyFacet<UnitStore> {
 public:
  using FaultyFacet::FaultyFacet;

  absl::StatusOr<std::vector<ClaimedUnit>> ClaimUnits(const ClaimRequest& r) override {
    return Call(__func__, &F::ClaimUnits, r);
  }
  absl::StatusOr<std::vector<ClaimedUnit>> ClaimsOf(std::string_view agent, int64_t epoch) override {
    return Call(__func__, &F::ClaimsOf, agent, epoch);
  }
  absl::StatusOr<ReportVerdict> ReportTrials(const ReportRequest& r) override {
    return Call(__func__, &F::ReportTrials, r);
  }
  absl::StatusOr<std::vector<WorkAnswer>> ClaimWorks(const WorkClaimRequest& r) override {
    return Call(__func__, &F::ClaimWorks, r);
  }
  absl::StatusOr<bool> HasWorks(int64_t study) override { return Call(__func__, &F::HasWorks, study); }
};

class FaultyTrials : public FaultyFacet<TrialStore> {
 public:
  using FaultyFacet::FaultyFacet;

  absl::StatusOr<Page<TrialRow>> ListTrials(const TrialQuery& query) override {
    return Call(__func__, &F::ListTrials, query);
  }
  absl::StatusOr<TrialRow> GetTrial(int64_t job, int number, int64_t ordinal) override {
    return Call(__func__, &F::GetTrial, job, number, ordinal);
  }
  absl::StatusOr<std::vector<OutcomeCountRow>> CountOutcomes(int64_t job) override {
    return Call(__func__, &F::CountOutcomes, job);
  }
  absl::StatusOr<std::vector<ResultRow>> SampleResults(const ResultQuery& query) override {
    return Call(__func__, &F::SampleResults, query);
  }
  absl::StatusOr<std::vector<TrialColumns>> ReadColumns(int64_t study, int64_t from, int max) override {
    return Call(__func__, &F::ReadColumns, study, from, max);
  }
  absl::StatusOr<std::vector<TrialRow>> GetTrials(int64_t study, const std::vector<int64_t>& ordinals) override {
    return Call(__func__, &F::GetTrials, study, ordinals);
  }
  absl::StatusOr<std::vector<std::optional<MeasuredRow>>> FindMeasured(const std::vector<std::string>& keys) override {
    return Call(__func__, &F::FindMeasured, keys);
  }
  absl::StatusOr<int64_t> PruneTrialData(int64_t before_ms, int max) override {
    return Call(__func__, &F::PruneTrialData, before_ms, max);
  }
};

class FaultyAgents : public FaultyFacet<AgentStore> {
 public:
  using FaultyFacet::FaultyFacet;

  absl::StatusOr<int64_t> RegisterAgent(const AgentRegistration& agent) override {
    return Call(__func__, &F::RegisterAgent, agent);
  }
  absl::StatusOr<AgentRow> RenewAgent(std::string_view agent, int64_t epoch, int64_t lease_ms,
                                      const std::optional<std::string>& detail) override {
    return Call(__func__, &F::RenewAgent, agent, epoch, lease_ms, detail);
  }
  absl::StatusOr<std::optional<AgentRow>> FindAgent(std::string_view agent) override {
    return Call(__func__, &F::FindAgent, agent);
  }
  absl::StatusOr<std::vector<AgentRow>> ListAgents() override { return Call(__func__, &F::ListAgents); }
  absl::Status SetAgentDraining(std::string_view agent, bool draining) override {
    return Call(__func__, &F::SetAgentDraining, agent, draining);
  }
  absl::Status ReleaseAgent(std::string_view agent, int64_t now_ms, bool was_lost) override {
    return Call(__func__, &F::ReleaseAgent, agent, now_ms, was_lost);
  }
  absl::StatusOr<int64_t> ReleaseOtherAgents(const std::vector<std::string>& keep, int64_t now_ms) override {
    return Call(__func__, &F::ReleaseOtherAgents, keep, now_ms);
  }
  absl::StatusOr<std::vector<std::string>> ReapAgents(int64_t now_ms) override {
    return Call(__func__, &F::ReapAgents, now_ms);
  }
};

class FaultyLeases : public FaultyFacet<LeaseStore> {
 public:
  using FaultyFacet::FaultyFacet;

  absl::StatusOr<LeaseRow> TakeLease(const LeaseRequest& r) override { return Call(__func__, &F::TakeLease, r); }
  absl::Status ReleaseLease(std::string_view name, std::string_view holder) override {
    return Call(__func__, &F::ReleaseLease, name, holder);
  }
  absl::StatusOr<std::vector<LeaseRow>> ListLeases(std::string_view prefix) override {
    return Call(__func__, &F::ListLeases, prefix);
  }
};

class FaultyBests : public FaultyFacet<BestStore> {
 public:
  using FaultyFacet::FaultyFacet;

  absl::StatusOr<std::vector<BestRow>> LoadBests() override { return Call(__func__, &F::LoadBests); }
  absl::StatusOr<std::vector<BestRow>> LoadBestsSince(int64_t revision) override {
    return Call(__func__, &F::LoadBestsSince, revision);
  }
  absl::StatusOr<std::optional<BestRow>> FindBest(std::string_view program, std::string_view problem,
                                                  std::string_view class_id) override {
    return Call(__func__, &F::FindBest, program, problem, class_id);
  }
  absl::StatusOr<int64_t> CatalogRevision() override { return Call(__func__, &F::CatalogRevision); }
  absl::StatusOr<std::vector<BestRemovalRow>> LoadBestRemovals() override {
    return Call(__func__, &F::LoadBestRemovals);
  }
  absl::StatusOr<BestRow> PromoteBest(const BestRow& best) override { return Call(__func__, &F::PromoteBest, best); }
  absl::StatusOr<BestChangeRow> EditBest(const BestEdit& edit) override { return Call(__func__, &F::EditBest, edit); }
  absl::StatusOr<Page<BestChangeRow>> ListBestChanges(const BestChangeQuery& query) override {
    return Call(__func__, &F::ListBestChanges, query);
  }
};

class FaultyLookups : public FaultyFacet<LookupStore> {
 public:
  using FaultyFacet::FaultyFacet;

  absl::Status WriteMisses(const MissChanges& changes) override { return Call(__func__, &F::WriteMisses, changes); }
  absl::StatusOr<std::vector<MissRow>> LoadMisses() override { return Call(__func__, &F::LoadMisses); }
  absl::StatusOr<std::optional<Agreement>> FindAgreement(std::string_view run_id,
                                                         std::string_view question_sha) override {
    return Call(__func__, &F::FindAgreement, run_id, question_sha);
  }
  absl::StatusOr<AgreedRunRow> BeginRun(const AgreedRunRow& run, const AgreementLimits& limits) override {
    return Call(__func__, &F::BeginRun, run, limits);
  }
  absl::StatusOr<AgreedAnswerRow> AgreeOn(std::string_view run_id, std::string_view question_sha,
                                          const AgreedAnswerRow& answer, const AgreementLimits& limits) override {
    return Call(__func__, &F::AgreeOn, run_id, question_sha, answer, limits);
  }
  absl::StatusOr<int64_t> DeleteUnusedRuns(int64_t used_before_ms, int runs_max) override {
    return Call(__func__, &F::DeleteUnusedRuns, used_before_ms, runs_max);
  }
};

class FaultyPoison : public FaultyFacet<PoisonStore> {
 public:
  using FaultyFacet::FaultyFacet;

  absl::Status RecordPoison(const PoisonRow& row) override { return Call(__func__, &F::RecordPoison, row); }
  absl::StatusOr<std::vector<PoisonRow>> LoadPoison(std::string_view program, std::string_view class_id) override {
    return Call(__func__, &F::LoadPoison, program, class_id);
  }
};

class FaultySettings : public FaultyFacet<SettingStore> {
 public:
  using FaultyFacet::FaultyFacet;

  absl::StatusOr<std::string> GetOrPutSetting(std::string_view name, std::string_view value) override {
    return Call(__func__, &F::GetOrPutSetting, name, value);
  }
  absl::Status PutSetting(std::string_view name, std::string_view value) override {
    return Call(__func__, &F::PutSetting, name, value);
  }
};

class FaultyMaintenance : public FaultyFacet<StoreMaintenance> {
 public:
  using FaultyFacet::FaultyFacet;

  absl::StatusOr<StoreStatus> Status() override { return Call(__func__, &F::Status); }
  absl::StatusOr<QueueCounts> CountQueue() override { return Call(__func__, &F::CountQueue); }
  CommitStats Commits() const override { return behind()->Commits(); }
  absl::Status CheckWritable() override { return Call(__func__, &F::CheckWritable); }
  absl::Status Backup(const std::string& path) override { return Call(__func__, &F::Backup, path); }
};

// Thread-safe as what stands behind it, which outlives it.
class FaultyStore : public Store {
 public:
  using Fault = StoreFault;

  explicit FaultyStore(Store* store) { state_.behind = store; }
  FaultyStore(const FaultyStore&) = delete;
  FaultyStore& operator=(const FaultyStore&) = delete;

  // All of these between calls only.
  void set_faults(std::function<Fault(std::string_view call)> faults) { state_.faults = std::move(faults); }
  // What is asked first, instead of the call if it answers an error.
  std::function<absl::Status()>& instead_of(const std::string& call) { return state_.instead[call]; }
  // Another one stands behind it from now on.
  void PutBehind(Store* store) { state_.behind = store; }

  KernelStore* kernels() override { return &kernels_; }
  DeviceStore* devices() override { return &devices_; }
  JobStore* jobs() override { return &jobs_; }
  StudyStore* studies() override { return &studies_; }
  UnitStore* units() override { return &units_; }
  TrialStore* trials() override { return &trials_; }
  AgentStore* agents() override { return &agents_; }
  LeaseStore* leases() override { return &leases_; }
  BestStore* bests() override { return &bests_; }
  LookupStore* lookups() override { return &lookups_; }
  PoisonStore* poison() override { return &poison_; }
  SettingStore* settings() override { return &settings_; }
  StoreMaintenance* maintenance() override { return &maintenance_; }
  TokenStore* tokens() override { return state_.behind->tokens(); }
  int64_t Replacements() const override { return state_.behind->Replacements(); }

 protected:
  FaultyStoreState state_;

 private:
  FaultyKernels kernels_{&state_, &Store::kernels};
  FaultyDevices devices_{&state_, &Store::devices};
  FaultyJobs jobs_{&state_, &Store::jobs};
  FaultyStudies studies_{&state_, &Store::studies};
  FaultyUnits units_{&state_, &Store::units};
  FaultyTrials trials_{&state_, &Store::trials};
  FaultyAgents agents_{&state_, &Store::agents};
  FaultyLeases leases_{&state_, &Store::leases};
  FaultyBests bests_{&state_, &Store::bests};
  FaultyLookups lookups_{&state_, &Store::lookups};
  FaultyPoison poison_{&state_, &Store::poison};
  FaultySettings settings_{&state_, &Store::settings};
  FaultyMaintenance maintenance_{&state_, &Store::maintenance};
};

}  // namespace tunefarm
