// Units: claiming, fencing, reporting, giving back.
#include <gmock/gmock.h>

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "server/base/mutex.h"
#include "server/base/status.h"
#include "server/base/thread.h"
#include "server/store/agent_store.h"
#include "server/store/job_store.h"
#include "server/store/store.h"
#include "server/store/store_maintenance.h"
#include "server/store/study_store.h"
#include "server/store/trial_store.h"
#include "server/store/unit_store.h"
#include "tests/store/conformance.h"

namespace tunefarm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

TEST_P(StoreConformance, ClaimHandsOutWhatTheUnitNeeds) {
  const int64_t job_id = Submit(MakeSubmit("uid"));
  const int64_t study_id = StudyOf(job_id);
  UnitRow finals = MakeUnit(3, 2, "payload");
  finals.kind = UnitKind::kFinals;
  finals.rounds = 5;
  const std::vector<int64_t> ids = Propose(study_id, {finals});
  const ClaimedUnit claimed = ClaimOne(Register("agent"));
  EXPECT_EQ(claimed.unit.unit_id, ids[0]);
  EXPECT_EQ(claimed.unit.study_id, study_id);
  EXPECT_EQ(claimed.unit.kind, UnitKind::kFinals);
  EXPECT_EQ(claimed.unit.state, UnitState::kClaimed);
  EXPECT_EQ(claimed.unit.first_ordinal, 3);
  EXPECT_EQ(claimed.unit.trial_count, 2);
  EXPECT_EQ(claimed.unit.rounds, 5);
  EXPECT_EQ(claimed.unit.payload, "payload");
  EXPECT_GE(claimed.unit.token, 1);
  EXPECT_EQ(claimed.unit.attempt, 1);
  EXPECT_EQ(claimed.job_id, job_id);
  EXPECT_EQ(claimed.kernel_id, "kernel");
  EXPECT_EQ(claimed.problem, "problem");
  EXPECT_EQ(claimed.job_spec, "spec");
  EXPECT_THAT(claimed.present_ordinals, IsEmpty());
  const JobRow job = store_->jobs()->GetJob(job_id).value();
  EXPECT_EQ(job.state, JobState::kRunning);
  EXPECT_EQ(job.started_at_ms, kNow);
}

TEST_P(StoreConformance, ClaimsGoByPriorityThenByOrder) {
  SubmitRequest low = MakeSubmit("low");
  SubmitRequest high = MakeSubmit("high");
  high.job.priority = 5;
  const std::vector<int64_t> low_ids = Propose(StudyOf(Submit(low)), {MakeUnit(0, 1), MakeUnit(1, 1)});
  const std::vector<int64_t> high_ids = Propose(StudyOf(Submit(high)), {MakeUnit(0, 1), MakeUnit(1, 1)});
  std::vector<int64_t> order;
  for (const ClaimedUnit& unit : Claim(Register("agent", 3))) order.push_back(unit.unit.unit_id);
  EXPECT_THAT(order, ElementsAre(high_ids[0], high_ids[1], low_ids[0]));
}

TEST_P(StoreConformance, JobsOfOnePriorityTakeTurns) {
  const int64_t huge = Submit(MakeSubmit("huge", {MakeStudy(1), MakeStudy(2)}));
  for (int number = 1; number <= 2; ++number) {
    Propose(StudyOf(huge, number), {MakeUnit(0, 32), MakeUnit(32, 32), MakeUnit(64, 32)});
  }
  const ClaimRequest claimer = Register("agent");
  EXPECT_EQ(ClaimOne(claimer).job_id, huge);
  // Those that come later need not wait until it has ended.
  const int64_t small = Submit(MakeSubmit("small")), tiny = Submit(MakeSubmit("tiny"));
  Propose(StudyOf(small), {MakeUnit(0, 32), MakeUnit(32, 32)});
  Propose(StudyOf(tiny), {MakeUnit(0, 1)});
  std::vector<int64_t> order;
  for (int i = 0; i < 8; ++i) order.push_back(ClaimOne(claimer).job_id);
  EXPECT_THAT(order, ElementsAre(small, tiny, huge, small, huge, huge, huge, huge));
  EXPECT_THAT(Claim(claimer), IsEmpty());
}

