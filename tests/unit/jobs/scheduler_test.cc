// What waits for a step of a job that hangs in the store, and for a task that takes long, and what does not.
#include <chrono>
#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/status.h"
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

class TaskTest : public testing::Test {
 protected:
  // A job of 256 configs runs, and its strategy is asked for some of them until the task is released.
  void AskForLong(tunefarm::v1::Job job = {}) {
    name_ = farm_.SubmitJob({2048}, FourParameterKernel(4), std::move(job));
    ASSERT_TRUE(farm_.RunUntil([&] { return farm_.Job(name_).progress().done() >= 1; }));
    farm_.tasks().HoldNext();
    ASSERT_TRUE(farm_.RunUntil([&] { return farm_.tasks().is_holding(); }));
  }
  // Each config was tried once.
  void ExpectAll() {
    std::set<std::string> configs;
    for (const auto& trial : farm_.Trials(name_)) {
      if (trial.purpose() != tunefarm::v1::TRIAL_PURPOSE_SEARCH) continue;
      EXPECT_TRUE(configs.insert(trial.config().SerializeAsString()).second) << trial.ShortDebugString();
    }
    EXPECT_EQ(static_cast<int64_t>(configs.size()), farm_.Job(name_).studies(0).space().valid());
  }

  TemporaryDirectory directory_;
  Farm farm_{directory_.path()};
  std::string name_;
};

TEST_F(TaskTest, AStrategyThatTakesLongHoldsNoOtherJob) {
  AskForLong();
  const std::string other = farm_.SubmitJob({1024});
  EXPECT_TRUE(farm_.Finish(other));
  EXPECT_TRUE(farm_.tasks().is_holding());
  EXPECT_EQ(farm_.Job(name_).state(), tunefarm::v1::JOB_STATE_RUNNING);
  farm_.tasks().Release();
  ASSERT_TRUE(farm_.Finish(name_));
  EXPECT_EQ(farm_.Job(name_).state(), tunefarm::v1::JOB_STATE_SUCCEEDED);
  ExpectAll();
}

TEST_F(TaskTest, WhatIsReportedWhileTheStrategyIsAskedIsTakenAtOnceAndToldLater) {
  AskForLong();
  const int64_t before = farm_.Job(name_).progress().done();
  farm_.RunFor(std::chrono::minutes(1));  // until agents have nothing left
  const int64_t done = farm_.Job(name_).progress().done();
  EXPECT_GT(done, before);
  farm_.RunFor(std::chrono::minutes(1));
  EXPECT_EQ(farm_.Job(name_).progress().done(), done);
  farm_.tasks().Release();
  ASSERT_TRUE(farm_.Finish(name_));
  ExpectAll();
}

TEST_F(TaskTest, APauseIsInEffectWhileTheStrategyIsAskedAndItsAnswerWaits) {
  AskForLong();
  ASSERT_TRUE(farm_.service().Pause(name_).ok());
  farm_.tasks().Release();
  farm_.RunFor(std::chrono::minutes(1));
  EXPECT_EQ(farm_.Job(name_).state(), tunefarm::v1::JOB_STATE_PAUSED);
  const size_t runs = farm_.evaluator().runs().size();
  farm_.RunFor(std::chrono::minutes(1));
  EXPECT_EQ(farm_.evaluator().runs().size(), runs);
  ASSERT_TRUE(farm_.service().Resume(name_).ok());
  ASSERT_TRUE(farm_.Finish(name_));
  ExpectAll();
}

TEST_F(TaskTest, AJobIsCancelledWhileItsStrategyIsAsked) {
  AskForLong();
  ASSERT_TRUE(farm_.service().Cancel(name_).ok());
  ASSERT_TRUE(farm_.Finish(name_));
  EXPECT_TRUE(farm_.tasks().is_holding());
  farm_.tasks().Release();
  farm_.RunFor(std::chrono::minutes(1));
  EXPECT_EQ(farm_.Job(name_).state(), tunefarm::v1::JOB_STATE_CANCELLED);
}

TEST_F(TaskTest, ASearchWhoseTimeIsUpWhileItsStrategyIsAskedProposesNothingMore) {
  tunefarm::v1::Job job;
  job.mutable_budget()->set_max_seconds(30);
  AskForLong(job);
  farm_.RunFor(std::chrono::minutes(1));
  const int64_t done = farm_.Job(name_).progress().done();
  farm_.tasks().Release();
  ASSERT_TRUE(farm_.Finish(name_));
  EXPECT_EQ(farm_.Job(name_).progress().done(), done);
  EXPECT_THAT(farm_.Job(name_).studies(0).search_ended_because(), testing::HasSubstr("the time is up"));
  EXPECT_TRUE(farm_.Job(name_).studies(0).has_best());
}

TEST_F(TaskTest, AJobWhoseSpaceTakesLongHoldsNoOther) {
  farm_.tasks().HoldNext();  // its adoption
  name_ = farm_.SubmitJob({2048});
  const std::string other = farm_.SubmitJob({1024});
  EXPECT_TRUE(farm_.Finish(other));
  EXPECT_EQ(farm_.Job(name_).state(), tunefarm::v1::JOB_STATE_QUEUED);
  farm_.tasks().HoldNext();  // the beginning of its study
  farm_.tasks().Release();
  ASSERT_TRUE(farm_.RunUntil([&] { return farm_.tasks().is_holding(); }));
  const std::string third = farm_.SubmitJob({512});
  EXPECT_TRUE(farm_.Finish(third));
  farm_.tasks().Release();
  ASSERT_TRUE(farm_.Finish(name_));
  ExpectAll();
}

