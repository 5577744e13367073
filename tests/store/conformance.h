#pragma once

// What every implementation of Store must do. Another implementation links conformance*.cc and instantiates the suite:
//   INSTANTIATE_TEST_SUITE_P(Postgres, StoreConformance, testing::Values(StoreFactory{...}));
//   INSTANTIATE_TEST_SUITE_P(Postgres, FarmConformance, testing::Values(StoreFactory{...}));
//   INSTANTIATE_TEST_SUITE_P(Postgres, WorkConformance, testing::Values(StoreFactory{...}));

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/store/best_store.h"
#include "server/store/job_store.h"
#include "server/store/lease_store.h"
#include "server/store/store.h"
#include "server/store/unit_store.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm {

struct StoreFactory {
  std::string name;
  // Opens the store that lives in the directory, creating it the first time.
  std::function<absl::StatusOr<std::unique_ptr<Store>>(const std::string& directory)> open;
  // Lets the time pass that its leases run by.
  std::function<void(std::chrono::milliseconds by)> advance;
  // The same of a copy of what is in the directory, whose store is closed: a backup that was put back.
  std::function<absl::StatusOr<std::unique_ptr<Store>>(const std::string& directory)> open_copy;
  bool makes_backups = true;
};
inline void PrintTo(const StoreFactory& factory, std::ostream* out) { *out << factory.name; }

inline constexpr int64_t kNow = 1767225600000;

KernelRow MakeKernel(const std::string& id, const std::string& name = "matmul");
StudyRow MakeStudy(int number, const std::string& class_id = "class", const std::string& device_selector = "");
SubmitRequest MakeSubmit(const std::string& uid, std::vector<StudyRow> studies = {MakeStudy(1)});
UnitRow MakeUnit(int64_t first_ordinal, int trial_count, const std::string& payload = "trials");
TrialRow MakeTrial(int64_t ordinal, double median_ns = 1000, int outcome = 1);
BestRow MakeBest(const std::string& program, const std::string& problem, double median_ns);
// With their studies, newest first.
std::vector<JobRow> AllJobs(Store* store);

// Events of a history that no test comes near.
inline constexpr int kWholeHistory = 1'000'000;

class StoreConformance : public testing::TestWithParam<StoreFactory> {
 protected:
  void SetUp() override { Reopen(); }
  void Reopen();

  // Each fails the test and answers a value that is of no use when the store refuses.
  int64_t Submit(const SubmitRequest& request);
  int64_t StudyOf(int64_t job_id, int number = 1);
  std::vector<int64_t> Propose(int64_t study_id, const std::vector<UnitRow>& units);
  // An agent called `id` on device "gpu-0" of class "class", registered anew.
  ClaimRequest Register(const std::string& id, int units_max = 1);
  std::vector<ClaimedUnit> Claim(const ClaimRequest& claimer);
  ClaimedUnit ClaimOne(ClaimRequest claimer);
  ReportRequest MakeReport(const ClaimRequest& claimer, const ClaimedUnit& unit, std::vector<TrialRow> trials,
                           bool unit_done);
  ReportVerdict Report(const ReportRequest& request);
  // Submits a job with one unit of `trials` trials and claims it.
  ClaimedUnit Prepare(const ClaimRequest& claimer, const std::string& uid = "job", int trials = 4);
  JobState StateOf(int64_t job_id);
  absl::Status Set(int64_t job_id, JobState to, const std::vector<JobState>& from = {});

  TemporaryDirectory directory_;
  std::unique_ptr<Store> store_;
};

// Works of trials (UnitStore::ClaimWorks): two agents with a unit of 4 trials each of one study, from ordinals 0 and 4.
class WorkConformance : public StoreConformance {
 protected:
  static constexpr int64_t kWork = 7;

  void SetUp() override;
  static WorkClaim ClaimOf(const ClaimedUnit& unit, int64_t ordinal, int64_t work) {
    return {unit.unit.study_id, work, unit.unit.unit_id, unit.unit.token, ordinal};
  }
  std::vector<WorkAnswer> Ask(const ClaimRequest& agent, const std::vector<WorkClaim>& claims);
  // What a trial is to do: "runs", "waits", or the ordinal of the trial whose result it takes over.
  std::string Said(const ClaimRequest& agent, const ClaimedUnit& unit, int64_t ordinal, int64_t work = kWork);
  std::string A(int64_t ordinal, int64_t work = kWork) { return Said(a_, a_unit_, ordinal, work); }
  std::string B(int64_t ordinal, int64_t work = kWork) { return Said(b_, b_unit_, ordinal, work); }
  static TrialRow Measured(int64_t ordinal, int64_t work = kWork) {
    TrialRow trial = MakeTrial(ordinal);
    trial.work = work;
    return trial;
  }
  void Keep(const ClaimRequest& agent, const ClaimedUnit& unit, const TrialRow& trial);

  int64_t job_id_ = 0, study_id_ = 0;
  ClaimRequest a_, b_;
  ClaimedUnit a_unit_, b_unit_;
};

// What daemons that share a store need of it.
class FarmConformance : public StoreConformance {
 protected:
  // An agent with a lease, as Register.
  ClaimRequest RegisterLeased(const std::string& id);
  LeaseRow Take(const std::string& name, const std::string& holder);
  // "agent N", which holds the unit under token N, is lost after it has reported these of its trials; what "agent N+1"
  // is given then.
  ClaimedUnit LoseWith(ClaimedUnit claimed, const std::vector<int64_t>& reported);
};

}  // namespace tunefarm