TEST_P(StoreConformance, AClaimEndsWithTheUnitThatBringsEnoughTrials) {
  const int64_t first = StudyOf(Submit(MakeSubmit("first"))), second = StudyOf(Submit(MakeSubmit("second")));
  for (const int64_t study_id : {first, second}) Propose(study_id, {MakeUnit(0, 20), MakeUnit(20, 20)});
  ClaimRequest claimer = Register("agent", 8);
  const auto claimed = [&](int trials_max) {
    claimer.trials_max = trials_max;
    std::vector<int64_t> studies;
    for (const ClaimedUnit& unit : Claim(claimer)) studies.push_back(unit.unit.study_id);
    return studies;
  };
  EXPECT_THAT(claimed(1), ElementsAre(first));
  // Across jobs, whose turns are the same as without a bound.
  EXPECT_THAT(claimed(21), ElementsAre(first, second));
  EXPECT_THAT(claimed(0), ElementsAre(second));
}

TEST_P(StoreConformance, ATurnIsAsManyTrialsForSmallUnitsAsForLargeOnes) {
  const int64_t coarse = Submit(MakeSubmit("coarse")), fine = Submit(MakeSubmit("fine"));
  Propose(StudyOf(coarse), {MakeUnit(0, 32), MakeUnit(32, 32), MakeUnit(64, 32)});
  std::vector<UnitRow> units;
  for (int i = 0; i < 12; ++i) units.push_back(MakeUnit(4 * i, 4));
  Propose(StudyOf(fine), units);
  std::vector<int64_t> jobs;
  for (const ClaimedUnit& unit : Claim(Register("agent", 20))) jobs.push_back(unit.job_id);
  std::vector<int64_t> expected = {coarse};
  expected.insert(expected.end(), 8, fine);
  expected.push_back(coarse);
  expected.insert(expected.end(), 4, fine);
  expected.push_back(coarse);
  EXPECT_EQ(jobs, expected);
}

TEST_P(StoreConformance, AJobsStudiesAreServedOneAfterAnother) {
  const int64_t first = Submit(MakeSubmit("first", {MakeStudy(1), MakeStudy(2)}));
  const int64_t second = Submit(MakeSubmit("second"));
  Propose(StudyOf(first, 2), {MakeUnit(0, 32)});
  Propose(StudyOf(first, 1), {MakeUnit(0, 32), MakeUnit(32, 32)});
  Propose(StudyOf(second), {MakeUnit(0, 32), MakeUnit(32, 32)});
  std::vector<int64_t> order;
  for (const ClaimedUnit& unit : Claim(Register("agent", 10))) order.push_back(unit.unit.study_id);
  EXPECT_THAT(order,
              ElementsAre(StudyOf(first, 1), StudyOf(second), StudyOf(first, 1), StudyOf(second), StudyOf(first, 2)));
}

TEST_P(StoreConformance, AStreamOfUrgentJobsDoesNotReorderTheOthers) {
  const int64_t a = Submit(MakeSubmit("a")), b = Submit(MakeSubmit("b"));
  Propose(StudyOf(a), {MakeUnit(0, 32), MakeUnit(32, 32)});
  Propose(StudyOf(b), {MakeUnit(0, 32), MakeUnit(32, 32)});
  const ClaimRequest claimer = Register("agent");
  std::vector<int64_t> order;
  for (int i = 0; i < 4; ++i) {
    SubmitRequest urgent = MakeSubmit("urgent-" + std::to_string(i));
    urgent.job.priority = 9;
    const int64_t job_id = Submit(urgent);
    Propose(StudyOf(job_id), {MakeUnit(0, 1)});
    EXPECT_EQ(ClaimOne(claimer).job_id, job_id);
    order.push_back(ClaimOne(claimer).job_id);
  }
  EXPECT_THAT(order, ElementsAre(a, b, a, b));
}

