// What lists show of a job.
#include "server/jobs/job_summary.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/jobs/farm.h"

namespace tunefarm {
namespace {

using tunefarm::v1::JobSummary;

tunefarm::v1::Study StudyWith(double default_ns, double baseline_ns, double best_ns, double floor_ns) {
  tunefarm::v1::Study study;
  study.set_default_ns(default_ns);
  study.set_floor_ns(floor_ns);
  study.mutable_baseline()->mutable_measurement()->set_median_ns(baseline_ns);
  study.mutable_incumbent()->mutable_measurement()->set_median_ns(best_ns);
  return study;
}

void Count(tunefarm::v1::Outcome outcome, int64_t count, tunefarm::v1::Progress* progress) {
  auto* slot = progress->add_outcomes();
  slot->set_outcome(outcome);
  slot->set_count(count);
}

TEST(SummaryOfStudiesTest, MeansAreGeometricAndOfWhatIsKnown) {
  SummaryOfStudies studies;
  studies.Add(StudyWith(800, 5000, 100, 50));  // 8 times the default, whatever the baseline
  studies.Add(StudyWith(0, 200, 100, 0));      // 2 times the baseline, and no floor
  studies.Add(StudyWith(0, 0, 100, 12.5));     // nothing to compare with
  studies.Add(StudyWith(700, 700, 0, 50));     // no best
  const JobSummary summary = studies.Get({});
  EXPECT_NEAR(summary.gain(), 4, 1e-9);
  EXPECT_NEAR(summary.floor_share(), 0.25, 1e-9);
  EXPECT_EQ(summary.failed_share(), 0);
}

TEST(SummaryOfStudiesTest, HasEachClassOnce) {
  SummaryOfStudies studies;
  for (const char* const id : {"b", "a", "b", "", "c"}) {
    tunefarm::v1::Study study;
    study.set_device_class_id(id);
    studies.Add(study);
  }
  const JobSummary some = studies.Get({});
  EXPECT_THAT(some.device_class_ids(), testing::ElementsAre("b", "a", "c"));
  for (int i = 0; i < 20; ++i) {
    tunefarm::v1::Study study;
    study.set_device_class_id(std::to_string(i));
    studies.Add(study);
  }
  EXPECT_EQ(studies.Get({}).device_class_ids_size(), 16);
}

TEST(SummaryOfStudiesTest, OfNothingItIsZero) {
  const JobSummary summary = SummaryOfStudies().Get({});
  EXPECT_EQ(summary.gain(), 0);
  EXPECT_EQ(summary.floor_share(), 0);
  EXPECT_EQ(summary.failed_share(), 0);
}

TEST(SummaryOfStudiesTest, WhatIsLostHasNotFailed) {
  tunefarm::v1::Progress progress;
  Count(tunefarm::v1::OUTCOME_OK, 6, &progress);
  Count(tunefarm::v1::OUTCOME_WRONG_RESULT, 1, &progress);
  Count(tunefarm::v1::OUTCOME_COMPILE_ERROR, 1, &progress);
  Count(tunefarm::v1::OUTCOME_LOST, 100, &progress);
  EXPECT_EQ(SummaryOfStudies().Get(progress).failed_share(), 0.25);
}

class JobSummaryTest : public testing::Test {
 protected:
  JobSummaryTest() {
    farm_.scripter = [this](const FakeEvaluator::Question& question) {
      FakeEvaluator::Script script = Bowl(question);
      if (question.config == "A=8,B=1") script.run = tunefarm::v1::OUTCOME_WRONG_RESULT;
      if (question.is_run) script.run_time = run_time_;
      return script;
    };
    farm_.evaluator().set_scripter(farm_.scripter);
    kernel_.set_bytes("N * 4");  // at 8.192 GB/s, HostDevice's, 500 ns for N=1024
  }
  tunefarm::v1::Job Listed() {
    const auto jobs = farm_.service().tuning_api().ListJobs({});
    EXPECT_TRUE(jobs.ok()) << jobs.status();
    return jobs.ok() && jobs->jobs_size() == 1 ? jobs->jobs(0) : tunefarm::v1::Job();
  }
  void ExpectListedAsShown(const std::string& name) {
    EXPECT_EQ(Listed().summary().SerializeAsString(), farm_.Job(name).summary().SerializeAsString());
  }

