#include "server/farm/claims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/records/measured_key.h"
#include "server/store/job_rows.h"

namespace tunefarm {
namespace {

namespace wire = tunefarm::agent::v1;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int64_t kEpoch = 7;

Claim MakeClaim(int64_t unit_id, int64_t job_id = 1, int trials = 2, int64_t replacements = 0) {
  Claim claim;
  claim.agent_id = "agent";
  claim.epoch = kEpoch;
  claim.token = 100 + unit_id;
  claim.unit_id = unit_id;
  claim.job_id = job_id;
  claim.study_id = 10 * job_id;
  claim.replacements = replacements;
  claim.assignment.set_unit_id(unit_id);
  claim.assignment.set_token(claim.token);
  claim.assignment.set_device_uuid("device");
  for (int i = 0; i < trials; ++i) claim.assignment.add_trials()->set_ordinal(i);
  return claim;
}

wire::ReportTrialsRequest ReportOf(const Claim& claim, const std::vector<int64_t>& ordinals) {
  wire::ReportTrialsRequest report;
  report.set_agent_id(claim.agent_id);
  report.set_epoch(claim.epoch);
  report.set_unit_id(claim.unit_id);
  report.set_token(claim.token);
  for (int64_t ordinal : ordinals) report.add_trials()->set_ordinal(ordinal);
  return report;
}

class ClaimsTest : public testing::Test {
 protected:
  // The agent has these in hand.
  void Serve(std::vector<Claim> claims) {
    std::set<int64_t> in_hand;
    for (const Claim& claim : claims) in_hand.insert(claim.unit_id);
    ASSERT_TRUE(claims_.Serve("agent", kEpoch, claims_.Follow(0), std::move(claims), in_hand).ok());
  }
  // What the agent is told if it lists these.
  wire::SynchronizeResponse Compare(const std::vector<Claim>& listed) {
    wire::SynchronizeRequest request;
    request.set_agent_id("agent");
    request.set_epoch(kEpoch);
    for (const Claim& claim : listed) {
      request.add_units()->set_unit_id(claim.unit_id);
      request.mutable_units()->rbegin()->set_token(claim.token);
      request.mutable_units()->rbegin()->set_device_uuid(claim.assignment.device_uuid());
    }
    std::map<std::string, Claims::Demand> wanted = {{"device", {8, 0}}};
    wire::SynchronizeResponse response;
    left_jobs_.clear();
    EXPECT_TRUE(claims_.Compare(request, &wanted, &left_jobs_, &response));
    return response;
  }