TEST_P(StoreConformance, ClaimsOnlyWhatTheDeviceMayRun) {
  const int64_t job_id = Submit(
      MakeSubmit("uid", {MakeStudy(1, "class", "gpu-1"), MakeStudy(2, "other"), MakeStudy(3, "class", "gpu-0")}));
  for (int number = 1; number <= 3; ++number) Propose(StudyOf(job_id, number), {MakeUnit(0, 1)});
  const std::vector<ClaimedUnit> units = Claim(Register("agent", 10));
  ASSERT_THAT(units, SizeIs(1));
  EXPECT_EQ(units[0].unit.study_id, StudyOf(job_id, 3));
}

TEST_P(StoreConformance, ClaimsOnlyFromJobsThatRun) {
  const ClaimRequest claimer = Register("agent", 10);
  for (const JobState state : {JobState::kPaused, JobState::kCancelling, JobState::kCancelled}) {
    const int64_t job_id = Submit(MakeSubmit("uid-" + std::to_string(static_cast<int>(state))));
    Propose(StudyOf(job_id), {MakeUnit(0, 1)});
    ASSERT_TRUE(Set(job_id, state).ok());
    EXPECT_THAT(Claim(claimer), IsEmpty()) << static_cast<int>(state);
    if (state != JobState::kPaused) continue;
    ASSERT_TRUE(Set(job_id, JobState::kRunning).ok());
    EXPECT_THAT(Claim(claimer), SizeIs(1));
  }
}

TEST_P(StoreConformance, ClaimNeedsTheCurrentEpoch) {
  const ClaimRequest old = Register("agent");
  const ClaimRequest current = Register("agent");
  EXPECT_GT(current.epoch, old.epoch);
  EXPECT_TRUE(absl::IsFailedPrecondition(store_->units()->ClaimUnits(old).status()));
  EXPECT_TRUE(store_->units()->ClaimUnits(current).ok());
  ASSERT_TRUE(store_->agents()->ReleaseAgent("agent", kNow).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(store_->units()->ClaimUnits(current).status()));
  EXPECT_TRUE(
      absl::IsFailedPrecondition(store_->units()->ClaimUnits({"stranger", 1, "gpu-0", "class", 1, kNow}).status()));
  EXPECT_TRUE(absl::IsNotFound(store_->agents()->ReleaseAgent("stranger", kNow)));
}

TEST_P(StoreConformance, WhatWasGivenOutInALostHourIsRefused) {
  const ClaimRequest claimer = Register("agent");
  const int64_t job_id = Submit(MakeSubmit("job"));
  Propose(StudyOf(job_id), {MakeUnit(0, 1), MakeUnit(1, 1)});
  const ClaimedUnit held = ClaimOne(claimer);
  // The hour: it happens, and then it did not.
  store_.reset();
  absl::StatusOr<std::unique_ptr<Store>> backup = GetParam().open_copy(directory_.path());
  ASSERT_TRUE(backup.ok()) << backup.status();
  Reopen();
  const ClaimedUnit lost = ClaimOne(claimer);
  const ClaimRequest lost_agent = Register("late");
  const int64_t lost_epoch = Register("agent").epoch;
  store_ = *std::move(backup);

  const ReportRequest late = MakeReport(claimer, lost, {MakeTrial(1)}, true);
  EXPECT_EQ(Report(late), ReportVerdict::kStale) << "nobody holds it now";
  const ClaimedUnit again = ClaimOne(claimer);
  ASSERT_EQ(again.unit.unit_id, lost.unit.unit_id);
  EXPECT_EQ(again.unit.attempt, lost.unit.attempt);
  EXPECT_NE(again.unit.token, lost.unit.token);
  EXPECT_EQ(Report(late), ReportVerdict::kStale) << "held once more, by the same agent under the same epoch";
  EXPECT_EQ(Report(MakeReport(claimer, again, {MakeTrial(1)}, true)), ReportVerdict::kAccepted);
  EXPECT_EQ(Report(MakeReport(claimer, held, {MakeTrial(0)}, true)), ReportVerdict::kAccepted) << "claimed before";
  EXPECT_NE(Register("late").epoch, lost_agent.epoch);
  EXPECT_TRUE(absl::IsFailedPrecondition(store_->units()->ClaimUnits(lost_agent).status()));
  EXPECT_NE(Register("agent").epoch, lost_epoch);
}

