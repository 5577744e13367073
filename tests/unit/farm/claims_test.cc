#include "server/farm/claims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

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
    }
    std::map<std::string, Claims::Demand> wanted = {{"device", {8, 0}}};
    std::set<int64_t> left_jobs;
    wire::SynchronizeResponse response;
    EXPECT_TRUE(claims_.Compare(request, &wanted, &left_jobs, &response));
    return response;
  }

  Claims claims_{0};
};

TEST_F(ClaimsTest, WhatTheAgentDoesNotListIsHandedOutAgainWithItsToken) {
  Serve({MakeClaim(1), MakeClaim(2)});
  const auto response = Compare({MakeClaim(1)});
  ASSERT_THAT(response.assignments(), SizeIs(1));
  EXPECT_EQ(response.assignments(0).token(), MakeClaim(2).token);
  EXPECT_THAT(response.revoked_unit_ids(), IsEmpty());
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
  Claims::WorkAnswer Ask(const Claim& claim, int64_t ordinal, uint64_t work = 7) {
    wire::ClaimWorkRequest request;
    request.set_agent_id(claim.agent_id);
    request.set_epoch(claim.epoch);
    auto* const asked = request.add_claims();
    asked->set_unit_id(claim.unit_id);
    asked->set_token(claim.token);
    asked->set_ordinal(ordinal);
    asked->set_work(work);
    const auto answers = claims_.AskWorks(request);
    EXPECT_THAT(answers, SizeIs(1));
    return answers.at(0);
  }
  bool Runs(const Claim& claim, int64_t ordinal, uint64_t work = 7) {
    const Claims::WorkAnswer answer = Ask(claim, ordinal, work);
    return !answer.is_elsewhere && !answer.measured.has_value();
  }
  static tunefarm::v1::Trial Ended(int64_t ordinal, tunefarm::v1::Outcome outcome = tunefarm::v1::OUTCOME_OK) {
    tunefarm::v1::Trial trial;
    trial.set_ordinal(ordinal);
    trial.set_outcome(outcome);
    trial.set_phase(tunefarm::v1::PHASE_MEASURE);
    trial.set_work(7);
    return trial;
  }
  // It is stored and told.
  std::set<std::string> Report(const Claim& claim, const tunefarm::v1::Trial& trial) {
    const auto known = claims_.Find(ReportOf(claim, {trial.ordinal()}));
    EXPECT_TRUE(known.has_value());
    std::set<std::string> told = claims_.EndWorks(*known, {trial});
    claims_.Reported(*known, {trial});
    return told;
  }
};

TEST_F(ClaimedWorksTest, AVerdictIsTakenOverByTheAgentThatWaits) {
  EXPECT_TRUE(Runs(Searched(1), 0));
  EXPECT_TRUE(Ask(OfOther(2), 10).is_elsewhere);
  EXPECT_THAT(Report(Searched(1), Ended(0)), ElementsAre("other"));
  EXPECT_EQ(Ask(OfOther(2), 10).measured, 0);
  EXPECT_EQ(Ask(OfOther(2), 10).study_id, 10);
}

TEST_F(ClaimedWorksTest, OnlyVerdictsAreTakenOver) {
  EXPECT_TRUE(Runs(Searched(1), 0));
  EXPECT_TRUE(Ask(OfOther(2), 10).is_elsewhere);
  EXPECT_THAT(Report(Searched(1), Ended(0, tunefarm::v1::OUTCOME_NOISY)), ElementsAre("other"));
  EXPECT_TRUE(Runs(OfOther(2), 10));
  EXPECT_TRUE(Ask(Searched(1), 1).is_elsewhere);
  tunefarm::v1::Trial throttled = Ended(10);
  throttled.mutable_measurement()->set_throttled(true);
  EXPECT_THAT(Report(OfOther(2), throttled), ElementsAre("agent"));
  EXPECT_TRUE(Runs(Searched(1), 1));
  // What is itself a copy is none: its first trial is reported, too.
  tunefarm::v1::Trial copy = Ended(1);
  copy.set_reused(true);
  Report(Searched(1), copy);
  EXPECT_TRUE(Runs(OfOther(2), 11));
}

TEST_F(ClaimedWorksTest, AClaimEndsWithItsUnit) {
  const auto returned = [&] { claims_.Erase(Searched(1)); };
  const auto lost = [&] { claims_.EraseAgent("agent"); };
  const auto held = [&] { claims_.Hold(1); };
  const auto dropped = [&] { claims_.Cancel(1); };
  const auto not_listed = [&] {
    wire::SynchronizeRequest request;
    request.set_agent_id("agent");
    request.set_epoch(kEpoch);
    std::map<std::string, Claims::Demand> wanted;
    std::set<int64_t> left_jobs;
    wire::SynchronizeResponse response;
    EXPECT_TRUE(claims_.Compare(request, &wanted, &left_jobs, &response));
  };
  for (const std::function<void()>& leave :
       {std::function<void()>(returned), std::function<void()>(lost), std::function<void()>(held),
        std::function<void()>(dropped), std::function<void()>(not_listed)}) {
    claims_.BeginAgain();
    SetUp();
    EXPECT_TRUE(Runs(Searched(1), 0));
    EXPECT_TRUE(Ask(OfOther(2), 10).is_elsewhere);
    leave();
    EXPECT_TRUE(Runs(OfOther(2), 10));
  }
}

TEST_F(ClaimedWorksTest, WhatTheAgentDoesNotHoldRunsAndClaimsNothing) {
  Claim wrong = Searched(1);
  wrong.token += 1;
  EXPECT_TRUE(Runs(wrong, 0));
  wrong = Searched(1);
  wrong.epoch += 1;
  EXPECT_TRUE(Runs(wrong, 0));
  EXPECT_TRUE(Runs(Searched(1), 5)) << "no trial of the unit";
  EXPECT_TRUE(Runs(Searched(2), 10)) << "another agent's unit";
  EXPECT_TRUE(Runs(OfOther(2), 10));
  EXPECT_TRUE(Ask(Searched(1), 0).is_elsewhere);
}

TEST_F(ClaimedWorksTest, WorksAreForgottenWhenTheDatabaseIsReplaced) {
  EXPECT_TRUE(Runs(Searched(1), 0));
  const auto known = claims_.Find(ReportOf(Searched(1), {0}));
  ASSERT_TRUE(known.has_value());
  claims_.Follow(1);
  EXPECT_THAT(claims_.EndWorks(*known, {Ended(0)}), IsEmpty());
  Claim other = OfOther(2);
  other.replacements = 1;
  ASSERT_TRUE(claims_.Serve("other", kEpoch, 1, {other}, {2}).ok());
  EXPECT_TRUE(Runs(other, 10));
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
