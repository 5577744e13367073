// Conformance: agents with leases, named leases, who drives which job.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <string>

#include "server/base/status.h"
#include "server/store/agent_store.h"
#include "server/store/best_store.h"
#include "server/store/device_store.h"
#include "server/store/job_store.h"
#include "server/store/lease_store.h"
#include "server/store/study_store.h"
#include "server/store/unit_store.h"
#include "tests/store/conformance.h"

namespace tunefarm {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int64_t kLeaseMs = 30'000;
constexpr milliseconds kPastLease{kLeaseMs + 1};

AgentRegistration Leased(const std::string& id) { return {id, "host", "detail", kLeaseMs, kNow}; }

std::vector<std::string> IdsOf(const std::vector<AgentRow>& agents) {
  std::vector<std::string> ids;
  for (const AgentRow& agent : agents) ids.push_back(agent.agent_id);
  return ids;
}

std::vector<int64_t> IdsOf(const std::vector<DrivenJob>& jobs) {
  std::vector<int64_t> ids;
  for (const DrivenJob& job : jobs) ids.push_back(job.job_id);
  return ids;
}

}  // namespace

ClaimRequest FarmConformance::RegisterLeased(const std::string& id) {
  return {id, store_->agents()->RegisterAgent(Leased(id)).value(), "gpu-0", "class", 1, kNow};
}

// The agent that holds the unit is lost, after it has reported so many trials of it. Answers its next claim.
ClaimedUnit FarmConformance::LoseWith(ClaimedUnit claimed, const std::vector<int64_t>& reported) {
  const std::string id = "agent " + std::to_string(claimed.unit.attempt);
  const AgentRow holder = store_->agents()->FindAgent(id).value().value();
  std::vector<TrialRow> trials;
  for (const int64_t ordinal : reported) trials.push_back(MakeTrial(ordinal));
  const ClaimRequest own{id, holder.epoch, "gpu-0", "class", 1, kNow};
  EXPECT_EQ(Report(MakeReport(own, claimed, trials, false)), ReportVerdict::kAccepted);
  EXPECT_TRUE(store_->agents()->ReleaseAgent(id, kNow, /*was_lost=*/true).ok());
  return ClaimOne(RegisterLeased("agent " + std::to_string(claimed.unit.attempt + 1)));
}

LeaseRow FarmConformance::Take(const std::string& name, const std::string& holder) {
  return store_->leases()->TakeLease({name, holder, "at " + holder, kLeaseMs}).value();
}

