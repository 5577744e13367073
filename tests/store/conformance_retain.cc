// What retention needs of a store: deleting, pruning and counting.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/base/status.h"
#include "server/store/best_store.h"
#include "server/store/job_store.h"
#include "server/store/lookup_store.h"
#include "server/store/store_maintenance.h"
#include "server/store/study_store.h"
#include "server/store/trial_store.h"
#include "server/store/unit_store.h"
#include "tests/store/conformance.h"

namespace tunefarm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int64_t kDay = int64_t{24} * 60 * 60 * 1000;

TrialRow WithData(int64_t ordinal) {
  TrialRow trial = MakeTrial(ordinal);
  trial.log = "log";
  trial.samples = "samples";
  return trial;
}

// The best that the trial has won.
BestRow BestOf(const ClaimedUnit& unit, int64_t ordinal, const std::string& problem = "m=1") {
  BestRow best = MakeBest("program", problem, 1000);
  best.job_id = unit.job_id;
  best.study_id = unit.unit.study_id;
  best.ordinal = ordinal;
  return best;
}

TEST_P(StoreConformance, DeletingAJobKeepsTheTrialOfItsBest) {
  const ClaimRequest claimer = Register("agent");
  const ClaimedUnit unit = Prepare(claimer);
  ASSERT_EQ(Report(MakeReport(claimer, unit, {WithData(0), WithData(1)}, true)), ReportVerdict::kAccepted);
  ASSERT_TRUE(store_->bests()->PromoteBest(BestOf(unit, 1)).ok());
  ASSERT_TRUE(Set(unit.job_id, JobState::kCancelled).ok());
  ASSERT_TRUE(store_->jobs()->DeleteJob(unit.job_id).ok());
  Reopen();
  EXPECT_TRUE(absl::IsNotFound(store_->trials()->GetTrial(unit.job_id, 1, 0).status()));
  const auto kept = store_->trials()->GetTrial(unit.job_id, 1, 1);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->config, "tile=1");
  EXPECT_EQ(kept->log, "log");
  EXPECT_EQ(kept->samples, "samples");
  EXPECT_EQ(kept->detail, "detail");
  EXPECT_EQ(kept->median_ns, 1000);
  EXPECT_EQ(kept->study_id, unit.unit.study_id);
  EXPECT_THAT(store_->bests()->LoadBests().value(), SizeIs(1));
  // Another job's winner takes the place, and the old one's trial goes with it.
  BestRow next = BestOf(unit, 7);
  next.study_id += 100;
  ASSERT_TRUE(store_->bests()->PromoteBest(next).ok());
  EXPECT_TRUE(absl::IsNotFound(store_->trials()->GetTrial(unit.job_id, 1, 1).status()));
}

TEST_P(StoreConformance, ALargeJobGoesInPartsAndWhole) {
  const ClaimRequest claimer = Register("agent");
  std::vector<UnitRow> units;
  constexpr int kUnits = 100, kTrials = 64;
  for (int i = 0; i < kUnits; ++i) units.push_back(MakeUnit(i * kTrials, kTrials));
  const int64_t job_id = Submit(MakeSubmit("large"));
  Propose(StudyOf(job_id), units);
  ClaimedUnit last;
  for (int i = 0; i < kUnits; ++i) {
    last = ClaimOne(claimer);
    std::vector<TrialRow> trials;
    for (int k = 0; k < kTrials; ++k) trials.push_back(MakeTrial(last.unit.first_ordinal + k));
    ASSERT_EQ(Report(MakeReport(claimer, last, trials, true)), ReportVerdict::kAccepted);
  }
  ASSERT_TRUE(store_->bests()->PromoteBest(BestOf(last, 0)).ok());
  ASSERT_TRUE(Set(job_id, JobState::kCancelled).ok());
  ASSERT_TRUE(store_->jobs()->DeleteJob(job_id).ok());
  EXPECT_EQ(store_->maintenance()->Status()->stored_trials, 0);
  EXPECT_TRUE(store_->trials()->GetTrial(job_id, 1, 0).ok());
  const StoreStatus status = store_->maintenance()->Status().value();
  EXPECT_LT(status.used_bytes, status.database_bytes);
}

