// The agent's way to control daemons: questions and answers, daemons that are away, the spool.
#include "tests/unit/agent/remote_link_farm.h"

namespace tunefarm {
namespace {

namespace wire = tunefarm::agent::v1;
using std::chrono::seconds;

TEST_F(RemoteLinkTest, AnswersComeWithTheNextSynchronize) {
  Register();
  wire::Assignment assignment;
  assignment.set_unit_id(1);
  assignment.set_kernel_id("kernels/k");
  farm_.ready.push_back(assignment);
  auto first = link_->Synchronize(Demand(2));
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->assignments_size(), 0);  // at once
  Run();
  EXPECT_EQ(wakes_, 1);
  EXPECT_EQ(farm_.fetches, 1);
  auto second = link_->Synchronize(Demand(2));
  ASSERT_EQ(second->assignments_size(), 1);
  Run();
  // The request that took the answer did not list it, and was not sent.
  EXPECT_EQ(farm_.asked.size(), 1);
  // The kernel is there without another question.
  wire::FetchKernelRequest fetch;
  fetch.set_kernel_id("kernels/k");
  EXPECT_EQ(link_->FetchKernel(fetch)->kernel(), "kernel kernels/k");
  EXPECT_EQ(farm_.fetches, 1);
}

TEST_F(RemoteLinkTest, AnEmptyAnswerWakesNobodyAndTheLatestQuestionIsAsked) {
  Register();
  link_->Synchronize(Demand(1)).status().IgnoreError();
  link_->Synchronize(Demand(2)).status().IgnoreError();
  link_->Synchronize(Demand(3)).status().IgnoreError();
  Run();
  EXPECT_EQ(wakes_, 0);
  ASSERT_EQ(farm_.asked.size(), 1);  // the one that was not sent yet was replaced
  EXPECT_EQ(farm_.asked[0].demands(0).units(), 3);
}

TEST_F(RemoteLinkTest, UnitsWhoseReportsAreOnTheirWayAreInHand) {
  Register();
  Report(5, 1, true);
  link_->Synchronize(request_).status().IgnoreError();
  calls_.RunUntilIdle();
  ASSERT_EQ(farm_.asked.size(), 1);
  ASSERT_EQ(farm_.asked[0].units_size(), 1);
  EXPECT_EQ(farm_.asked[0].units(0).unit_id(), 5);
  EXPECT_EQ(farm_.asked[0].units(0).token(), 7);
  EXPECT_EQ(farm_.asked[0].units(0).device_uuid(), "GPU-1");
  Run();
  link_->Synchronize(Demand(1)).status().IgnoreError();
  Run();
  ASSERT_EQ(farm_.asked.size(), 2);
  EXPECT_EQ(farm_.asked[1].units_size(), 0);
}

TEST_F(RemoteLinkTest, WhatSaysNothingNewIsSaidAsOftenAsTheLeaseNeedsIt) {
  Register();
  wire::SynchronizeRequest busy = request_;
  busy.add_units()->set_unit_id(1);
  for (int i = 0; i < 10; ++i) {
    link_->Synchronize(busy).status().IgnoreError();
    RunFor(std::chrono::milliseconds(1000));
  }
  EXPECT_EQ(farm_.asked.size(), 2);
  busy.add_units()->set_unit_id(2);
  link_->Synchronize(busy).status().IgnoreError();
  Run();
  EXPECT_EQ(farm_.asked.size(), 3);
}

TEST_F(RemoteLinkTest, ClaimWorkDoesNotBlock) {
  Register();
  EXPECT_FALSE(link_->shares_work()) << "control has not said so";
  farm_.shares_work = true;
  link_->Synchronize(Demand(1)).status().IgnoreError();
  Run();
  EXPECT_TRUE(link_->shares_work());
  wire::ClaimWorkRequest claims;
  claims.add_claims()->set_ordinal(1);
  std::vector<absl::StatusOr<wire::ClaimWorkResponse>> answers;
  const auto take = [&](absl::StatusOr<wire::ClaimWorkResponse> answer) { answers.push_back(std::move(answer)); };
  link_->ClaimWork(claims, take);
  EXPECT_TRUE(answers.empty());
  Run();
  ASSERT_EQ(answers.size(), 1u);
  ASSERT_TRUE(answers[0].ok()) << answers[0].status();
  EXPECT_TRUE(answers[0]->answers(0).is_elsewhere());
  // A daemon that does not answer may be restarted, or another one may have taken its place.
  farm_.away[controls_->address()] = true;
  link_->ClaimWork(claims, take);
  Run();
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_FALSE(answers[1].ok());
  EXPECT_TRUE(link_->shares_work());
  link_->Synchronize(Demand(1)).status().IgnoreError();
  RunFor(seconds(2));
  EXPECT_TRUE(link_->shares_work());
  // The agent is gone.
  link_->ClaimWork(claims, take);
  link_->SetWake(nullptr);
  Run();
  EXPECT_EQ(answers.size(), 2u);
}

TEST_F(RemoteLinkTest, AClaimOfWorksThatControlCannotStoreKeepsItsControl) {
  Register();
  const std::string first = controls_->address();
  std::vector<absl::Status> answers;
  const auto take = [&](const absl::StatusOr<wire::ClaimWorkResponse>& answer) { answers.push_back(answer.status()); };
  for (const absl::Status& status : {absl::UnavailableError("locked"), absl::DeadlineExceededError("the store hangs"),
                                     absl::UnimplementedError("of an earlier version")}) {
    farm_.claim_status = status;
    link_->ClaimWork(wire::ClaimWorkRequest(), take);
    Run();
    EXPECT_EQ(answers.back(), status);
    EXPECT_EQ(controls_->address(), first);
  }
  EXPECT_EQ(controls_->WaitBeforeNext(), Duration::zero());
  EXPECT_EQ(farm_.claim_deadline, kAgentClaimPatience);
}

TEST_F(RemoteLinkTest, OneClaimOfWorksIsInFlight) {
  Register();
  std::vector<absl::Status> answers;
  const auto take = [&](const absl::StatusOr<wire::ClaimWorkResponse>& answer) { answers.push_back(answer.status()); };
  link_->ClaimWork(wire::ClaimWorkRequest(), take);
  link_->ClaimWork(wire::ClaimWorkRequest(), take);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_TRUE(absl::IsUnavailable(answers[0])) << answers[0];
  Run();
  link_->ClaimWork(wire::ClaimWorkRequest(), take);
  Run();
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_TRUE(answers[1].ok()) << answers[1];
  EXPECT_TRUE(answers[2].ok()) << answers[2];
}

TEST_F(RemoteLinkTest, WorksAreClaimedForALittleWhileControlIsAway) {
  Register();
  farm_.shares_work = true;
  link_->Synchronize(Demand(1)).status().IgnoreError();
  Run();
  EXPECT_TRUE(link_->shares_work());
  farm_.away = {{"a:1", true}, {"b:1", true}};
  link_->Synchronize(Demand(1)).status().IgnoreError();
  RunFor(seconds(1));
  EXPECT_TRUE(link_->shares_work());
  RunFor(kAgentClaimPatience);
  EXPECT_FALSE(link_->shares_work());
  farm_.away.clear();
  link_->Synchronize(Demand(1)).status().IgnoreError();
  RunFor(seconds(60));
  EXPECT_TRUE(link_->shares_work());
}

TEST_F(RemoteLinkTest, GoesToTheNextControlWhenOneIsAway) {
  Register();
  const std::string first = controls_->address();
  const std::string second = first == "a:1" ? "b:1" : "a:1";
  farm_.away[first] = true;
  link_->Synchronize(Demand(1)).status().IgnoreError();
  Report(1, 1);
  RunFor(seconds(1));
  EXPECT_EQ(controls_->address(), second);
  EXPECT_EQ(Ordinals(), std::vector<int64_t>{1});
  ASSERT_FALSE(farm_.asked.empty());
  // The other is told who answered before, and so reads from the store what the agent holds.
  EXPECT_EQ(farm_.asked[0].control(), "control of " + first);
  link_->Synchronize(Demand(1)).status().IgnoreError();
  Run();
  EXPECT_EQ(farm_.asked.back().control(), "control of " + second);
  EXPECT_EQ(farm_.registered.size(), 1);  // with the same identity
}

TEST_F(RemoteLinkTest, WhenAllAreAwayTheyAreAskedSeldom) {
  Register();
  farm_.away = {{"a:1", true}, {"b:1", true}};
  link_->Synchronize(Demand(1)).status().IgnoreError();
  farm_.calls.clear();
  RunFor(std::chrono::minutes(2));
  // Each round asks both; between the rounds are 2.5 to 5 seconds.
  EXPECT_LE(farm_.calls.size(), 130);
  EXPECT_GE(farm_.calls.size(), 40);
  farm_.away.clear();
  farm_.calls.clear();
  RunFor(seconds(6));
  EXPECT_EQ(farm_.asked.size(), 1);
}

TEST_F(RemoteLinkTest, ReportsWaitOnDiskAndAreSentInTheirOrder) {
  Register();
  Report(1, 1);
  RunFor(seconds(1));
  farm_.away = {{"a:1", true}, {"b:1", true}};
  for (int i = 2; i <= 5; ++i) Report(1, i);
  RunFor(seconds(20));
  EXPECT_EQ(farm_.reports.size(), 1);
  EXPECT_GT(link_->counts().bytes_in_spool, 0);
  Report(1, 6, true);
  farm_.away.clear();
  RunFor(seconds(10));
  EXPECT_EQ(Ordinals(), (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(link_->counts().bytes_in_spool, 0);
  EXPECT_TRUE(farm_.reports.back().unit_done());
}

TEST_F(RemoteLinkTest, TheNextProcessSendsWhatWasLeftUnderTheOldIdentity) {
  Register("old");
  farm_.away = {{"a:1", true}, {"b:1", true}};
  for (int i = 1; i <= 3; ++i) Report(1, i);
  RunFor(seconds(5));
  farm_.away.clear();
  calls_.RunUntilIdle();
  Start({"a:1"});  // the process was killed
  Register("new");
  EXPECT_EQ(Ordinals(), (std::vector<int64_t>{1, 2, 3}));
  for (const auto& report : farm_.reports) EXPECT_EQ(report.agent_id(), "old");
  ASSERT_EQ(farm_.registered.size(), 2);
  EXPECT_EQ(farm_.registered[0].replaces_agent_id(), "");
  EXPECT_EQ(farm_.registered[1].agent_id(), "new");
  EXPECT_EQ(farm_.registered[1].replaces_agent_id(), "old");
}

TEST_F(RemoteLinkTest, WhatControlCannotStoreNowIsSentAgain) {
  Register();
  farm_.store_away = true;
  Report(1, 1);
  RunFor(seconds(3));
  EXPECT_TRUE(farm_.reports.empty());
  farm_.store_away = false;
  RunFor(seconds(3));
  EXPECT_EQ(Ordinals(), std::vector<int64_t>{1});
}

TEST_F(RemoteLinkTest, AFullSpoolStopsTheAgent) {
  Start({"a:1"}, 600);
  Register();
  farm_.away["a:1"] = true;
  link_->Synchronize(Demand(1)).status().IgnoreError();
  int taken = 0;
  for (; taken < 1000; ++taken) {
    wire::ReportTrialsRequest report;
    report.set_agent_id("agent");
    report.set_unit_id(taken);
    report.add_trials()->set_message(std::string(100, 'x'));
    if (!link_->ReportTrials(report).ok()) break;
    RunFor(seconds(6));
  }
  EXPECT_GE(taken, 3);
  EXPECT_LE(taken, 6);
  farm_.away.clear();
  RunFor(seconds(20));
  EXPECT_EQ(farm_.reports.size(), static_cast<size_t>(taken));
  EXPECT_TRUE(link_->ReportTrials(wire::ReportTrialsRequest()).ok());
}

TEST_F(RemoteLinkTest, ChangedDevicesAreToldUntilControlHasAnswered) {
  Register();
  farm_.away = {{"a:1", true}, {"b:1", true}};
  wire::SynchronizeRequest request = request_;
  request.add_changed_devices()->set_uuid("GPU-1");
  link_->Synchronize(request).status().IgnoreError();
  RunFor(seconds(1));
  link_->Synchronize(request_).status().IgnoreError();  // says it once only
  farm_.away.clear();
  RunFor(seconds(10));
  ASSERT_FALSE(farm_.asked.empty());
  ASSERT_EQ(farm_.asked[0].changed_devices_size(), 1);
  link_->Synchronize(request_).status().IgnoreError();
  Run();
  EXPECT_EQ(farm_.asked.back().changed_devices_size(), 0);
}

}  // namespace
}  // namespace tunefarm