TEST_P(StoreConformance, ReportsAreFenced) {
  const ClaimRequest claimer = Register("agent");
  const ClaimedUnit unit = Prepare(claimer);
  ReportRequest report = MakeReport(claimer, unit, {MakeTrial(0)}, true);
  const ReportRequest good = report;
  report.token += 1;
  EXPECT_EQ(Report(report), ReportVerdict::kStale);
  report = good;
  report.token -= 1;
  EXPECT_EQ(Report(report), ReportVerdict::kStale);
  report = good;
  report.epoch += 1;
  EXPECT_EQ(Report(report), ReportVerdict::kStale);
  report = good;
  report.agent_id = "another";
  EXPECT_EQ(Report(report), ReportVerdict::kStale);
  report = good;
  report.unit_id += 1;
  EXPECT_EQ(Report(report), ReportVerdict::kStale);
  EXPECT_THAT(store_->studies()->LoadHistory(unit.unit.study_id, 0, kWholeHistory)->trials, IsEmpty());
  EXPECT_EQ(Report(good), ReportVerdict::kAccepted);
  EXPECT_EQ(store_->studies()->LoadHistory(unit.unit.study_id, 0, kWholeHistory)->units[0].state, UnitState::kDone);
  // The unit is DONE: nobody holds it any more.
  EXPECT_EQ(Report(good), ReportVerdict::kStale);
}

TEST_P(StoreConformance, AReleasedAgentsReportsAreStaleAndItsUnitsAreClaimedAgain) {
  const ClaimRequest first = Register("first");
  const ClaimedUnit unit = Prepare(first);
  EXPECT_EQ(Report(MakeReport(first, unit, {MakeTrial(1)}, false)), ReportVerdict::kAccepted);
  ASSERT_TRUE(store_->agents()->ReleaseAgent("first", kNow).ok());
  EXPECT_EQ(Report(MakeReport(first, unit, {MakeTrial(2)}, false)), ReportVerdict::kStale);
  const ClaimRequest second = Register("second");
  const ClaimedUnit again = ClaimOne(second);
  EXPECT_EQ(again.unit.unit_id, unit.unit.unit_id);
  EXPECT_GT(again.unit.token, unit.unit.token);
  EXPECT_EQ(again.unit.attempt, 2);
  EXPECT_THAT(again.present_ordinals, ElementsAre(1));
  EXPECT_EQ(Report(MakeReport(first, unit, {MakeTrial(2)}, true)), ReportVerdict::kStale);
  EXPECT_EQ(Report(MakeReport(second, again, {MakeTrial(0), MakeTrial(2), MakeTrial(3)}, true)),
            ReportVerdict::kAccepted);
  EXPECT_THAT(store_->studies()->LoadHistory(unit.unit.study_id, 0, kWholeHistory)->trials, SizeIs(4));
}

TEST_P(StoreConformance, AReturnedUnitKeepsItsResultsAndIsClaimedByAnother) {
  const ClaimRequest first = Register("first"), second = Register("second");
  const ClaimedUnit unit = Prepare(first);
  ReportRequest report = MakeReport(first, unit, {MakeTrial(0), MakeTrial(1)}, false);
  report.unit_returned = true;
  ReportRequest foreign = report;
  foreign.agent_id = "second";
  EXPECT_EQ(Report(foreign), ReportVerdict::kStale);
  EXPECT_TRUE(Claim(second).empty()) << "it was not its to return";
  EXPECT_EQ(Report(report), ReportVerdict::kAccepted);
  const ClaimedUnit again = ClaimOne(second);
  EXPECT_EQ(again.unit.unit_id, unit.unit.unit_id);
  EXPECT_GT(again.unit.token, unit.unit.token);
  EXPECT_EQ(again.present_ordinals, (std::vector<int64_t>{0, 1}));
  // Who gave it back has no say any more, and cannot give it back twice.
  EXPECT_EQ(Report(report), ReportVerdict::kStale);
  EXPECT_EQ(Report(MakeReport(first, unit, {MakeTrial(2)}, true)), ReportVerdict::kStale);
  EXPECT_EQ(Report(MakeReport(second, again, {MakeTrial(2), MakeTrial(3)}, true)), ReportVerdict::kAccepted);
}

