// Two callers that meet at the worst moment.
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "server/base/status.h"
#include "server/store/unit_store.h"
#include "tests/unit/jobs/farm.h"

namespace tunefarm {
namespace {

class RaceTest : public testing::Test {
 protected:
  TemporaryDirectory directory_;
};

FakeEvaluator::Script SlowRuns(const FakeEvaluator::Question& question) {
  FakeEvaluator::Script script;
  if (question.is_run) script.run_time = std::chrono::seconds(1);
  return script;
}

tunefarm::v1::Job FourSeconds() {
  tunefarm::v1::Job job;
  job.mutable_budget()->set_max_seconds(4);
  return job;
}

TEST_F(RaceTest, ACancelBetweenTheClaimAndItsDeliveryLeavesNothingToRun) {
  Farm farm(directory_.path());
  const std::string name = farm.SubmitJob({1024});
  bool met = false;
  farm.hooked_store->after_claim = [&] {
    if (std::exchange(met, true)) return;
    const auto job = farm.service().Cancel(name);
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(job->state(), tunefarm::v1::JOB_STATE_CANCELLING) << "the claim may still bring units";
  };
  ASSERT_TRUE(farm.RunUntil([&] { return farm.Ended(name); }, std::chrono::seconds(30)));
  ASSERT_TRUE(met);
  farm.RunFor(std::chrono::minutes(1));
  EXPECT_EQ(farm.Job(name).state(), tunefarm::v1::JOB_STATE_CANCELLED);
  EXPECT_TRUE(farm.evaluator().compiles().empty());
}

TEST_F(RaceTest, OfTwoThatEndADroppedUnitOneTells) {
  Farm farm(directory_.path());
  farm.evaluator().set_scripter(SlowRuns);
  const std::string other = farm.SubmitJob({2048});
  ASSERT_TRUE(farm.service().Pause(other).ok());
  const std::string name = farm.SubmitJob({1024}, TestKernel(), FourSeconds());
  bool met = false;
  farm.hooked_store->after_report = [&](const ReportRequest& report) {
    // A unit of the search was dropped when the time was up. Before that is taken note of, a cancel of something else
    // ends all that is dropped.
    if (!report.trials.empty() || !report.unit_done || std::exchange(met, true)) return;
    EXPECT_TRUE(farm.service().Cancel(other).ok());
  };
  ASSERT_TRUE(farm.Finish(name));
  EXPECT_TRUE(met);
  EXPECT_EQ(farm.Job(name).state(), tunefarm::v1::JOB_STATE_SUCCEEDED);
}

TEST_F(RaceTest, APauseBetweenTheClaimAndTheStartLosesNeitherStartNorTimeBudget) {
  Farm farm(directory_.path());
  farm.evaluator().set_scripter(SlowRuns);
  const std::string name = farm.SubmitJob({1024}, TestKernel(), FourSeconds());
  bool met = false;
  farm.hooked_store->after_claim = [&] {
    if (std::exchange(met, true)) return;
    EXPECT_TRUE(farm.service().Pause(name).ok());
  };
  ASSERT_TRUE(farm.RunUntil([&] { return farm.Job(name).state() == tunefarm::v1::JOB_STATE_PAUSED; }));
  farm.RunFor(std::chrono::seconds(1));
  EXPECT_GT(farm.Job(name).started_at_ms(), 0);
  ASSERT_TRUE(farm.service().Resume(name).ok());
  ASSERT_TRUE(farm.Finish(name));
  EXPECT_LT(farm.Job(name).studies(0).progress().done(), 6);
  EXPECT_TRUE(farm.Job(name).studies(0).has_best());
}

TEST_F(RaceTest, AWatchThatBeginsWhileTheJobEndsTakesNothingFromOthers) {
  Farm farm(directory_.path());
  const std::string name = farm.SubmitJob({1024});
  std::optional<absl::Status> first_end, second_end;
  tunefarm::v1::JobEvent last;
  const auto first = farm.service().Watch(
      name, 0, [&](const tunefarm::v1::JobEvent& event) { last = event; },
      [&](absl::Status status) { first_end = status; });
  ASSERT_TRUE(first.ok());
  absl::StatusOr<std::unique_ptr<WatchSubscription>> second = Unavailable("not yet");
  farm.hooked_store->after_state = [&](JobState to) {
    if (to != JobState::kSucceeded) return;
    second = farm.service().Watch(
        name, 0, [](const auto&) {}, [&](absl::Status status) { second_end = status; });
  };
  ASSERT_TRUE(farm.RunUntil([&] { return first_end.has_value() && second_end.has_value(); }));
  EXPECT_TRUE(first_end->ok());
  EXPECT_EQ(last.job().state(), tunefarm::v1::JOB_STATE_SUCCEEDED);
}

TEST_F(RaceTest, QueuedUnitsOfASearchWhoseTimeIsUpDoNotKeepTheDeviceWaiting) {
  Farm farm(directory_.path());
  farm.evaluator().set_scripter(SlowRuns);
  const MonotonicTime began = farm.clock.Now();
  // 33 configs in units of one, most of which are queued when the time is up.
  const std::string name = farm.SubmitJob({1024, 2048, 4096}, TestKernel(), FourSeconds());
  const auto searching = [&] {
    int count = 0;
    const auto job = farm.Job(name);
    for (const auto& study : job.studies()) count += study.state() == tunefarm::v1::STUDY_STATE_SEARCHING;
    return count;
  };
  ASSERT_TRUE(farm.RunUntil([&] { return farm.clock.Now() - began >= std::chrono::seconds(4); }));
  ASSERT_EQ(searching(), 3);
  ASSERT_TRUE(farm.RunUntil([&] { return searching() == 0; }));
  EXPECT_LT(farm.clock.Now() - began, std::chrono::seconds(6));
}

TEST_F(RaceTest, AnAcceptedJobSurvivesADatabaseThatIsAwayForAMoment) {
  Farm farm(directory_.path());
  int errors = 0;
  farm.hooked_store->instead_of("ListDeviceClasses") = [&] {
    return ++errors <= 3 ? Unavailable("busy") : absl::OkStatus();
  };
  const std::string name = farm.SubmitJob({1024});
  ASSERT_TRUE(farm.Finish(name));
  EXPECT_GT(errors, 3);
  EXPECT_EQ(farm.Job(name).state(), tunefarm::v1::JOB_STATE_SUCCEEDED);
}

TEST_F(RaceTest, ACancelledJobIsNoFailureWhenItsNextStudyCannotBegin) {
  Farm farm(directory_.path());
  FakeEvaluator::Script slow;
  slow.run_time = std::chrono::seconds(5);
  farm.evaluator().set_scripter([slow](const FakeEvaluator::Question&) { return slow; });
  tunefarm::v1::Job job;
  job.mutable_strategy()->set_strategy_name("default");
  const std::string name = farm.SubmitJob({1024, 2048}, TestKernel(), job);
  ASSERT_TRUE(farm.RunUntil([&] { return farm.Job(name).progress().done() >= 1; }));
  int begun = 0;
  farm.hooked_store->instead_of("StudiesOfProgram") = [&]() -> absl::Status {
    if (++begun > 1) return absl::OkStatus();
    // Its trials of the first study are in hand.
    EXPECT_TRUE(farm.service().Cancel(name).ok());
    EXPECT_EQ(farm.Job(name).state(), tunefarm::v1::JOB_STATE_CANCELLING);
    return absl::InternalError("it cannot be read");
  };
  ASSERT_TRUE(farm.Finish(name));
  EXPECT_EQ(begun, 1);
  EXPECT_EQ(farm.Job(name).state(), tunefarm::v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(farm.Job(name).error(), "");
}

TEST_F(RaceTest, ACancelWhileAJobIsTakenUpEndsIt) {
  Farm farm(directory_.path());
  const std::string name = farm.SubmitJob({1024});
  bool met = false;
  farm.hooked_store->instead_of("ListDeviceClasses") = [&] {
    if (std::exchange(met, true)) return absl::OkStatus();
    EXPECT_TRUE(farm.service().Cancel(name).ok());
    return absl::OkStatus();
  };
  farm.RunFor(std::chrono::seconds(30));
  EXPECT_TRUE(met);
  EXPECT_EQ(farm.Job(name).state(), tunefarm::v1::JOB_STATE_CANCELLED);
  EXPECT_TRUE(farm.evaluator().compiles().empty());
}

}  // namespace
}  // namespace tunefarm