// Eight parameters of 18 floats and a rule on all of them, which few points satisfy: neither counted nor listed in a
// minute, and too rare to be drawn without counting.
tunefarm::v1::Kernel HostileKernel() {
  tunefarm::v1::Kernel kernel = TestKernel(false, "hostile");
  kernel.clear_parameters();
  kernel.clear_constraints();
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h"}) {
    auto* parameter = kernel.add_parameters();
    parameter->set_name(name);
    for (int value = 0; value < 18; ++value) {
      parameter->mutable_values()->add_doubles(std::fmod(7.31 * std::sqrt(value + 2.0), 1.0));
    }
  }
  const std::string sum = "a * b + c * d - e * f + g * h";
  kernel.add_constraints()->set_expression(sum + " > 0.1 and " + sum + " < 0.1002");
  return kernel;
}

TEST_F(TaskTest, ASpaceThatTakesVeryLongIsASlowTaskOfItsJobWhichSaysSo) {
  farm_.tasks().HoldSlow();
  name_ = farm_.SubmitJob({2048}, HostileKernel());
  EXPECT_TRUE(farm_.Job(name_).studies(0).space().approximate());
  ASSERT_TRUE(farm_.RunUntil([&] { return !farm_.tasks().slow_owners().empty(); }));
  EXPECT_EQ(farm_.tasks().slow_owners(), std::vector<std::string>{""}) << "the principal of the local sockets";
  EXPECT_THAT(farm_.Job(name_).state_reason(), testing::HasSubstr("building the space of"));
  const std::string other = farm_.SubmitJob({1024});
  EXPECT_TRUE(farm_.Finish(other));
  EXPECT_EQ(farm_.Job(name_).state(), tunefarm::v1::JOB_STATE_QUEUED);
  farm_.tasks().ReleaseSlow();
  ASSERT_TRUE(farm_.RunUntil([&] { return farm_.Job(name_).progress().done() >= 1; }));
  EXPECT_EQ(farm_.Job(name_).state_reason(), "");
  ASSERT_TRUE(farm_.service().Cancel(name_).ok());
  ASSERT_TRUE(farm_.Finish(name_));
}

TEST_F(TaskTest, AJobIsCancelledWhileItsSpaceIsBuilt) {
  farm_.tasks().HoldSlow();
  name_ = farm_.SubmitJob({2048}, HostileKernel());
  ASSERT_TRUE(farm_.RunUntil([&] { return !farm_.tasks().slow_owners().empty(); }));
  ASSERT_TRUE(farm_.service().Cancel(name_).ok());
  ASSERT_TRUE(farm_.Finish(name_));
  EXPECT_FALSE(farm_.tasks().slow_owners().empty());
  farm_.tasks().ReleaseSlow();
  farm_.RunFor(std::chrono::minutes(1));
  EXPECT_EQ(farm_.Job(name_).state(), tunefarm::v1::JOB_STATE_CANCELLED);
}

TEST_F(TaskTest, ASubmissionThatNobodyWaitsForEnds) {
  tunefarm::v1::CreateJobRequest request;
  *request.mutable_job()->add_problems() = TestProblem(2048);
  *request.mutable_kernel_definition() = HostileKernel();
  int asked = 0;
  const auto refused =
      farm_.service().tuning_api().CreateJob(AdminSocket(), request, {.is_cancelled = [&] { return ++asked > 10; }});
  EXPECT_TRUE(absl::IsCancelled(refused.status())) << refused.status();
  const auto late =
      farm_.service().tuning_api().CreateJob(AdminSocket(), request, {.processor_time = Duration::zero()});
  EXPECT_EQ(ReasonOf(late.status()), "WORK_LIMIT") << late.status();
  EXPECT_THAT(std::string(MessageOf(late.status())), testing::HasSubstr("kernel 'hostile'"));
  EXPECT_EQ(farm_.service().tuning_api().ListJobs({})->jobs_size(), 0);
}

// The database fails a step, so that the study is made again; what is reported meanwhile goes to the one that is
// replaced, and must not be lost.
TEST_F(TaskTest, WhatIsReportedWhileAStudyIsMadeAgainIsReadFromTheStore) {
  farm_.evaluator().set_scripter([](const FakeEvaluator::Question&) {
    FakeEvaluator::Script script;
    script.run_time = std::chrono::seconds(1);
    return script;
  });
  name_ = farm_.SubmitJob({2048}, FourParameterKernel(4));
  ASSERT_TRUE(farm_.RunUntil([&] { return farm_.Job(name_).progress().done() >= 1; }));
  int failures = 1, reads = 0;
  farm_.hooked_store->set_faults([&](std::string_view call) {
    if (call == "Drive" && failures > 0) {
      --failures;
      return StoreFault::kBefore;
    }
    // Between the read of the history and that of its end.
    if (call == "LoadHistory" && ++reads == 2) {
      for (int i = 0; i < 10'000 && farm_.StepOthers(); ++i) continue;
    }
    return StoreFault::kNone;
  });
  ASSERT_TRUE(farm_.Finish(name_));
  EXPECT_EQ(failures, 0);
  EXPECT_GE(reads, 2);
  EXPECT_EQ(farm_.Job(name_).state(), tunefarm::v1::JOB_STATE_SUCCEEDED);
  ExpectAll();
}

}  // namespace
}  // namespace tunefarm