TEST_P(StoreConformance, RegisteringAgainReturnsTheUnitsOfTheProcessBefore) {
  const ClaimRequest old = Register("agent");
  const ClaimedUnit unit = Prepare(old);
  const ClaimRequest current = Register("agent");
  EXPECT_EQ(Report(MakeReport(old, unit, {MakeTrial(0)}, false)), ReportVerdict::kStale);
  EXPECT_EQ(ClaimOne(current).unit.unit_id, unit.unit.unit_id);
}

TEST_P(StoreConformance, ReturnedUnitsQueueBehindTheOthers) {
  const ClaimRequest first = Register("first");
  const int64_t study_id = StudyOf(Submit(MakeSubmit("uid")));
  const std::vector<int64_t> ids = Propose(study_id, {MakeUnit(0, 1), MakeUnit(1, 1)});
  ASSERT_EQ(ClaimOne(first).unit.unit_id, ids[0]);
  ASSERT_TRUE(store_->agents()->ReleaseAgent("first", kNow).ok());
  std::vector<int64_t> order;
  for (const ClaimedUnit& unit : Claim(Register("second", 2))) order.push_back(unit.unit.unit_id);
  EXPECT_THAT(order, ElementsAre(ids[1], ids[0]));
}

TEST_P(StoreConformance, ReleaseOtherAgentsSparesThoseNamed) {
  const ClaimRequest kept = Register("kept");
  const ClaimRequest lost = Register("lost", 2);
  const int64_t study_id = StudyOf(Submit(MakeSubmit("uid")));
  Propose(study_id, {MakeUnit(0, 1), MakeUnit(1, 1), MakeUnit(2, 1)});
  const ClaimedUnit of_kept = ClaimOne(kept);
  const std::vector<ClaimedUnit> of_lost = Claim(lost);
  ASSERT_THAT(of_lost, SizeIs(2));
  EXPECT_EQ(store_->agents()->ReleaseOtherAgents({"kept", "unknown"}, kNow).value(), 2);
  EXPECT_EQ(store_->agents()->ReleaseOtherAgents({"kept"}, kNow).value(), 0);
  EXPECT_EQ(Report(MakeReport(kept, of_kept, {MakeTrial(0)}, true)), ReportVerdict::kAccepted);
  EXPECT_EQ(Report(MakeReport(lost, of_lost[0], {MakeTrial(1)}, true)), ReportVerdict::kStale);
}

TEST_P(StoreConformance, AnOrdinalKeepsItsFirstResult) {
  const ClaimRequest claimer = Register("agent");
  const ClaimedUnit unit = Prepare(claimer);
  TrialRow first = MakeTrial(1, 500);
  first.log = std::string("log\0with zero", 13);
  first.samples = "samples";
  EXPECT_EQ(Report(MakeReport(claimer, unit, {first}, false)), ReportVerdict::kAccepted);
  TrialRow second = MakeTrial(1, 900, 12);
  second.log = "other";
  EXPECT_EQ(Report(MakeReport(claimer, unit, {second, MakeTrial(2, 0, 4)}, false)), ReportVerdict::kAccepted);
  const TrialRow stored = store_->trials()->GetTrial(unit.job_id, 1, 1).value();
  EXPECT_EQ(stored.study_id, unit.unit.study_id);
  EXPECT_EQ(stored.median_ns, 500);
  EXPECT_EQ(stored.outcome, 1);
  EXPECT_EQ(stored.purpose, 1);
  EXPECT_EQ(stored.config, "tile=1");
  EXPECT_EQ(stored.device_uuid, "gpu-0");
  EXPECT_EQ(stored.detail, "detail");
  EXPECT_EQ(stored.ended_at_ms, kNow + 1);
  EXPECT_EQ(stored.log, first.log);
  EXPECT_EQ(stored.samples, "samples");
  EXPECT_EQ(store_->trials()->GetTrial(unit.job_id, 1, 2)->median_ns, 0);
  EXPECT_TRUE(absl::IsNotFound(store_->trials()->GetTrial(unit.job_id, 1, 3).status()));
  EXPECT_TRUE(absl::IsNotFound(store_->trials()->GetTrial(unit.job_id, 2, 1).status()));
  EXPECT_TRUE(absl::IsNotFound(store_->trials()->GetTrial(unit.job_id + 1, 1, 1).status()));
}