  TemporaryDirectory directory_;
  Duration run_time_ = std::chrono::milliseconds(10);
  tunefarm::v1::Kernel kernel_ = TestKernel(true);
  Farm farm_{directory_.path()};
};

TEST_F(JobSummaryTest, IsKnownWhileTheJobRunsAndReadWithoutItsTrialsAfterwards) {
  const std::string name = farm_.SubmitJob({1024, 2048}, kernel_);
  EXPECT_EQ(Listed().summary().gain(), 0);
  ASSERT_TRUE(farm_.RunUntil([&] { return farm_.Job(name).progress().done() >= 6; }));
  EXPECT_GE(Listed().summary().gain(), 1);
  ExpectListedAsShown(name);
  ASSERT_TRUE(farm_.Finish(name));
  ASSERT_EQ(farm_.Job(name).state(), tunefarm::v1::JOB_STATE_SUCCEEDED);

  farm_.Crash();
  farm_.Boot();
  for (const char* const call : {"CountOutcomes", "ListTrials", "GetTrial"}) {
    farm_.hooked_store->instead_of(call) = [] { return absl::DataLossError("trials are not to be read"); };
  }
  const tunefarm::v1::Job job = Listed();
  EXPECT_NEAR(job.summary().gain(), 1.31, 1e-9);  // the default config takes 1310 ns, and the best 1000 ns
  EXPECT_NEAR(job.summary().floor_share(), std::sqrt(0.5 * 1.0), 1e-9);
  EXPECT_NEAR(job.summary().failed_share(), 1.0 / 11, 1e-9);
  EXPECT_EQ(job.progress().done(), 22);
  EXPECT_EQ(job.progress().total(), 22);
  EXPECT_EQ(job.studies_size(), 0);
  for (const char* const call : {"CountOutcomes", "ListTrials", "GetTrial"}) {
    farm_.hooked_store->instead_of(call) = nullptr;
  }
  ExpectListedAsShown(name);
  const tunefarm::v1::Job shown = farm_.Job(name);
  for (const auto& study : shown.studies()) {
    EXPECT_EQ(study.default_ns(), 1310);
    EXPECT_EQ(study.progress().done(), 11);
    EXPECT_EQ(study.baseline().measurement().median_ns(), 5000);
  }
}

TEST_F(JobSummaryTest, OfACancelledJobIsLookedUp) {
  run_time_ = std::chrono::seconds(1);
  const std::string name = farm_.SubmitJob({1024}, kernel_);
  ASSERT_TRUE(farm_.RunUntil([&] { return farm_.Job(name).progress().done() >= 5; }));
  ASSERT_TRUE(farm_.service().Cancel(name).ok());
  ASSERT_TRUE(farm_.Finish(name));
  ASSERT_EQ(farm_.Job(name).state(), tunefarm::v1::JOB_STATE_CANCELLED);
  double best_ns = 1e9;
  for (const auto& trial : farm_.Trials(name)) {
    EXPECT_NE(trial.purpose(), tunefarm::v1::TRIAL_PURPOSE_FINALIST);
    if (trial.purpose() != tunefarm::v1::TRIAL_PURPOSE_SEARCH || trial.outcome() != tunefarm::v1::OUTCOME_OK) continue;
    best_ns = std::min(best_ns, trial.measurement().median_ns());
  }
  EXPECT_NEAR(Listed().summary().gain(), 1310 / best_ns, 1e-9);
  EXPECT_NEAR(Listed().summary().floor_share(), 500 / best_ns, 1e-9);
  ExpectListedAsShown(name);
}

TEST_F(JobSummaryTest, AStudyThatIsReadAgainShowsTheWinnerOfItsFinal) {
  // In the final everything takes 100 ns longer than in the search.
  farm_.evaluator().set_scripter([](const FakeEvaluator::Question& question) {
    FakeEvaluator::Script script = Bowl(question);
    if (question.attempt >= 1) script.median_ns += 100;
    return script;
  });
  const std::string name = farm_.SubmitJob({1024, 2048});
  const auto has_ended = [&](int study) {
    return farm_.Job(name).studies(study).state() == tunefarm::v1::STUDY_STATE_ENDED;
  };
  ASSERT_TRUE(farm_.RunUntil([&] { return has_ended(0) || has_ended(1); }));
  const int study = has_ended(0) ? 0 : 1;
  ASSERT_FALSE(has_ended(1 - study));
  farm_.Crash();
  farm_.Boot();
  ASSERT_TRUE(farm_.RunUntil([&] { return farm_.service().scheduler().Find(1).has_value(); }));
  const tunefarm::v1::Study read = farm_.service().scheduler().Find(1)->studies(study);
  EXPECT_EQ(read.incumbent().purpose(), tunefarm::v1::TRIAL_PURPOSE_FINALIST);
  EXPECT_EQ(read.incumbent().measurement().median_ns(), 1100);
  EXPECT_EQ(read.baseline().measurement().median_ns(), 1410);
  EXPECT_EQ(read.default_ns(), 1410);
}

TEST_F(JobSummaryTest, OfAJobWhoseTrialsAllFailedSaysSo) {
  farm_.evaluator().set_scripter([](const FakeEvaluator::Question& question) {
    FakeEvaluator::Script script = Bowl(question);
    if (question.config != "baseline") script.run = tunefarm::v1::OUTCOME_WRONG_RESULT;
    return script;
  });
  const std::string name = farm_.SubmitJob({1024}, kernel_);
  ASSERT_TRUE(farm_.Finish(name));
  EXPECT_EQ(Listed().summary().failed_share(), 1);
  EXPECT_EQ(Listed().summary().gain(), 0);
  ExpectListedAsShown(name);
}

}  // namespace
}  // namespace tunefarm