TEST_P(StoreConformance, PruningTakesTheDataOfOldJobsAndNotThatOfBests) {
  const ClaimRequest claimer = Register("agent");
  const ClaimedUnit old = Prepare(claimer, "old");
  ASSERT_EQ(Report(MakeReport(claimer, old, {WithData(0), WithData(1), WithData(2)}, true)), ReportVerdict::kAccepted);
  ASSERT_TRUE(store_->bests()->PromoteBest(BestOf(old, 1)).ok());
  ASSERT_TRUE(Set(old.job_id, JobState::kCancelled).ok());  // ends at kNow + 7
  const ClaimedUnit active = Prepare(claimer, "active");
  ASSERT_EQ(Report(MakeReport(claimer, active, {WithData(0)}, false)), ReportVerdict::kAccepted);

  EXPECT_EQ(store_->trials()->PruneTrialData(kNow + 7, 100).value(), 0);
  // One log and one set of samples at a time, the oldest first.
  EXPECT_EQ(store_->trials()->PruneTrialData(kNow + kDay, 1).value(), 2);
  EXPECT_EQ(store_->trials()->GetTrial(old.job_id, 1, 0)->log, "");
  EXPECT_EQ(store_->trials()->GetTrial(old.job_id, 1, 0)->samples, "");
  EXPECT_EQ(store_->trials()->GetTrial(old.job_id, 1, 2)->log, "log");
  EXPECT_EQ(store_->trials()->PruneTrialData(kNow + kDay, 100).value(), 2);
  EXPECT_EQ(store_->trials()->PruneTrialData(kNow + kDay, 100).value(), 0);
  EXPECT_EQ(store_->trials()->GetTrial(old.job_id, 1, 1)->samples, "samples");
  EXPECT_EQ(store_->trials()->GetTrial(old.job_id, 1, 2)->samples, "");
  EXPECT_EQ(store_->trials()->GetTrial(active.job_id, 1, 0)->log, "log");
  EXPECT_EQ(store_->maintenance()->Status()->stored_trials, 4);
}

TEST_P(StoreConformance, EndedJobsOldestFirst) {
  std::vector<int64_t> ids;
  for (const char* uid : {"a", "b", "c", "d"}) ids.push_back(Submit(MakeSubmit(uid)));
  for (const int i : {0, 1, 3}) ASSERT_TRUE(Set(ids[i], JobState::kFailed).ok());
  const auto ids_of = [&](int64_t before, int64_t after, int limit) {
    std::vector<int64_t> found;
    const auto jobs = store_->jobs()->EndedJobs(before, after, limit);
    for (const JobRow& job : *jobs) found.push_back(job.job_id);
    return found;
  };
  EXPECT_THAT(ids_of(kNow + 7, 0, 10), IsEmpty());
  EXPECT_THAT(ids_of(kNow + 8, 0, 10), ElementsAre(ids[0], ids[1], ids[3]));
  EXPECT_THAT(ids_of(kNow + 8, 0, 2), ElementsAre(ids[0], ids[1]));
  EXPECT_THAT(ids_of(kNow + 8, ids[1], 2), ElementsAre(ids[3]));
  EXPECT_EQ(store_->jobs()->EndedJobs(kNow + 8, 0, 1)->front().spec, "spec");
}