TEST_P(StoreConformance, ARefusedReportStoresNothing) {
  const ClaimRequest claimer = Register("agent");
  const ClaimedUnit unit = Prepare(claimer);
  TrialRow long_log = MakeTrial(1);
  long_log.log.assign(64 * 1024 + 1, 'x');
  TrialRow other_study = MakeTrial(1);
  other_study.study_id = unit.unit.study_id + 1;
  TrialRow bad_time = MakeTrial(1, -1);
  TrialRow bad_attempt = MakeTrial(1);
  bad_attempt.attempt = 0;
  for (const TrialRow& bad : {MakeTrial(4), MakeTrial(-1), long_log, other_study, bad_time, bad_attempt}) {
    const absl::Status status =
        store_->units()->ReportTrials(MakeReport(claimer, unit, {MakeTrial(0), bad}, true)).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  }
  const StudyHistory history = store_->studies()->LoadHistory(unit.unit.study_id, 0, kWholeHistory).value();
  EXPECT_THAT(history.trials, IsEmpty());
  EXPECT_EQ(history.units[0].state, UnitState::kClaimed);
}

TEST_P(StoreConformance, UnitsOfAnEndedJobFinishButNeverReturn) {
  const ClaimRequest claimer = Register("agent", 2);
  const int64_t job_id = Submit(MakeSubmit("uid"));
  Propose(StudyOf(job_id), {MakeUnit(0, 1), MakeUnit(1, 1), MakeUnit(2, 1)});
  const std::vector<ClaimedUnit> units = Claim(claimer);
  ASSERT_TRUE(Set(job_id, JobState::kCancelled).ok());
  EXPECT_EQ(Report(MakeReport(claimer, units[0], {MakeTrial(0)}, true)), ReportVerdict::kAccepted);
  ASSERT_TRUE(store_->agents()->ReleaseAgent("agent", kNow).ok());
  EXPECT_THAT(Claim(Register("agent", 10)), IsEmpty());
  const StudyHistory history = store_->studies()->LoadHistory(units[0].unit.study_id, 0, kWholeHistory).value();
  ASSERT_THAT(history.units, SizeIs(1));
  EXPECT_EQ(history.units[0].state, UnitState::kDone);
}

TEST_P(StoreConformance, EveryStateTransitionOfAUnit) {
  using Event = std::function<absl::Status(const ClaimedUnit& unit)>;
  // The holder is the agent that claimed the unit last, under the token that it got then.
  ClaimRequest holder;
  const auto report = [&](const ClaimedUnit& unit, bool is_done) -> absl::Status {
    ReportRequest request = MakeReport(holder, unit, {}, is_done);
    if (is_done) request.trials = {MakeTrial(0)};
    request.unit_returned = !is_done;
    const absl::StatusOr<ReportVerdict> verdict = store_->units()->ReportTrials(request);
    if (!verdict.ok()) return verdict.status();
    return *verdict == ReportVerdict::kAccepted ? absl::OkStatus() : FailedPrecondition("stale");
  };
  const std::map<std::string, Event> events = {
      {"claim",
       [&](const ClaimedUnit&) {
         return Claim(Register("another")).empty() ? FailedPrecondition("nothing to claim") : absl::OkStatus();
       }},
      {"report as done", [&](const ClaimedUnit& unit) { return report(unit, true); }},
      {"return", [&](const ClaimedUnit& unit) { return report(unit, false); }},
      {"tell",
       [&](const ClaimedUnit& unit) {
         DriveStep step;
         step.study_id = unit.unit.study_id;
         step.told_unit_ids = {unit.unit.unit_id};
         step.now_ms = kNow;
         return store_->studies()->Drive(step).status();
       }},
      {"the holder ends", [&](const ClaimedUnit&) { return store_->agents()->ReleaseAgent(holder.agent_id, kNow); }},
  };
  const std::map<std::pair<UnitState, std::string>, UnitState> allowed = {
      {{UnitState::kReady, "claim"}, UnitState::kClaimed},
      {{UnitState::kClaimed, "report as done"}, UnitState::kDone},
      {{UnitState::kClaimed, "return"}, UnitState::kReady},
      {{UnitState::kClaimed, "the holder ends"}, UnitState::kReady},
      {{UnitState::kDone, "tell"}, UnitState::kTold},
  };
  int number = 0;
  for (const UnitState from : {UnitState::kReady, UnitState::kClaimed, UnitState::kDone, UnitState::kTold}) {
    for (const auto& [name, event] : events) {
      SCOPED_TRACE(testing::Message() << "unit in state " << static_cast<int>(from) << ": " << name);
      holder = Register("holder-" + std::to_string(number));
      const int64_t job_id = Submit(MakeSubmit("uid-" + std::to_string(number++)));
      const int64_t study_id = StudyOf(job_id);
      Propose(study_id, {MakeUnit(0, 1)});
      const ClaimedUnit unit = ClaimOne(holder);
      if (from == UnitState::kReady) {
        ASSERT_TRUE(report(unit, false).ok());
      }
      if (from == UnitState::kDone || from == UnitState::kTold) {
        ASSERT_TRUE(report(unit, true).ok());
      }
      if (from == UnitState::kTold) {
        ASSERT_TRUE(events.at("tell")(unit).ok());
      }
      const auto state = [&] { return store_->studies()->LoadHistory(study_id, 0, kWholeHistory)->units.at(0).state; };
      ASSERT_EQ(state(), from);
      const absl::Status status = event(unit);
      const auto to = allowed.find({from, name});
      EXPECT_EQ(state(), to == allowed.end() ? from : to->second) << status;
      // An agent may end in any state; of units that it does not hold nothing changes.
      EXPECT_EQ(status.ok(), to != allowed.end() || name == "the holder ends") << status;
      // Nothing of this unit is left for the next one's claims.
      ASSERT_TRUE(Set(job_id, JobState::kFailed).ok());
    }
  }
}