namespace {

TEST_P(FarmConformance, AgentsAreFoundAsTheyRegistered) {
  const int64_t epoch = store_->agents()->RegisterAgent(Leased("b")).value();
  ASSERT_TRUE(store_->agents()->RegisterAgent({"a", "other", "", 0, kNow + 5}).ok());
  Reopen();
  const AgentRow agent = store_->agents()->FindAgent("b").value().value();
  EXPECT_EQ(agent.host, "host");
  EXPECT_EQ(agent.detail, "detail");
  EXPECT_EQ(agent.epoch, epoch);
  EXPECT_FALSE(agent.draining);
  EXPECT_EQ(agent.registered_at_ms, kNow);
  EXPECT_GT(agent.lease_left_ms.value(), 0);
  EXPECT_LE(agent.lease_left_ms.value(), kLeaseMs);
  EXPECT_FALSE(store_->agents()->FindAgent("a").value().value().lease_left_ms.has_value());
  EXPECT_THAT(IdsOf(store_->agents()->ListAgents().value()), ElementsAre("a", "b"));
  EXPECT_FALSE(store_->agents()->FindAgent("c").value().has_value());
  ASSERT_TRUE(store_->agents()->ReleaseAgent("b", kNow).ok());
  EXPECT_FALSE(store_->agents()->FindAgent("b").value().has_value());
  EXPECT_THAT(IdsOf(store_->agents()->ListAgents().value()), ElementsAre("a"));
}

TEST_P(FarmConformance, ARenewedLeaseRunsFromNow) {
  const int64_t epoch = store_->agents()->RegisterAgent(Leased("a")).value();
  GetParam().advance(milliseconds(kLeaseMs - 1000));
  const AgentRow renewed = store_->agents()->RenewAgent("a", epoch, kLeaseMs, "news").value();
  EXPECT_EQ(renewed.detail, "news");
  EXPECT_GT(renewed.lease_left_ms.value(), kLeaseMs - 1000);
  EXPECT_EQ(store_->agents()->RenewAgent("a", epoch, kLeaseMs, std::nullopt)->detail, "news");
  GetParam().advance(milliseconds(2000));
  EXPECT_THAT(store_->agents()->ReapAgents(kNow).value(), IsEmpty());
  // Run out and not reaped yet: nobody has taken anything from it, so it goes on.
  GetParam().advance(kPastLease);
  EXPECT_LE(store_->agents()->FindAgent("a").value().value().lease_left_ms.value(), 0);
  EXPECT_TRUE(store_->agents()->RenewAgent("a", epoch, kLeaseMs, std::nullopt).ok());
  EXPECT_THAT(store_->agents()->ReapAgents(kNow).value(), IsEmpty());
  EXPECT_TRUE(absl::IsInvalidArgument(store_->agents()->RenewAgent("a", epoch, 0, std::nullopt).status()));
  EXPECT_EQ(ReasonOf(store_->agents()->RenewAgent("a", epoch + 1, kLeaseMs, std::nullopt).status()), "AGENT_EPOCH");
  EXPECT_EQ(ReasonOf(store_->agents()->RenewAgent("nobody", 1, kLeaseMs, std::nullopt).status()), "AGENT_EPOCH");
}

TEST_P(FarmConformance, AReapedAgentHasNothingAndItsReportsAreStale) {
  const ClaimRequest dead = RegisterLeased("dead");
  const ClaimedUnit unit = Prepare(dead);
  const ClaimRequest alive = RegisterLeased("alive");
  GetParam().advance(milliseconds(kLeaseMs / 2));
  ASSERT_TRUE(store_->agents()->RenewAgent("alive", alive.epoch, kLeaseMs, std::nullopt).ok());
  GetParam().advance(milliseconds(kLeaseMs / 2 + 1));
  EXPECT_THAT(store_->agents()->ReapAgents(kNow).value(), ElementsAre("dead"));
  EXPECT_THAT(store_->agents()->ReapAgents(kNow).value(), IsEmpty());
  EXPECT_EQ(Report(MakeReport(dead, unit, {MakeTrial(0)}, false)), ReportVerdict::kStale);
  EXPECT_EQ(ReasonOf(store_->agents()->RenewAgent("dead", dead.epoch, kLeaseMs, std::nullopt).status()), "AGENT_EPOCH");
  EXPECT_EQ(ReasonOf(store_->units()->ClaimUnits(dead).status()), "AGENT_EPOCH");
  const ClaimedUnit again = ClaimOne(alive);
  EXPECT_EQ(again.unit.unit_id, unit.unit.unit_id);
  EXPECT_GT(again.unit.token, unit.unit.token);
  // It may come back, as what it is: somebody new.
  EXPECT_GT(store_->agents()->RegisterAgent(Leased("dead")).value(), dead.epoch);
  EXPECT_EQ(Report(MakeReport(dead, unit, {MakeTrial(0)}, false)), ReportVerdict::kStale);
}

TEST_P(FarmConformance, ARestartLeavesAgentsWithALeaseAlone) {
  const ClaimRequest remote = RegisterLeased("remote");
  const ClaimedUnit unit = Prepare(remote);
  ASSERT_TRUE(store_->agents()->RegisterAgent({"local", "host", "", 0, kNow}).ok());
  Reopen();
  EXPECT_EQ(store_->agents()->ReleaseOtherAgents({}, kNow).value(), 0);
  EXPECT_THAT(IdsOf(store_->agents()->ListAgents().value()), ElementsAre("remote"));
  EXPECT_EQ(Report(MakeReport(remote, unit, {MakeTrial(0)}, false)), ReportVerdict::kAccepted);
}

TEST_P(FarmConformance, ADrainingAgentIsGivenNothing) {
  const ClaimRequest agent = RegisterLeased("a");
  Propose(StudyOf(Submit(MakeSubmit("job"))), {MakeUnit(0, 4)});
  ASSERT_TRUE(store_->agents()->SetAgentDraining("a", true).ok());
  EXPECT_TRUE(store_->agents()->FindAgent("a").value()->draining);
  EXPECT_THAT(Claim(agent), IsEmpty());
  ASSERT_TRUE(store_->agents()->SetAgentDraining("a", false).ok());
  EXPECT_THAT(Claim(agent), SizeIs(1));
  EXPECT_TRUE(absl::IsNotFound(store_->agents()->SetAgentDraining("b", true)));
}

TEST_P(FarmConformance, ClaimsOfAnswersWhatWasClaimed) {
  const ClaimRequest agent = RegisterLeased("a");
  const ClaimedUnit unit = Prepare(agent);
  ASSERT_EQ(Report(MakeReport(agent, unit, {MakeTrial(1)}, false)), ReportVerdict::kAccepted);
  const std::vector<ClaimedUnit> held = store_->units()->ClaimsOf("a", agent.epoch).value();
  ASSERT_THAT(held, SizeIs(1));
  EXPECT_EQ(held[0].unit.unit_id, unit.unit.unit_id);
  EXPECT_EQ(held[0].unit.token, unit.unit.token);
  EXPECT_EQ(held[0].unit.payload, unit.unit.payload);
  EXPECT_EQ(held[0].job_id, unit.job_id);
  EXPECT_EQ(held[0].kernel_id, unit.kernel_id);
  EXPECT_EQ(held[0].problem, unit.problem);
  EXPECT_EQ(held[0].job_spec, unit.job_spec);
  EXPECT_THAT(held[0].present_ordinals, ElementsAre(1));
  EXPECT_THAT(store_->units()->ClaimsOf("a", agent.epoch + 1).value(), IsEmpty());
  ASSERT_TRUE(store_->agents()->ReleaseAgent("a", kNow).ok());
  EXPECT_THAT(store_->units()->ClaimsOf("a", agent.epoch).value(), IsEmpty());
}

TEST_P(FarmConformance, AStudyIsForDevicesThatAnswerToItsName) {
  const int64_t job =
      Submit(MakeSubmit("job", {MakeStudy(1, "class", "label:rack=a"), MakeStudy(2, "class", "gpu-0"), MakeStudy(3)}));
  for (int number = 1; number <= 3; ++number) Propose(StudyOf(job, number), {MakeUnit(0, 2), MakeUnit(2, 2)});
  ClaimRequest other = Register("other");
  other.device_uuid = "gpu-1";
  other.device_names = {"agent:other", "label:rack=b"};
  EXPECT_EQ(ClaimOne(other).unit.study_id, StudyOf(job, 3));
  other.device_names.push_back("label:rack=a");
  EXPECT_EQ(ClaimOne(other).unit.study_id, StudyOf(job, 1));
  ClaimRequest own = Register("own");
  std::set<int64_t> studies;
  while (true) {
    const std::vector<ClaimedUnit> units = Claim(own);
    if (units.empty()) break;
    for (const ClaimedUnit& unit : units) studies.insert(unit.unit.study_id);
  }
  EXPECT_THAT(studies, ElementsAre(StudyOf(job, 2), StudyOf(job, 3)));
  EXPECT_THAT(Claim(other), SizeIs(1));
  EXPECT_THAT(Claim(other), IsEmpty());
}

TEST_P(FarmConformance, AStepChangesWhoRunsAStudyFromThenOn) {
  const int64_t study = StudyOf(Submit(MakeSubmit("job")));
  Propose(study, {MakeUnit(0, 2)});
  ClaimRequest one = Register("one"), two = Register("two");
  two.device_uuid = "gpu-1";
  DriveStep step;
  step.study_id = study;
  step.next_ordinal = 4;
  step.now_ms = kNow;
  step.new_units = {MakeUnit(2, 2)};
  step.device_selector = "gpu-1";
  ASSERT_TRUE(store_->studies()->Drive(step).ok());
  Reopen();
  EXPECT_THAT(Claim(one), IsEmpty());
  EXPECT_EQ(ClaimOne(two).unit.first_ordinal, 0);
  step.new_units.clear();
  step.device_selector = "";
  ASSERT_TRUE(store_->studies()->Drive(step).ok());
  EXPECT_EQ(ClaimOne(one).unit.first_ordinal, 2);
}

TEST_P(FarmConformance, AFinalIsHandedOutWithTheDevicesOfItsResults) {
  const int64_t study = StudyOf(Submit(MakeSubmit("job")));
  UnitRow unit = MakeUnit(0, 3);
  unit.kind = UnitKind::kFinals;
  Propose(study, {unit});
  const ClaimRequest first = RegisterLeased("first");
  const ClaimedUnit claimed = ClaimOne(first);
  EXPECT_THAT(claimed.present_devices, IsEmpty());
  TrialRow a = MakeTrial(0), b = MakeTrial(1);
  a.device_uuid = b.device_uuid = "gpu-7";
  ASSERT_EQ(Report(MakeReport(first, claimed, {a, b}, false)), ReportVerdict::kAccepted);
  EXPECT_THAT(store_->units()->ClaimsOf("first", first.epoch).value().at(0).present_devices, ElementsAre("gpu-7"));
  ASSERT_TRUE(store_->agents()->ReleaseAgent("first", kNow).ok());
  const ClaimRequest second = RegisterLeased("second");
  const ClaimedUnit again = ClaimOne(second);
  EXPECT_THAT(again.present_devices, ElementsAre("gpu-7"));
  EXPECT_THAT(again.present_ordinals, ElementsAre(0, 1));
}

TEST_P(FarmConformance, AUnitThatAgentsAreLostWithIsHandedOutInParts) {
  const int64_t study = StudyOf(Submit(MakeSubmit("job")));
  Propose(study, {MakeUnit(10, 20)});
  ClaimedUnit unit = ClaimOne(RegisterLeased("agent 1"));
  EXPECT_EQ(unit.unit.losses, 0);
  EXPECT_EQ(unit.unit.handed_end, 0);
  unit = LoseWith(unit, {10, 12});
  EXPECT_EQ(unit.unit.losses, 1);
  EXPECT_EQ(unit.unit.handed_end, 20);  // 11, 13 to 19
  Reopen();
  EXPECT_EQ(store_->units()
                ->ClaimsOf("agent 2", store_->agents()->FindAgent("agent 2").value()->epoch)
                .value()
                .at(0)
                .unit.handed_end,
            20);
  unit = LoseWith(unit, {11});
  EXPECT_EQ(unit.unit.losses, 2);
  EXPECT_EQ(unit.unit.handed_end, 14);  // 13 alone
  unit = LoseWith(unit, {});
  EXPECT_EQ(unit.unit.losses, 3);
  EXPECT_EQ(unit.unit.handed_end, 14);
  // What was suspected has a result: the rest is free, and a further loss is a first one.
  unit = LoseWith(unit, {13});
  EXPECT_EQ(unit.unit.handed_end, 0);
  unit = LoseWith(unit, {});
  EXPECT_EQ(unit.unit.losses, 1);
  EXPECT_EQ(unit.unit.handed_end, 22);
  // One that leaves in order says nothing.
  const ClaimRequest last = RegisterLeased("in order");
  ASSERT_TRUE(store_->agents()->ReleaseAgent("agent 6", kNow).ok());
  EXPECT_EQ(ClaimOne(last).unit.losses, 1);
}

TEST_P(FarmConformance, OnlyALossOfAUnitAloneCountsInTheEnd) {
  const int64_t study = StudyOf(Submit(MakeSubmit("job")));
  Propose(study, {MakeUnit(0, 2), MakeUnit(2, 2)});
  for (int i = 0; i < 5; ++i) {
    const ClaimRequest agent = RegisterLeased("agent");
    for (int j = 0; j < 2; ++j) EXPECT_EQ(ClaimOne(agent).unit.losses, std::min(i, 2));
    ASSERT_TRUE(store_->agents()->ReleaseAgent("agent", kNow, true).ok());
  }
  ClaimRequest agent = RegisterLeased("agent");
  const int64_t unit = ClaimOne(agent).unit.unit_id;
  ASSERT_TRUE(store_->agents()->ReleaseAgent("agent", kNow, true).ok());
  agent = RegisterLeased("agent");
  for (int j = 0; j < 2; ++j) {
    const ClaimedUnit claimed = ClaimOne(agent);
    EXPECT_EQ(claimed.unit.losses, claimed.unit.unit_id == unit ? 3 : 2);
  }
}

// A final is whole always.
TEST_P(FarmConformance, LostAgentsDoNotPartAFinal) {
  const int64_t study = StudyOf(Submit(MakeSubmit("job")));
  UnitRow unit = MakeUnit(0, 20);
  unit.kind = UnitKind::kFinals;
  Propose(study, {unit});
  ClaimedUnit claimed = ClaimOne(RegisterLeased("agent 1"));
  for (int losses = 1; losses <= 3; ++losses) {
    claimed = LoseWith(claimed, {});
    EXPECT_EQ(claimed.unit.losses, losses);
    EXPECT_EQ(claimed.unit.handed_end, 0);
  }
}

// Whoever is not heard for a lease is lost too.
TEST_P(FarmConformance, AReapedAgentIsALostOne) {
  const ClaimRequest dead = RegisterLeased("dead");
  Prepare(dead);
  GetParam().advance(kPastLease);
  ASSERT_TRUE(store_->agents()->ReapAgents(kNow).ok());
  EXPECT_EQ(ClaimOne(RegisterLeased("alive")).unit.losses, 1);
}

TEST_P(FarmConformance, OneHolderHasALease) {
  const LeaseRow first = Take("reaper", "one");
  EXPECT_EQ(first.holder, "one");
  EXPECT_EQ(first.detail, "at one");
  EXPECT_GT(first.left_ms, 0);
  EXPECT_EQ(Take("reaper", "two").holder, "one");
  EXPECT_EQ(Take("reaper", "one").epoch, first.epoch);
  GetParam().advance(kPastLease);
  EXPECT_THAT(store_->leases()->ListLeases("reaper").value(), IsEmpty());
  EXPECT_EQ(store_->leases()->TakeLease({"reaper", "one", "anew", kLeaseMs})->detail_before, "at one")
      << "also when it has run out";
  EXPECT_EQ(store_->leases()->TakeLease({"another", "one", "anew", kLeaseMs})->detail_before, "");
  ASSERT_TRUE(store_->leases()->ReleaseLease("reaper", "one").ok());
  ASSERT_TRUE(store_->leases()->ReleaseLease("another", "one").ok());
  const LeaseRow second = Take("reaper", "two");
  EXPECT_EQ(second.holder, "two");
  EXPECT_GT(second.epoch, first.epoch);
  ASSERT_TRUE(store_->leases()->ReleaseLease("reaper", "one").ok());
  EXPECT_EQ(Take("reaper", "one").holder, "two");
  ASSERT_TRUE(store_->leases()->ReleaseLease("reaper", "two").ok());
  EXPECT_GT(Take("reaper", "one").epoch, second.epoch);
  EXPECT_TRUE(absl::IsInvalidArgument(store_->leases()->TakeLease({"", "one", "", 1}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(store_->leases()->TakeLease({"reaper", "", "", 1}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(store_->leases()->TakeLease({"reaper", "one", "", 0}).status()));
}

TEST_P(FarmConformance, LeasesAreListedByTheBeginningOfTheirNames) {
  Take("node/b", "b");
  Take("node/a", "a");
  Take("node_c", "c");
  Take("reaper", "a");
  const std::vector<LeaseRow> nodes = store_->leases()->ListLeases("node/").value();
  ASSERT_THAT(nodes, SizeIs(2));
  EXPECT_EQ(nodes[0].name, "node/a");
  EXPECT_EQ(nodes[1].detail, "at b");
  EXPECT_THAT(store_->leases()->ListLeases("").value(), SizeIs(4));
}

TEST_P(FarmConformance, WhatWasLastSaidOfADeviceIsKept) {
  ASSERT_TRUE(store_->devices()->SetDeviceOrder({"b", "loud", 0, kNow}).ok());
  ASSERT_TRUE(store_->devices()->SetDeviceOrder({"a", "", 7, kNow + 1}).ok());
  ASSERT_TRUE(store_->devices()->SetDeviceOrder({"b", "", 9, kNow + 2, 77}).ok());
  const std::vector<DeviceOrderRow> orders = store_->devices()->ListDeviceOrders().value();
  ASSERT_THAT(orders, SizeIs(2));
  EXPECT_EQ(orders[0].device_uuid, "a");
  EXPECT_EQ(orders[0].accepted_sentinels_ms, 7);
  EXPECT_EQ(orders[0].revision, 1);
  EXPECT_EQ(orders[1].held_out, "");
  EXPECT_EQ(orders[1].accepted_sentinels_ms, 9);
  EXPECT_EQ(orders[1].set_at_ms, kNow + 2);
  EXPECT_EQ(orders[1].revision, 2) << "its own, whatever is given";
  EXPECT_TRUE(absl::IsInvalidArgument(store_->devices()->SetDeviceOrder({"", "loud", 0, kNow})));
  EXPECT_TRUE(absl::IsInvalidArgument(store_->devices()->SetDeviceOrder({"a", std::string(1025, 'x'), 0, kNow})));
  EXPECT_TRUE(absl::IsInvalidArgument(store_->devices()->SetDeviceOrder({"a", "held out, but accepted", 7, kNow})));
  EXPECT_TRUE(absl::IsInvalidArgument(store_->devices()->SetDeviceOrder({"a", std::string("a\0b", 3), 0, kNow})));
}

TEST_P(FarmConformance, OfReleasedDevicesTheNewestAreKept) {
  ASSERT_TRUE(store_->devices()->SetDeviceOrder({"held", "loud", 0, 1}).ok());
  for (int i = 0; i <= kReleasedDevicesKept; ++i) {
    ASSERT_TRUE(store_->devices()->SetDeviceOrder({"gpu-" + std::to_string(i), "", 0, 2 + i}).ok());
  }
  const std::vector<DeviceOrderRow> orders = store_->devices()->ListDeviceOrders().value();
  ASSERT_THAT(orders, SizeIs(kReleasedDevicesKept + 1));
  EXPECT_EQ(orders.back().device_uuid, "held");
  EXPECT_EQ(std::count_if(orders.begin(), orders.end(), [](const auto& o) { return o.device_uuid == "gpu-0"; }), 0);
}

TEST_P(FarmConformance, ALivingNodeAdoptsWhatNobodyDrives) {
  const int64_t first = Submit(MakeSubmit("first"));
  const int64_t second = Submit(MakeSubmit("second"));
  const int64_t ended = Submit(MakeSubmit("ended"));
  ASSERT_TRUE(Set(ended, JobState::kCancelled).ok());
  EXPECT_EQ(ReasonOf(store_->jobs()->AdoptJobs("n1", 10).status()), "NODE_LEASE");
  Take("node/n1", "n1");
  Take("node/n2", "n2");
  const std::vector<DrivenJob> of_first = store_->jobs()->AdoptJobs("n1", 1).value();
  EXPECT_THAT(IdsOf(of_first), ElementsAre(first));
  EXPECT_THAT(store_->jobs()->AdoptJobs("n2", 10, {first, second}).value(), IsEmpty());
  const std::vector<DrivenJob> of_second = store_->jobs()->AdoptJobs("n2", 10, {first}).value();
  EXPECT_THAT(IdsOf(of_second), ElementsAre(second));
  EXPECT_THAT(store_->jobs()->AdoptJobs("n1", 10).value(), IsEmpty());
  GetParam().advance(milliseconds(kLeaseMs / 2));
  Take("node/n2", "n2");
  GetParam().advance(milliseconds(kLeaseMs / 2 + 1));
  const std::vector<DrivenJob> taken = store_->jobs()->AdoptJobs("n2", 10).value();
  EXPECT_THAT(IdsOf(taken), ElementsAre(first));
  EXPECT_GT(taken[0].driver_epoch, of_first[0].driver_epoch);
  const std::vector<JobStateRow> states = store_->jobs()->JobStates({second, first, 100000, first}).value();
  ASSERT_THAT(states, SizeIs(2));
  EXPECT_EQ(states[0].job_id, first);
  EXPECT_EQ(states[0].driver, "n2");
  EXPECT_EQ(states[0].driver_epoch, taken[0].driver_epoch);
  EXPECT_EQ(states[0].state, JobState::kQueued);
  EXPECT_EQ(states[1].driver_epoch, of_second[0].driver_epoch);
}

TEST_P(FarmConformance, OfJobsThatANodeLeavesAloneItAdoptsThoseThatAreBeingCancelled) {
  const int64_t left = Submit(MakeSubmit("left")), cancelled = Submit(MakeSubmit("cancelled"));
  ASSERT_TRUE(Set(cancelled, JobState::kCancelling).ok());
  Take("node/n1", "n1");
  EXPECT_THAT(IdsOf(store_->jobs()->AdoptJobs("n1", 10, {left, cancelled}).value()), ElementsAre(cancelled));
}

TEST_P(FarmConformance, AJobThatIsBeingCancelledSaysHowMuchOfItIsWithAgents) {
  const int64_t job = Submit(MakeSubmit("job"));
  DriveStep step;
  step.study_id = StudyOf(job);
  step.now_ms = kNow;
  step.new_units = {MakeUnit(0, 4), MakeUnit(4, 4)};
  ASSERT_TRUE(store_->studies()->Drive(step).ok());
  const ClaimRequest agent = RegisterLeased("agent");
  const std::vector<ClaimedUnit> claimed = store_->units()->ClaimUnits(agent).value();
  ASSERT_THAT(claimed, SizeIs(1));
  ASSERT_TRUE(store_->jobs()->SetJobState(job, {JobState::kRunning}, JobState::kCancelling, "", kNow).ok());
  EXPECT_EQ(store_->jobs()->JobStates({job})->at(0).claimed_units, 1);
  ReportRequest report;
  report.agent_id = agent.agent_id;
  report.epoch = agent.epoch;
  report.unit_id = claimed[0].unit.unit_id;
  report.token = claimed[0].unit.token;
  report.unit_done = true;
  report.now_ms = kNow;
  ASSERT_EQ(store_->units()->ReportTrials(report).value(), ReportVerdict::kAccepted);
  EXPECT_EQ(store_->jobs()->JobStates({job})->at(0).claimed_units, 0);
}

TEST_P(FarmConformance, ANodeThatLostAJobChangesNothingOfIt) {
  const int64_t job = Submit(MakeSubmit("job"));
  const int64_t study = StudyOf(job);
  Take("node/old", "old");
  const int64_t old_epoch = store_->jobs()->AdoptJobs("old", 10)->at(0).driver_epoch;
  DriveStep step;
  step.study_id = study;
  step.now_ms = kNow;
  step.driver_epoch = old_epoch;
  step.new_units = {MakeUnit(0, 4)};
  ASSERT_TRUE(store_->studies()->Drive(step).ok());
  GetParam().advance(kPastLease);
  Take("node/new", "new");
  const int64_t new_epoch = store_->jobs()->AdoptJobs("new", 10)->at(0).driver_epoch;
  step.new_units = {MakeUnit(4, 4)};
  EXPECT_EQ(ReasonOf(store_->studies()->Drive(step).status()), "DRIVER_EPOCH");
  EXPECT_EQ(ReasonOf(store_->jobs()->SetJobState(job, {JobState::kQueued}, JobState::kFailed, "", kNow, old_epoch)),
            "DRIVER_EPOCH");
  ASSERT_TRUE(store_->jobs()->YieldJob(job, old_epoch).ok());
  EXPECT_EQ(store_->jobs()->JobStates({job})->at(0).driver, "new");
  EXPECT_THAT(store_->studies()->LoadHistory(study, 0, kWholeHistory)->events, SizeIs(1));
  step.driver_epoch = new_epoch;
  EXPECT_TRUE(store_->studies()->Drive(step).ok());
  // People may change a job through any node.
  EXPECT_TRUE(store_->jobs()->SetJobState(job, {JobState::kQueued}, JobState::kPaused, "", kNow).ok());
  ASSERT_TRUE(store_->jobs()->YieldJob(job, new_epoch).ok());
  EXPECT_EQ(store_->jobs()->JobStates({job})->at(0).driver, "");
  EXPECT_THAT(IdsOf(store_->jobs()->AdoptJobs("new", 10).value()), ElementsAre(job));
}

TEST_P(FarmConformance, LoadDoneAnswersWhatIsToBeTold) {
  const ClaimRequest agent = Register("agent", 3);
  const int64_t study = StudyOf(Submit(MakeSubmit("job")));
  Propose(study, {MakeUnit(0, 2), MakeUnit(2, 2), MakeUnit(4, 2)});
  const std::vector<ClaimedUnit> units = Claim(agent);
  ASSERT_THAT(units, SizeIs(3));
  EXPECT_THAT(store_->studies()->LoadDone(study, 10)->units, IsEmpty());
  Report(MakeReport(agent, units[2], {MakeTrial(5), MakeTrial(4)}, true));
  Report(MakeReport(agent, units[0], {MakeTrial(0), MakeTrial(1)}, true));
  Report(MakeReport(agent, units[1], {MakeTrial(2)}, false));
  const StudyHistory done = store_->studies()->LoadDone(study, 10).value();
  ASSERT_THAT(done.units, SizeIs(2));
  EXPECT_EQ(done.units[0].unit_id, units[0].unit.unit_id);
  EXPECT_EQ(done.units[0].state, UnitState::kDone);
  EXPECT_THAT(done.events, IsEmpty());
  ASSERT_THAT(done.trials, SizeIs(4));
  EXPECT_EQ(done.trials[3].ordinal, 5);
  EXPECT_THAT(store_->studies()->LoadDone(study, 1)->units, SizeIs(1));
  // Only what is not known yet; that does not count.
  const StudyHistory others = store_->studies()->LoadDone(study, 1, {units[0].unit.unit_id, 4711}).value();
  ASSERT_THAT(others.units, SizeIs(1));
  EXPECT_EQ(others.units[0].unit_id, units[2].unit.unit_id);
  EXPECT_THAT(others.trials, SizeIs(2));
  DriveStep tell;
  tell.study_id = study;
  tell.now_ms = kNow;
  tell.told_unit_ids = {units[0].unit.unit_id};
  ASSERT_TRUE(store_->studies()->Drive(tell).ok());
  EXPECT_THAT(store_->studies()->LoadDone(study, 10)->units, SizeIs(1));
}

TEST_P(FarmConformance, BestsSinceARevisionAreTheNewerOnes) {
  const int64_t first = store_->bests()->PromoteBest(MakeBest("program", "one", 10))->revision;
  ASSERT_TRUE(store_->bests()->PromoteBest(MakeBest("program", "two", 10)).ok());
  const std::vector<BestRow> since = store_->bests()->LoadBestsSince(first).value();
  ASSERT_THAT(since, SizeIs(1));
  EXPECT_EQ(since[0].problem_key, "two");
  EXPECT_THAT(store_->bests()->LoadBestsSince(0).value(), SizeIs(2));
  EXPECT_THAT(store_->bests()->LoadBestsSince(store_->bests()->CatalogRevision().value()).value(), IsEmpty());
}

}  // namespace
}  // namespace tunefarm
