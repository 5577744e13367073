// Stored jobs as they are shown while some of their trials are damaged in the database.
#include "server/jobs/job_view.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/unit/jobs/farm.h"

namespace tunefarm {
namespace {

class JobViewTest : public testing::Test {
 protected:
  JobViewTest() {
    farm_.evaluator().set_scripter(Bowl);
    farm_.hooked_store->listed_trial = [this](TrialRow* row) {
      if (damaged_.contains(row->ordinal)) row->detail = "\xff";
    };
  }
  // The study of a job with one, without what its last step stored: the incumbent, the baseline and the time of the
  // default config are looked up among the trials.
  v1::Study StoredStudy() {
    JobRow row = *farm_.store().jobs()->GetJob(1);
    v1::Study detail;
    EXPECT_TRUE(detail.ParseFromString(row.studies.at(0).detail));
    EXPECT_TRUE(detail.has_incumbent());
    detail.clear_incumbent();
    detail.clear_baseline();
    detail.clear_default_ns();
    row.studies[0].detail = detail.SerializeAsString();
    const auto job = StoredJob(farm_.hooked_store.get(), &kernels_, row);
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? job->studies(0) : v1::Study();
  }
  // The OK trials of a purpose, the fastest first.
  std::vector<v1::Trial> Fastest(const std::string& job, v1::TrialPurpose purpose) {
    std::vector<v1::Trial> trials = farm_.Trials(job);
    std::erase_if(trials, [&](const v1::Trial& trial) {
      return trial.purpose() != purpose || trial.outcome() != v1::OUTCOME_OK;
    });
    std::stable_sort(trials.begin(), trials.end(), [](const v1::Trial& a, const v1::Trial& b) {
      return a.measurement().median_ns() < b.measurement().median_ns();
    });
    return trials;
  }
  void Damage(const v1::Trial& trial) { damaged_.insert(trial.ordinal()); }

  TemporaryDirectory directory_;
  Farm farm_{directory_.path()};
  KernelRegistry kernels_{farm_.hooked_store.get()};
  std::set<int64_t> damaged_;
};

TEST_F(JobViewTest, TheFastestTrialIsTheFastestThatCanBeRead) {
  const std::string job = farm_.SubmitJob({1024}, TestKernel(true));
  ASSERT_TRUE(farm_.Finish(job));
  const std::vector<v1::Trial> finalists = Fastest(job, v1::TRIAL_PURPOSE_FINALIST);
  const std::vector<v1::Trial> searched = Fastest(job, v1::TRIAL_PURPOSE_SEARCH);
  const std::vector<v1::Trial> baselines = Fastest(job, v1::TRIAL_PURPOSE_BASELINE);
  ASSERT_GE(finalists.size(), 2u);
  ASSERT_GE(searched.size(), 2u);
  ASSERT_GE(baselines.size(), 1u);
  EXPECT_EQ(StoredStudy().incumbent().ordinal(), finalists[0].ordinal());
  EXPECT_EQ(StoredStudy().baseline().ordinal(), baselines[0].ordinal());

  Damage(finalists[0]);
  EXPECT_EQ(StoredStudy().incumbent().ordinal(), finalists[1].ordinal());
  EXPECT_EQ(StoredStudy().incumbent().name(), finalists[1].name());
  for (const v1::Trial& trial : finalists) Damage(trial);
  EXPECT_EQ(StoredStudy().incumbent().ordinal(), searched[0].ordinal());
  Damage(searched[0]);
  EXPECT_EQ(StoredStudy().incumbent().ordinal(), searched[1].ordinal());
  for (const v1::Trial& trial : baselines) Damage(trial);
  EXPECT_FALSE(StoredStudy().has_baseline());
  for (const v1::Trial& trial : searched) Damage(trial);
  EXPECT_FALSE(StoredStudy().has_incumbent());
  const auto shown = farm_.service().GetJob(job);
  ASSERT_TRUE(shown.ok()) << shown.status();
  EXPECT_TRUE(shown->studies(0).has_incumbent()) << "its last step stored it";
}

TEST_F(JobViewTest, ADamagedDefaultConfigOfAFinalIsLeftOut) {
  const std::string job = farm_.SubmitJob({1024});
  ASSERT_TRUE(farm_.Finish(job));
  const v1::Trial by_default = StoredStudy().baseline();
  EXPECT_EQ(by_default.purpose(), v1::TRIAL_PURPOSE_FINALIST);
  Damage(by_default);
  const v1::Study study = StoredStudy();
  EXPECT_FALSE(study.has_baseline());
  EXPECT_EQ(study.default_ns(), 1310) << "that of the search";
}

}  // namespace
}  // namespace tunefarm