TEST_P(StoreConformance, ManyThreadsClaimEachUnitOnce) {
  constexpr int kThreads = 8;
  constexpr int kUnits = 200;
  const int64_t study_id = StudyOf(Submit(MakeSubmit("uid")));
  std::vector<UnitRow> units;
  for (int i = 0; i < kUnits; ++i) units.push_back(MakeUnit(i, 1));
  Propose(study_id, units);
  Mutex mutex;
  std::map<int64_t, int> claims;
  {
    std::vector<Thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      const ClaimRequest claimer = Register("agent-" + std::to_string(i), 1 + i % 3);
      threads.emplace_back("claimer", [&, claimer] {
        for (std::vector<ClaimedUnit> got = Claim(claimer); !got.empty(); got = Claim(claimer)) {
          for (const ClaimedUnit& unit : got) {
            EXPECT_EQ(Report(MakeReport(claimer, unit, {MakeTrial(unit.unit.first_ordinal)}, true)),
                      ReportVerdict::kAccepted);
            MutexLock lock(&mutex);
            ++claims[unit.unit.unit_id];
          }
        }
      });
    }
  }
  EXPECT_THAT(claims, SizeIs(kUnits));
  for (const auto& [unit_id, count] : claims) EXPECT_EQ(count, 1) << unit_id;
  EXPECT_THAT(store_->studies()->LoadHistory(study_id, 0, kWholeHistory)->trials, SizeIs(kUnits));
}

TEST_P(StoreConformance, AFailingWriteLeavesItsNeighboursAlone) {
  constexpr int kEach = 50;
  {
    std::vector<Thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back("submitter", [&, i] {
        for (int n = 0; n < kEach; ++n) {
          const std::string uid = std::to_string(i) + "-" + std::to_string(n);
          // Odd threads fail half-way through each submit, in the same group commits as the others.
          const SubmitRequest request = i % 2 == 0 ? MakeSubmit(uid) : MakeSubmit(uid, {MakeStudy(1), MakeStudy(0)});
          EXPECT_EQ(store_->jobs()->SubmitJob(request).ok(), i % 2 == 0);
        }
      });
    }
  }
  EXPECT_EQ(store_->maintenance()->Status()->active_jobs, 2 * kEach);
  EXPECT_THAT(store_->jobs()->ListJobs({}, {1000, ""})->rows, SizeIs(2 * kEach));
}

}  // namespace
}  // namespace tunefarm