  Claims claims_{0};
  std::set<int64_t> left_jobs_;  // of the last Compare
};

TEST_F(ClaimsTest, WhatTheAgentDoesNotListIsHandedOutAgainWithItsToken) {
  Serve({MakeClaim(1), MakeClaim(2)});
  const auto response = Compare({MakeClaim(1)});
  ASSERT_THAT(response.assignments(), SizeIs(1));
  EXPECT_EQ(response.assignments(0).token(), MakeClaim(2).token);
  EXPECT_THAT(response.revoked_unit_ids(), IsEmpty());
}

// A call that lists no units, such as ClaimWork, may be the first of an agent that is read from the store.
TEST_F(ClaimsTest, WhatTheAgentListsIsInItsHandsOnTheDeviceThatItNames) {
  Claim read = MakeClaim(1);
  read.assignment.set_device_uuid("the first of its class");
  ASSERT_TRUE(claims_.Serve("agent", kEpoch, claims_.Follow(0), {read}, {}).ok());
  EXPECT_THAT(Compare({MakeClaim(1)}).assignments(), IsEmpty());
  claims_.Cancel(1);
  EXPECT_THAT(claims_.Dropped(), IsEmpty()) << "it runs there";
  EXPECT_THAT(Compare({}).assignments(), IsEmpty());
  EXPECT_THAT(left_jobs_, ElementsAre(1));
  EXPECT_THAT(claims_.Dropped(), SizeIs(1));
  // Lost by its agent, it is handed out again to the device that had it.
  read = MakeClaim(2, 2);
  read.assignment.set_device_uuid("the first of its class");
  ASSERT_TRUE(claims_.Serve("agent", kEpoch, claims_.Follow(0), {read}, {}).ok());
  Compare({MakeClaim(2, 2)});
  const auto response = Compare({});
  ASSERT_THAT(response.assignments(), SizeIs(1));
  EXPECT_EQ(response.assignments(0).device_uuid(), "device");
}

TEST_F(ClaimsTest, AHeldJobIsTakenBackAndKept) {
  Serve({MakeClaim(1)});
  claims_.Hold(1);
  EXPECT_THAT(Compare({MakeClaim(1)}).revoked_unit_ids(), ElementsAre(1));
  EXPECT_THAT(Compare({}).assignments(), IsEmpty());
  EXPECT_TRUE(claims_.Resume(1));
  EXPECT_FALSE(claims_.Resume(1));
  EXPECT_THAT(Compare({}).assignments(), SizeIs(1));
}

TEST_F(ClaimsTest, ACancelledJobEndsOnceItsAgentHasLetItGo) {
  Serve({MakeClaim(1, 1), MakeClaim(2, 2)});
  claims_.Cancel(1);
  EXPECT_THAT(claims_.Dropped(), IsEmpty());
  EXPECT_THAT(Compare({MakeClaim(2, 2)}).assignments(), IsEmpty());
  const auto dropped = claims_.Dropped();
  ASSERT_THAT(dropped, SizeIs(1));
  EXPECT_EQ(dropped[0].first.unit_id, 1);
  EXPECT_EQ(dropped[0].second, UnitAfter::kDone);
}

TEST_F(ClaimsTest, OnlyTheSearchOfAStudyThatIsOverIsDropped) {
  Claim final = MakeClaim(2);
  final.kind = UnitKind::kFinals;
  Serve({MakeClaim(1), final});
  EXPECT_TRUE(claims_.StopStudySearch(1, 10));
  EXPECT_FALSE(claims_.StopStudySearch(1, 10));
  EXPECT_THAT(Compare({MakeClaim(1), final}).revoked_unit_ids(), ElementsAre(1));
}

TEST_F(ClaimsTest, AReportOfSomeTrialsIsOfAPart) {
  const Claim claim = MakeClaim(1);
  Serve({claim});
  auto part = claims_.Find(ReportOf(claim, {1}));
  ASSERT_TRUE(part.has_value());
  EXPECT_TRUE(part->is_part);
  tunefarm::v1::Trial trial;
  trial.set_ordinal(1);
  claims_.Reported(*part, {trial});
  part = claims_.Find(ReportOf(claim, {0, 1}));
  ASSERT_TRUE(part.has_value());
  EXPECT_FALSE(part->is_part);
  ASSERT_THAT(part->assignment.trials(), SizeIs(1));
  EXPECT_EQ(part->assignment.trials(0).ordinal(), 0);
}

TEST_F(ClaimsTest, AClaimOfAnEarlierDatabaseIsNotTakenIn) {
  Serve({MakeClaim(1)});
  const auto early = claims_.Find(ReportOf(MakeClaim(1), {0}));
  ASSERT_TRUE(early.has_value());
  EXPECT_EQ(claims_.Follow(1), 1);
  EXPECT_EQ(claims_.EpochOf("agent"), 0);
  EXPECT_FALSE(claims_.Serve("agent", kEpoch, 0, {MakeClaim(1)}, {}).ok());
  ASSERT_TRUE(claims_.Serve("agent", kEpoch, 1, {MakeClaim(1, 1, 2, 1)}, {1}).ok());
  wire::SynchronizeResponse response;
  EXPECT_TRUE(claims_.HandOut(MakeClaim(2), &response));
  EXPECT_THAT(response.assignments(), IsEmpty());
  EXPECT_THAT(claims_.UnitsOf("agent"), ElementsAre(1));
  // Nor what was stored there.
  tunefarm::v1::Trial trial;
  trial.set_ordinal(0);
  claims_.Reported(*early, {trial});
  claims_.Erase(*early);
  EXPECT_THAT(claims_.Find(ReportOf(MakeClaim(1), {0, 1}))->assignment.trials(), SizeIs(2));
}

TEST_F(ClaimsTest, WhatIsSaidOfJobsAfterAReplacementWaitsForBeginAgain) {
  claims_.Cancel(1);
  claims_.Follow(1);
  EXPECT_EQ(claims_.ModeOf(1, 10, UnitKind::kSearch), ClaimMode::kActive);
  claims_.Cancel(1);
  EXPECT_EQ(claims_.ModeOf(1, 10, UnitKind::kSearch), ClaimMode::kActive);
  claims_.BeginAgain();
  claims_.Cancel(1);
  EXPECT_EQ(claims_.ModeOf(1, 10, UnitKind::kSearch), ClaimMode::kDropped);
}

TEST_F(ClaimsTest, AJobThatEndsDuringAClaimGetsNothingOfIt) {
  Serve({});
  claims_.BeginClaim("agent");
  claims_.Forget(1);
  wire::SynchronizeResponse response;
  EXPECT_FALSE(claims_.HandOut(MakeClaim(1), &response));
  EXPECT_THAT(claims_.Dropped(), SizeIs(1));
  // Its number is another job's in a database that was put back.
  claims_.BeginAgain();
  EXPECT_EQ(claims_.ModeOf(1, 10, UnitKind::kSearch), ClaimMode::kActive);
  claims_.EndClaim("agent");
}

// ---- Works ----

class ClaimedWorksTest : public ClaimsTest {
 protected:
  // Of two agents, "agent" and "other", each with a unit of the same study.
  void SetUp() override {
    Serve({Searched(1)});
    ASSERT_TRUE(claims_.Serve("other", kEpoch, claims_.Follow(0), {OfOther(2)}, {2}).ok());
    claims_.NoteWorks(Searched(1), false);
  }
  static Claim Searched(int64_t unit_id) {
    Claim claim = MakeClaim(unit_id);
    claim.measured_scope = "scope";
    return claim;
  }
  static Claim OfOther(int64_t unit_id) {
    Claim claim = Searched(unit_id);
    claim.agent_id = "other";
    for (auto& trial : *claim.assignment.mutable_trials()) trial.set_ordinal(trial.ordinal() + 10);
    return claim;
  }
  WorkClaimRequest BeginAsk(const Claim& claim, int64_t ordinal, uint64_t work = 7) {
    wire::ClaimWorkRequest request;
    request.set_agent_id(claim.agent_id);
    request.set_epoch(claim.epoch);
    auto* const asked = request.add_claims();
    asked->set_unit_id(claim.unit_id);
    asked->set_token(claim.token);
    asked->set_ordinal(ordinal);
    asked->set_work(work);
    WorkClaimRequest ask = claims_.BeginAsk(request);
    EXPECT_THAT(ask.claims, SizeIs(1));
    return ask;
  }
  // The store says that another agent has the claim of the work.
  void Wait(const Claim& claim, int64_t ordinal, uint64_t work = 7) {
    WorkAnswer answer;
    answer.is_elsewhere = true;
    claims_.EndAsk(BeginAsk(claim, ordinal, work), {answer});
  }
  bool IsAsked(const Claim& claim, int64_t ordinal, uint64_t work = 7) {
    const WorkClaimRequest ask = BeginAsk(claim, ordinal, work);
    claims_.EndAsk(ask, {});
    return ask.claims.at(0).work != 0;
  }
  // A trial of the claim that does the work is stored: who is told.
  std::set<std::string> End(const Claim& claim, uint64_t work = 7) {
    tunefarm::v1::Trial trial;
    trial.set_work(work);
    return claims_.EndWorks(claim, {trial});
  }
};

TEST_F(ClaimedWorksTest, TheStoreIsAskedForWhatTheAgentHolds) {
  const WorkClaimRequest ask = BeginAsk(OfOther(2), 10);
  EXPECT_EQ(ask.agent_id, "other");
  EXPECT_EQ(ask.epoch, kEpoch);
  EXPECT_EQ(ask.claims[0].study_id, 10);
  EXPECT_EQ(ask.claims[0].unit_id, 2);
  EXPECT_EQ(ask.claims[0].token, OfOther(2).token);
  EXPECT_EQ(ask.claims[0].ordinal, 10);
  EXPECT_EQ(ask.claims[0].work, WorkKey("scope", 7));
  wire::ClaimWorkRequest request;
  request.set_agent_id("other");
  request.set_epoch(kEpoch);
  request.add_claims()->set_unit_id(2);
  EXPECT_TRUE(claims_.KnowsUnits(request));
  request.add_claims()->set_unit_id(3);
  EXPECT_FALSE(claims_.KnowsUnits(request)) << "it may have been claimed through another daemon";
  request.set_epoch(kEpoch + 1);
  EXPECT_TRUE(claims_.KnowsUnits(request)) << "the agent is not served";
}

TEST_F(ClaimedWorksTest, AWorkDependsOnItsScope) {
  Claim moved = Searched(3);
  moved.measured_scope = "another driver";
  Claim final = Searched(4);
  final.measured_scope.clear();
  Serve({Searched(1), moved, final});
  EXPECT_NE(BeginAsk(Searched(1), 0).claims[0].work, BeginAsk(moved, 0).claims[0].work);
  EXPECT_FALSE(IsAsked(final, 0)) << "nothing of it is taken over";
  EXPECT_FALSE(IsAsked(Searched(1), 0, 0)) << "its work is not known";
  EXPECT_TRUE(IsAsked(Searched(1), 0));
}

TEST_F(ClaimedWorksTest, NothingIsAskedForWhatTheAgentDoesNotHold) {
  Claim wrong = Searched(1);
  wrong.token += 1;
  EXPECT_FALSE(IsAsked(wrong, 0));
  wrong = Searched(1);
  wrong.epoch += 1;
  EXPECT_FALSE(IsAsked(wrong, 0));
  EXPECT_FALSE(IsAsked(Searched(2), 10)) << "another agent's unit";
  EXPECT_FALSE(IsAsked(Searched(3), 0));
  claims_.EraseAgent("agent");
  EXPECT_FALSE(IsAsked(Searched(1), 0));
}

TEST_F(ClaimedWorksTest, AgentsThatWaitAreToldOnceWhenATrialOfTheWorkIsStored) {
  Wait(OfOther(2), 10);
  EXPECT_THAT(End(Searched(1), 8), IsEmpty());
  EXPECT_THAT(End(Searched(1)), ElementsAre("other"));
  EXPECT_THAT(End(Searched(1)), IsEmpty());
  // Its answer is under way.
  BeginAsk(OfOther(2), 10);
  EXPECT_THAT(End(Searched(1)), ElementsAre("other"));
  // It need not wait: its trial runs, or the store did not answer.
  claims_.EndAsk(BeginAsk(OfOther(2), 10), {WorkAnswer()});
  claims_.EndAsk(BeginAsk(OfOther(2), 11, 9), {});
  EXPECT_THAT(End(Searched(1)), IsEmpty());
  EXPECT_THAT(End(Searched(1), 9), IsEmpty());
  Wait(OfOther(2), 10);
  EXPECT_THAT(End(OfOther(2)), IsEmpty()) << "it knows";
}

TEST_F(ClaimedWorksTest, AJobThatHasEndedIsForgotten) {
  EXPECT_TRUE(claims_.KnowsWorks(10));
  Wait(OfOther(2), 10);
  claims_.ShareWorks();
  EXPECT_TRUE(claims_.SharesWorks());
  claims_.Forget(1);
  EXPECT_FALSE(claims_.KnowsWorks(10));
  EXPECT_FALSE(claims_.SharesWorks());
  EXPECT_THAT(End(Searched(1)), IsEmpty());
  // What ends while a unit of it is claimed is not noted later, where nobody would forget it.
  claims_.BeginClaim("agent");
  claims_.Forget(1);
  claims_.NoteWorks(Searched(1), true);
  EXPECT_FALSE(claims_.SharesWorks());
  claims_.EndClaim("agent");
  claims_.NoteWorks(Searched(1), true);
  EXPECT_TRUE(claims_.SharesWorks());
}

TEST_F(ClaimedWorksTest, WorksAreForgottenWhenTheDatabaseIsReplaced) {
  Wait(OfOther(2), 10);
  claims_.ShareWorks();
  claims_.Follow(1);
  EXPECT_FALSE(claims_.KnowsWorks(10));
  EXPECT_FALSE(claims_.SharesWorks());
  EXPECT_THAT(End(Searched(1)), IsEmpty());
  claims_.NoteWorks(Searched(1), true);
  EXPECT_FALSE(claims_.KnowsWorks(10)) << "what was read before says nothing";
}

TEST_F(ClaimsTest, AUnitThatMustBeAloneWaitsForTheOthers) {
  Serve({MakeClaim(1)});
  Claim alone = MakeClaim(2);
  alone.is_alone = true;
  wire::SynchronizeResponse response;
  EXPECT_FALSE(claims_.HandOut(alone, &response));
  EXPECT_FALSE(claims_.HasOtherAlone("agent", 3));
  claims_.Erase(MakeClaim(1));
  EXPECT_THAT(Compare({}).assignments(), SizeIs(1));
  EXPECT_TRUE(claims_.HasOtherAlone("agent", 3));
}

}  // namespace
}  // namespace tunefarm
