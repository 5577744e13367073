// Works of trials: which agent measures them, and whose results are taken over.
#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

#include "server/base/mutex.h"
#include "server/base/thread.h"
#include "server/store/agent_store.h"
#include "server/store/job_store.h"
#include "server/store/store.h"
#include "server/store/unit_store.h"
#include "tests/store/conformance.h"

namespace tunefarm {

using testing::SizeIs;

void WorkConformance::SetUp() {
  StoreConformance::SetUp();
  job_id_ = Submit(MakeSubmit("job"));
  study_id_ = StudyOf(job_id_);
  Propose(study_id_, {MakeUnit(0, 4), MakeUnit(4, 4)});
  a_ = Register("a");
  a_unit_ = ClaimOne(a_);
  b_ = Register("b");
  b_unit_ = ClaimOne(b_);
}

std::vector<WorkAnswer> WorkConformance::Ask(const ClaimRequest& agent, const std::vector<WorkClaim>& claims) {
  auto answers = store_->units()->ClaimWorks({agent.agent_id, agent.epoch, claims});
  EXPECT_TRUE(answers.ok()) << answers.status();
  if (!answers.ok()) return std::vector<WorkAnswer>(claims.size());
  EXPECT_THAT(*answers, SizeIs(claims.size()));
  return *std::move(answers);
}

std::string WorkConformance::Said(const ClaimRequest& agent, const ClaimedUnit& unit, int64_t ordinal, int64_t work) {
  const WorkAnswer answer = Ask(agent, {ClaimOf(unit, ordinal, work)}).at(0);
  EXPECT_FALSE(answer.is_elsewhere && answer.measured.has_value());
  if (answer.measured.has_value()) return std::to_string(answer.measured->ordinal);
  return answer.is_elsewhere ? "waits" : "runs";
}

void WorkConformance::Keep(const ClaimRequest& agent, const ClaimedUnit& unit, const TrialRow& trial) {
  EXPECT_EQ(Report(MakeReport(agent, unit, {trial}, false)), ReportVerdict::kAccepted);
}

namespace {

TEST_P(WorkConformance, TheFirstAgentMeasuresAndTheOthersTakeItsResultOver) {
  EXPECT_FALSE(store_->units()->HasWorks(study_id_).value());
  EXPECT_EQ(A(0), "runs");
  EXPECT_TRUE(store_->units()->HasWorks(study_id_).value());
  EXPECT_FALSE(store_->units()->HasWorks(study_id_ + 1).value());
  EXPECT_EQ(A(0), "runs") << "it may ask twice";
  EXPECT_EQ(B(4), "waits");
  EXPECT_EQ(B(5, kWork + 1), "runs") << "another work";
  Keep(a_, a_unit_, Measured(0));
  EXPECT_EQ(B(4), "0");
  EXPECT_EQ(A(1), "0");
  const WorkAnswer answer = Ask(b_, {ClaimOf(b_unit_, 4, kWork)}).at(0);
  EXPECT_EQ(answer.measured->study_id, study_id_);
  EXPECT_EQ(answer.measured->detail, "detail");
  EXPECT_EQ(answer.measured->median_ns, 1000);
  // The next caller of the store knows the same.
  Reopen();
  EXPECT_EQ(B(4), "0");
}

TEST_P(WorkConformance, AClaimOutlivesTheProcessThatServedIt) {
  EXPECT_EQ(A(0), "runs");
  Reopen();
  EXPECT_EQ(B(4), "waits");
  EXPECT_EQ(A(0), "runs");
}

TEST_P(WorkConformance, WhatWasMeasuredWithoutAClaimIsTakenOverToo) {
  Keep(b_, b_unit_, Measured(6));
  EXPECT_TRUE(store_->units()->HasWorks(study_id_).value());
  EXPECT_EQ(A(0), "6");
  // Of several the lowest ordinal counts.
  Keep(a_, a_unit_, Measured(3));
  EXPECT_EQ(A(0), "3");
}

TEST_P(WorkConformance, AResultThatOthersDoNotTakeOverLetsTheNextOneRun) {
  EXPECT_EQ(A(0), "runs");
  EXPECT_EQ(B(4), "waits");
  Keep(a_, a_unit_, Measured(0, 0));
  EXPECT_EQ(B(4), "runs");
  EXPECT_EQ(A(1), "waits");
  Keep(b_, b_unit_, Measured(4));
  EXPECT_EQ(A(1), "4");
}

TEST_P(WorkConformance, AnAgentHoldsAClaimThroughEachOfItsTrials) {
  EXPECT_EQ(A(0), "runs");
  EXPECT_EQ(A(1), "runs") << "its agent makes one of them wait";
  Keep(a_, a_unit_, Measured(0, 0));
  EXPECT_EQ(B(4), "waits");
  Keep(a_, a_unit_, Measured(1, 0));
  EXPECT_EQ(B(4), "runs");
}

TEST_P(WorkConformance, AClaimEndsWithItsUnit) {
  const auto returned = [&] {
    ReportRequest report = MakeReport(a_, a_unit_, {}, false);
    report.unit_returned = true;
    return Report(report) == ReportVerdict::kAccepted;
  };
  const auto done = [&] { return Report(MakeReport(a_, a_unit_, {}, true)) == ReportVerdict::kAccepted; };
  const auto lost = [&] { return store_->agents()->ReleaseAgent("a", kNow).ok(); };
  const auto registered_again = [&] { return Register("a").epoch > a_.epoch; };
  int64_t work = kWork;
  for (const auto& leave : {std::function<bool()>(returned), std::function<bool()>(lost),
                            std::function<bool()>(registered_again), std::function<bool()>(done)}) {
    EXPECT_EQ(A(0, ++work), "runs");
    EXPECT_EQ(B(4, work), "waits");
    EXPECT_TRUE(leave());
    EXPECT_EQ(B(4, work), "runs");
    EXPECT_EQ(A(0, work), "runs") << "it does not hold the trial, and claims nothing";
    EXPECT_EQ(B(4, work), "runs");
    if (work == kWork + 4) break;
    // It comes back under a new token.
    a_ = Register("a");
    a_unit_ = ClaimOne(a_);
    EXPECT_EQ(A(0, work), "waits");
  }
}

TEST_P(WorkConformance, ATrialThatTheAgentDoesNotHoldRunsAndClaimsNothing) {
  WorkClaim wrong_token = ClaimOf(a_unit_, 0, kWork), wrong_unit = wrong_token, wrong_study = wrong_token;
  wrong_token.token += 1;
  wrong_unit.unit_id = b_unit_.unit.unit_id;
  wrong_study.study_id += 1;
  ClaimRequest wrong_epoch = a_;
  wrong_epoch.epoch += 1;
  Keep(a_, a_unit_, Measured(3, 0));
  for (const WorkClaim& claim :
       {wrong_token, wrong_unit, wrong_study, ClaimOf(a_unit_, 4, kWork), ClaimOf(a_unit_, 3, kWork),
        ClaimOf(a_unit_, -1, kWork), ClaimOf(a_unit_, 0, 0), ClaimOf(b_unit_, 4, kWork)}) {
    const WorkAnswer answer = Ask(a_, {claim}).at(0);
    EXPECT_FALSE(answer.is_elsewhere || answer.measured.has_value());
  }
  EXPECT_EQ(Said(wrong_epoch, a_unit_, 0), "runs");
  EXPECT_FALSE(store_->units()->HasWorks(study_id_).value());
}

TEST_P(WorkConformance, AWorkOfZeroIsNotKnown) {
  Keep(a_, a_unit_, Measured(0, 0));
  EXPECT_EQ(B(4, 0), "runs");
  EXPECT_EQ(A(1, 0), "runs");
  EXPECT_FALSE(store_->units()->HasWorks(study_id_).value());
}

TEST_P(WorkConformance, ManyClaimsAreAnsweredAtOnceAndInTheirOrder) {
  EXPECT_EQ(A(0, -1), "runs") << "a work is any number";
  Keep(a_, a_unit_, Measured(1, 20));
  const auto answers = Ask(b_, {ClaimOf(b_unit_, 4, -1), ClaimOf(b_unit_, 5, 20), ClaimOf(b_unit_, 6, 0),
                                ClaimOf(b_unit_, 7, 30), ClaimOf(b_unit_, 7, 30), ClaimOf(b_unit_, 7, 31)});
  EXPECT_TRUE(answers[0].is_elsewhere);
  EXPECT_EQ(answers[1].measured->ordinal, 1);
  for (size_t i = 2; i < 6; ++i) EXPECT_FALSE(answers[i].is_elsewhere || answers[i].measured.has_value());
  EXPECT_THAT(Ask(a_, {}), SizeIs(0));
  std::vector<WorkClaim> many(UnitStore::kWorkClaimsMax, ClaimOf(a_unit_, 2, 40));
  EXPECT_THAT(Ask(a_, many), SizeIs(many.size()));
  many.push_back(many.back());
  EXPECT_TRUE(absl::IsInvalidArgument(store_->units()->ClaimWorks({"a", a_.epoch, many}).status()));
}

TEST_P(WorkConformance, StudiesShareNothing) {
  const int64_t other = StudyOf(Submit(MakeSubmit("other")));
  Propose(other, {MakeUnit(0, 4)});
  const ClaimedUnit unit = ClaimOne(b_);
  ASSERT_EQ(unit.unit.study_id, other);
  EXPECT_EQ(A(0), "runs");
  EXPECT_EQ(Said(b_, unit, 0), "runs");
  Keep(a_, a_unit_, Measured(0));
  EXPECT_EQ(Said(b_, unit, 1), "runs");
}

TEST_P(WorkConformance, WorksGoWithTheirJob) {
  Keep(a_, a_unit_, Measured(0));
  EXPECT_EQ(B(4, 8), "runs");
  ASSERT_TRUE(Set(job_id_, JobState::kCancelled).ok());
  ASSERT_TRUE(store_->jobs()->DeleteJob(job_id_).ok());
  EXPECT_FALSE(store_->units()->HasWorks(study_id_).value());
}

TEST_P(WorkConformance, OneOfManyAgentsGetsAClaim) {
  constexpr int kAgents = 6, kWorks = 16;
  const int64_t study_id = StudyOf(Submit(MakeSubmit("many")));
  std::vector<UnitRow> units;
  for (int i = 0; i < kAgents; ++i) units.push_back(MakeUnit(kWorks * i, kWorks));
  Propose(study_id, units);
  std::vector<std::vector<WorkAnswer>> answers(kAgents);
  {
    std::vector<Thread> threads;
    for (int i = 0; i < kAgents; ++i) {
      const ClaimRequest agent = Register("agent-" + std::to_string(i));
      const ClaimedUnit unit = ClaimOne(agent);
      ASSERT_EQ(unit.unit.study_id, study_id);
      std::vector<WorkClaim> claims;
      for (int work = 0; work < kWorks; ++work) {
        claims.push_back(ClaimOf(unit, unit.unit.first_ordinal + work, 100 + (work + i) % kWorks));
      }
      threads.emplace_back("claims", [this, i, agent, claims, &answers] { answers[i] = Ask(agent, claims); });
    }
  }
  std::vector<int> running(kWorks);
  for (int i = 0; i < kAgents; ++i) {
    ASSERT_THAT(answers[i], SizeIs(kWorks));
    for (int work = 0; work < kWorks; ++work) running[(work + i) % kWorks] += !answers[i][work].is_elsewhere;
  }
  EXPECT_EQ(running, std::vector<int>(kWorks, 1));
}

}  // namespace
}  // namespace tunefarm
