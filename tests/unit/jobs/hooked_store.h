// A store that passes everything on and lets a test step in where two callers can meet: right after a call's commit.
#pragma once

#include <functional>
#include <vector>

#include "tests/fakes/faulty_store.h"

namespace tunefarm {

struct StoreHooks {
  // Called after the commit and before the caller goes on.
  std::function<void()> after_claim;  // of at least one unit
  std::function<void(const ReportRequest& report)> after_report;
  std::function<void(JobState to)> after_state;
  // Called with each row of a list before the caller gets it.
  std::function<void(TrialRow* row)> listed_trial;
};

// The hooks outlive the facets.
class HookedUnits : public FaultyUnits {
 public:
  HookedUnits(const FaultyStoreState* state, const StoreHooks* hooks)
      : FaultyUnits(state, &Store::units), hooks_(hooks) {}

  absl::StatusOr<std::vector<ClaimedUnit>> ClaimUnits(const ClaimRequest& request) override {
    auto units = FaultyUnits::ClaimUnits(request);
    if (units.ok() && !units->empty() && hooks_->after_claim) hooks_->after_claim();
    return units;
  }
  absl::StatusOr<ReportVerdict> ReportTrials(const ReportRequest& request) override {
    auto verdict = FaultyUnits::ReportTrials(request);
    if (hooks_->after_report) hooks_->after_report(request);
    return verdict;
  }

 private:
  const StoreHooks* const hooks_;
};

class HookedJobs : public FaultyJobs {
 public:
  HookedJobs(const FaultyStoreState* state, const StoreHooks* hooks) : FaultyJobs(state, &Store::jobs), hooks_(hooks) {}

  absl::Status SetJobState(int64_t job_id, const std::vector<JobState>& from, JobState to, std::string_view error,
                           int64_t now_ms, int64_t driver_epoch) override {
    absl::Status status = FaultyJobs::SetJobState(job_id, from, to, error, now_ms, driver_epoch);
    if (status.ok() && hooks_->after_state) hooks_->after_state(to);
    return status;
  }

 private:
  const StoreHooks* const hooks_;
};

class HookedTrials : public FaultyTrials {
 public:
  HookedTrials(const FaultyStoreState* state, const StoreHooks* hooks)
      : FaultyTrials(state, &Store::trials), hooks_(hooks) {}

  absl::StatusOr<Page<TrialRow>> ListTrials(const TrialQuery& query) override {
    auto page = FaultyTrials::ListTrials(query);
    if (page.ok()) Pass(&page->rows);
    return page;
  }
  absl::StatusOr<std::vector<TrialRow>> GetTrials(int64_t study_id, const std::vector<int64_t>& ordinals) override {
    auto rows = FaultyTrials::GetTrials(study_id, ordinals);
    if (rows.ok()) Pass(&*rows);
    return rows;
  }

 private:
  void Pass(std::vector<TrialRow>* rows) const {
    if (!hooks_->listed_trial) return;
    for (TrialRow& row : *rows) hooks_->listed_trial(&row);
  }

  const StoreHooks* const hooks_;
};

class HookedStore : public FaultyStore, public StoreHooks {
 public:
  using FaultyStore::FaultyStore;

  UnitStore* units() override { return &units_; }
  JobStore* jobs() override { return &jobs_; }
  TrialStore* trials() override { return &trials_; }

 private:
  HookedUnits units_{&state_, this};
  HookedJobs jobs_{&state_, this};
  HookedTrials trials_{&state_, this};
};

}  // namespace tunefarm
