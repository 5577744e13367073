// What waits for a step of a job that hangs in the store, and what does not.
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "server/base/thread.h"
#include "server/store/job_store.h"
#include "tests/unit/jobs/farm.h"

namespace tunefarm {
namespace {

class SchedulerTest : public testing::Test {
 protected:
  // `name_` runs, while the end of another job hangs in the store, until Release: on a thread that has the turn.
  void HangAStep() {
    farm_.evaluator().set_scripter([](const FakeEvaluator::Question& question) {
      FakeEvaluator::Script script;
      if (question.problem.find("2048") != std::string::npos) script.run_time = std::chrono::seconds(1);
      return script;
    });
    name_ = farm_.SubmitJob({2048});
    EXPECT_TRUE(farm_.RunUntil([&] { return farm_.Job(name_).progress().done() >= 2; }));
    tunefarm::v1::Job urgent;
    urgent.set_priority(5);
    farm_.SubmitJob({1024}, TestKernel(), urgent);
    farm_.hooked_store->after_state = [this](JobState to) {
      if (to != JobState::kSucceeded || std::exchange(has_hung_, true)) return;
      hangs_.Notify();
      released_.WaitForNotification();
    };
    stepper_ = std::make_unique<Thread>("stepper", [this] { farm_.RunUntil([this] { return has_hung_; }); });
    hangs_.WaitForNotification();
  }
  void Release() {
    released_.Notify();
    stepper_->Join();
  }

  TemporaryDirectory directory_;
  Farm farm_{directory_.path()};
  std::string name_;
  bool has_hung_ = false;
  Notification hangs_, released_;
  std::unique_ptr<Thread> stepper_;
};

TEST_F(SchedulerTest, ReadsDoNotWaitForAStep) {
  HangAStep();
  const tunefarm::v1::Job job = farm_.Job(name_);
  EXPECT_EQ(job.state(), tunefarm::v1::JOB_STATE_RUNNING);
  EXPECT_EQ(job.studies_size(), 1);
  EXPECT_GE(job.progress().done(), 2);
  tunefarm::v1::ListJobsRequest running;
  running.add_states(tunefarm::v1::JOB_STATE_RUNNING);
  const auto jobs = farm_.service().tuning_api().ListJobs(running);
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  ASSERT_EQ(jobs->jobs_size(), 1);
  EXPECT_EQ(jobs->jobs(0).progress().done(), job.progress().done());
  EXPECT_EQ(jobs->jobs(0).studies_size(), 0);
  Release();
  EXPECT_TRUE(farm_.Finish(name_));
}

TEST_F(SchedulerTest, AnOrderIsStoredAndShownDuringAStepAndInEffectAfterIt) {
  HangAStep();
  const auto paused = farm_.service().Pause(name_);
  ASSERT_TRUE(paused.ok()) << paused.status();
  EXPECT_EQ(paused->state(), tunefarm::v1::JOB_STATE_PAUSED);
  EXPECT_EQ(farm_.store().jobs()->GetJob(1)->state, JobState::kPaused);
  Release();
  farm_.RunFor(std::chrono::seconds(5));
  const size_t runs = farm_.evaluator().runs().size();
  farm_.RunFor(std::chrono::minutes(1));
  EXPECT_EQ(farm_.evaluator().runs().size(), runs);
  EXPECT_EQ(farm_.Job(name_).state(), tunefarm::v1::JOB_STATE_PAUSED);
  ASSERT_TRUE(farm_.service().Resume(name_).ok());
  EXPECT_TRUE(farm_.Finish(name_));
}

TEST_F(SchedulerTest, OfTwoOrdersDuringAStepTheLastHolds) {
  HangAStep();
  ASSERT_TRUE(farm_.service().Pause(name_).ok());
  const auto cancelled = farm_.service().Cancel(name_);
  ASSERT_TRUE(cancelled.ok()) << cancelled.status();
  EXPECT_EQ(cancelled->state(), tunefarm::v1::JOB_STATE_CANCELLING);
  EXPECT_FALSE(farm_.service().Resume(name_).ok());
  Release();
  ASSERT_TRUE(farm_.Finish(name_));
  EXPECT_EQ(farm_.Job(name_).state(), tunefarm::v1::JOB_STATE_CANCELLED);
}

}  // namespace
}  // namespace tunefarm