TEST_P(StoreConformance, KernelsThatNobodyUsesGo) {
  const auto put = [&](const std::string& id, const std::string& name, int64_t at_ms) {
    KernelRow kernel = MakeKernel(id, name);
    kernel.created_at_ms = at_ms;
    ASSERT_TRUE(store_->kernels()->PutKernel(kernel).ok());
  };
  put("unused", "a", kNow);
  put("in-a-job", "a", kNow);
  put("in-a-best", "a", kNow);
  put("deleted", "a", kNow + kDay);
  put("young", "a", kNow + kDay);
  put("looked-up", "b", kNow);
  SubmitRequest submit = MakeSubmit("job");
  submit.kernel.reset();
  submit.job.kernel_id = "in-a-job";
  const int64_t job_id = Submit(submit);
  BestRow best = MakeBest("program", "m=1", 10);
  best.kernel_id = "in-a-best";
  ASSERT_TRUE(store_->bests()->PromoteBest(best).ok());
  MissRow miss;
  miss.kernel_name = "b";
  miss.program_digest = "program-looked-up";
  miss.problem_key = "m=1";
  miss.class_id = "class";
  miss.asked = 1;
  ASSERT_TRUE(store_->lookups()->WriteMisses({{}, {miss}}).ok());
  EXPECT_EQ(store_->kernels()->DeleteUnusedKernels(kNow).value(), 0);
  // Submitted again, it is young.
  put("unused", "a", kNow + kDay);
  EXPECT_EQ(store_->kernels()->DeleteUnusedKernels(kNow + 1).value(), 0);
  put("unused", "a", kNow);
  EXPECT_EQ(store_->kernels()->DeleteUnusedKernels(kNow + 1).value(), 1);
  EXPECT_TRUE(absl::IsNotFound(store_->kernels()->GetKernel("unused").status()));
  for (const char* id : {"in-a-job", "in-a-best", "young", "looked-up"}) {
    EXPECT_TRUE(store_->kernels()->GetKernel(id).ok()) << id;
  }
  // The row of a deleted one goes with the last job that names it.
  SubmitRequest of_deleted = MakeSubmit("of-deleted");
  of_deleted.kernel.reset();
  of_deleted.job.kernel_id = "deleted";
  const int64_t deleted_job_id = Submit(of_deleted);
  ASSERT_TRUE(Set(deleted_job_id, JobState::kCancelled).ok());
  ASSERT_TRUE(store_->kernels()->DeleteKernel("deleted", std::nullopt, kNow).ok());
  EXPECT_EQ(store_->kernels()->DeleteUnusedKernels(kNow).value(), 0);
  EXPECT_EQ(ReasonOf(store_->kernels()->GetKernel("deleted").status()), "KERNEL_DELETED");
  ASSERT_TRUE(store_->jobs()->DeleteJob(deleted_job_id).ok());
  EXPECT_EQ(store_->kernels()->DeleteUnusedKernels(kNow).value(), 1);
  EXPECT_EQ(ReasonOf(store_->kernels()->GetKernel("deleted").status()), "");
  ASSERT_TRUE(Set(job_id, JobState::kCancelled).ok());
  ASSERT_TRUE(store_->jobs()->DeleteJob(job_id).ok());
  EXPECT_EQ(store_->kernels()->DeleteUnusedKernels(kNow + 1).value(), 1);
  EXPECT_TRUE(absl::IsNotFound(store_->kernels()->GetKernel("in-a-job").status()));
}

TEST_P(StoreConformance, AStepRecordsItsSummaryAndTheDevicesTime) {
  const int64_t job_id = Submit(MakeSubmit("uid"));
  DriveStep step;
  step.study_id = StudyOf(job_id);
  step.device_busy_ms = 12.5;
  step.detail = "new summary";
  ASSERT_TRUE(store_->studies()->Drive(step).ok());
  step.device_busy_ms = 0;  // never shrinks
  step.detail.reset();
  ASSERT_TRUE(store_->studies()->Drive(step).ok());
  const StudyRow study = store_->jobs()->GetJob(job_id)->studies[0];
  EXPECT_EQ(study.device_busy_ms, 12.5);
  EXPECT_EQ(study.detail, "new summary");
}

TEST_P(StoreConformance, CountsWhatWaitsAndWhatWasCommitted) {
  const ClaimRequest claimer = Register("agent");
  const ClaimedUnit unit = Prepare(claimer);
  Propose(unit.unit.study_id, {MakeUnit(4, 4), MakeUnit(8, 4)});
  const int64_t ended = Submit(MakeSubmit("ended"));
  ASSERT_TRUE(Set(ended, JobState::kFailed).ok());
  const QueueCounts counts = store_->maintenance()->CountQueue().value();
  EXPECT_EQ(counts.jobs[static_cast<size_t>(JobState::kRunning)], 1);
  EXPECT_EQ(counts.jobs[static_cast<size_t>(JobState::kFailed)], 1);
  EXPECT_EQ(counts.jobs[static_cast<size_t>(JobState::kQueued)], 0);
  EXPECT_EQ(counts.ready_units, 2);
  EXPECT_EQ(counts.claimed_units, 1);

  const auto committed = [](const CommitStats& stats) {
    int64_t sum = 0;
    for (const int64_t count : stats.by_latency) sum += count;
    return sum;
  };
  const CommitStats before = store_->maintenance()->Commits();
  EXPECT_TRUE(store_->maintenance()->CheckWritable().ok());
  const CommitStats after = store_->maintenance()->Commits();
  EXPECT_EQ(committed(after), committed(before) + 1);
  EXPECT_EQ(after.operations, before.operations + 1);
  EXPECT_GT(after.total_ms, before.total_ms);
  EXPECT_EQ(after.waiting, 0);
  EXPECT_EQ(after.failed, 0);
}

}  // namespace
}  // namespace tunefarm
