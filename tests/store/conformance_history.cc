// What is read back: a study's history as it was decided, and its trials, page by page.
#include <gmock/gmock.h>

#include <map>

#include "server/base/status.h"
#include "server/store/job_store.h"
#include "server/store/study_store.h"
#include "server/store/trial_store.h"
#include "server/store/unit_store.h"
#include "tests/store/conformance.h"

namespace tunefarm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

TEST_P(StoreConformance, AHistoryIsReadInParts) {
  const ClaimRequest claimer = Register("agent", 1);
  const int64_t study_id = StudyOf(Submit(MakeSubmit("uid")));
  const std::vector<int64_t> ids = Propose(study_id, {MakeUnit(0, 2), MakeUnit(2, 2), MakeUnit(4, 2)});
  const ClaimedUnit first = ClaimOne(claimer), second = ClaimOne(claimer);
  Report(MakeReport(claimer, first, {MakeTrial(0), MakeTrial(1)}, true));
  Report(MakeReport(claimer, second, {MakeTrial(2)}, false));
  DriveStep tell;
  tell.study_id = study_id;
  tell.told_unit_ids = {ids[0]};
  tell.now_ms = kNow;
  ASSERT_TRUE(store_->studies()->Drive(tell).ok());

  // Two proposals: of the told unit nothing but itself, of the open one what it has.
  const StudyHistory begin = store_->studies()->LoadHistory(study_id, 0, 2).value();
  ASSERT_THAT(begin.events, SizeIs(2));
  EXPECT_THAT(begin.units, SizeIs(2));
  ASSERT_THAT(begin.trials, SizeIs(1));
  EXPECT_EQ(begin.trials[0].ordinal, 2);
  // A proposal and the tell, which brings the trials of its unit.
  const StudyHistory end = store_->studies()->LoadHistory(study_id, begin.events.back().sequence, 2).value();
  ASSERT_THAT(end.events, SizeIs(2));
  EXPECT_EQ(end.events[1].kind, StudyEvent::Kind::kTell);
  EXPECT_THAT(end.units, SizeIs(2));
  EXPECT_THAT(end.trials, SizeIs(2));
  EXPECT_THAT(store_->studies()->LoadHistory(study_id, end.events.back().sequence, 2)->events, IsEmpty());
}

TEST_P(StoreConformance, HistoryReplaysInTheOrderItWasDecided) {
  const ClaimRequest claimer = Register("agent", 10);
  const int64_t study_id = StudyOf(Submit(MakeSubmit("uid")));
  const std::vector<int64_t> ids = Propose(study_id, {MakeUnit(0, 2), MakeUnit(2, 1), MakeUnit(3, 1)});
  for (const ClaimedUnit& unit : Claim(claimer)) {
    EXPECT_EQ(Report(MakeReport(claimer, unit, {MakeTrial(unit.unit.first_ordinal)}, unit.unit.unit_id != ids[1])),
              ReportVerdict::kAccepted);
  }
  DriveStep step;
  step.study_id = study_id;
  step.told_unit_ids = {ids[2], ids[0]};
  step.new_units = {MakeUnit(4, 64)};
  step.state = StudyState::kFinals;
  step.next_ordinal = 100;
  step.now_ms = kNow;
  const std::vector<int64_t> more = store_->studies()->Drive(step).value().unit_ids;
  Reopen();
  const StudyHistory history = store_->studies()->LoadHistory(study_id, 0, kWholeHistory).value();
  std::vector<std::pair<StudyEvent::Kind, int64_t>> events;
  for (const StudyEvent& event : history.events) {
    EXPECT_EQ(event.sequence, static_cast<int64_t>(events.size()) + 1);
    events.emplace_back(event.kind, event.unit_id);
  }
  using Step = StudyEvent::Kind;
  EXPECT_THAT(events, ElementsAre(std::pair(Step::kPropose, ids[0]), std::pair(Step::kPropose, ids[1]),
                                  std::pair(Step::kPropose, ids[2]), std::pair(Step::kTell, ids[2]),
                                  std::pair(Step::kTell, ids[0]), std::pair(Step::kPropose, more[0])));
  ASSERT_THAT(history.units, SizeIs(4));
  EXPECT_EQ(history.units[0].state, UnitState::kTold);
  EXPECT_EQ(history.units[1].state, UnitState::kClaimed);
  EXPECT_EQ(history.units[3].state, UnitState::kReady);
  std::vector<int64_t> ordinals;
  for (const TrialRow& trial : history.trials) ordinals.push_back(trial.ordinal);
  EXPECT_THAT(ordinals, ElementsAre(0, 2, 3));
  const StudyRow study = AllJobs(store_.get())[0].studies[0];
  EXPECT_EQ(study.state, StudyState::kFinals);
  EXPECT_EQ(study.next_ordinal, 100);
}

TEST_P(StoreConformance, ARefusedStepChangesNothing) {
  const ClaimRequest claimer = Register("agent");
  const ClaimedUnit unit = Prepare(claimer);
  DriveStep not_done;
  not_done.study_id = unit.unit.study_id;
  not_done.new_units = {MakeUnit(4, 1)};
  not_done.told_unit_ids = {unit.unit.unit_id};
  EXPECT_TRUE(absl::IsFailedPrecondition(store_->studies()->Drive(not_done).status()));
  DriveStep used_ordinal;
  used_ordinal.study_id = unit.unit.study_id;
  used_ordinal.new_units = {MakeUnit(4, 1), MakeUnit(3, 1)};
  EXPECT_TRUE(absl::IsFailedPrecondition(store_->studies()->Drive(used_ordinal).status()));
  DriveStep wrong_size;
  wrong_size.study_id = unit.unit.study_id;
  for (const int count : {0, 65}) {
    wrong_size.new_units = {MakeUnit(4, 1), MakeUnit(5, count)};
    EXPECT_TRUE(absl::IsInvalidArgument(store_->studies()->Drive(wrong_size).status())) << count;
  }
  DriveStep unknown;
  unknown.study_id = unit.unit.study_id + 1;
  EXPECT_TRUE(absl::IsNotFound(store_->studies()->Drive(unknown).status()));
  const StudyHistory history = store_->studies()->LoadHistory(unit.unit.study_id, 0, kWholeHistory).value();
  EXPECT_THAT(history.events, SizeIs(1));
  EXPECT_THAT(history.units, SizeIs(1));
  EXPECT_EQ(store_->jobs()->GetJob(unit.job_id)->studies[0].next_ordinal, 4);
}

TEST_P(StoreConformance, AnEndedStudyHandsOutAndTakesNothing) {
  const int64_t study_id = StudyOf(Submit(MakeSubmit("uid")));
  Propose(study_id, {MakeUnit(0, 1)});
  DriveStep step;
  step.study_id = study_id;
  step.state = StudyState::kEnded;
  ASSERT_TRUE(store_->studies()->Drive(step).ok());
  EXPECT_THAT(Claim(Register("agent", 10)), IsEmpty());
  EXPECT_TRUE(absl::IsFailedPrecondition(store_->studies()->Drive(step).status()));
}

TEST_P(StoreConformance, TrialsOfAFinalByOrdinalAndByTime) {
  const ClaimRequest claimer = Register("agent", 10);
  const int64_t job_id = Submit(MakeSubmit("uid"));
  Propose(StudyOf(job_id), {MakeUnit(0, 6)});
  std::vector<TrialRow> trials = {MakeTrial(0, 10), MakeTrial(1, 40),    MakeTrial(2, 0, 4),
                                  MakeTrial(3, 40), MakeTrial(4, 0, 12), MakeTrial(5, 30)};
  for (TrialRow& trial : trials) trial.purpose = trial.ordinal == 0 ? 1 : 3;
  for (const ClaimedUnit& unit : Claim(claimer)) {
    EXPECT_EQ(Report(MakeReport(claimer, unit, trials, true)), ReportVerdict::kAccepted);
  }
  const auto walk = [&](bool order_by_time, const std::vector<int>& outcomes, int page_size) {
    TrialQuery query;
    query.job_id = job_id;
    query.order_by_time = order_by_time;
    query.outcomes = outcomes;
    query.purpose = 3;
    query.page.page_size = page_size;
    std::vector<int64_t> seen;
    do {
      const Page<TrialRow> page = store_->trials()->ListTrials(query).value();
      for (const TrialRow& trial : page.rows) seen.push_back(trial.ordinal);
      query.page.page_token = page.next_page_token;
    } while (!query.page.page_token.empty() && seen.size() < 10);
    return seen;
  };
  for (const int page_size : {1, 2, 100}) {
    EXPECT_THAT(walk(false, {}, page_size), ElementsAre(1, 2, 3, 4, 5));
    EXPECT_THAT(walk(true, {}, page_size), ElementsAre(5, 1, 3, 2, 4));
    EXPECT_THAT(walk(false, {1}, page_size), ElementsAre(1, 3, 5));
    EXPECT_THAT(walk(true, {1, 12}, page_size), ElementsAre(5, 1, 3, 4));
  }
}

TEST_P(StoreConformance, TrialsByOrdinalAndByTime) {
  const ClaimRequest claimer = Register("agent", 10);
  const int64_t job_id = Submit(MakeSubmit("uid", {MakeStudy(1), MakeStudy(2)}));
  for (int number = 1; number <= 2; ++number) Propose(StudyOf(job_id, number), {MakeUnit(0, 4)});
  TrialRow finalist = MakeTrial(3, 20);
  finalist.purpose = 3;
  for (const ClaimedUnit& unit : Claim(claimer)) {
    EXPECT_EQ(
        Report(MakeReport(claimer, unit, {MakeTrial(0, 50), MakeTrial(1, 0, 4), MakeTrial(2, 50), finalist}, true)),
        ReportVerdict::kAccepted);
  }
  const int64_t second_study = StudyOf(job_id, 2);
  const auto walk = [&](TrialQuery query, int page_size) {
    std::vector<std::pair<int, int64_t>> seen;
    query.job_id = job_id;
    query.page.page_size = page_size;
    for (int guard = 0; guard < 20; ++guard) {
      const Page<TrialRow> page = store_->trials()->ListTrials(query).value();
      for (const TrialRow& trial : page.rows) seen.emplace_back(trial.study_id == second_study ? 2 : 1, trial.ordinal);
      if (page.next_page_token.empty()) return seen;
      query.page.page_token = page.next_page_token;
    }
    ADD_FAILURE() << "the pages never end";
    return seen;
  };
  using P = std::pair<int, int64_t>;
  for (const int page_size : {1, 3, 100}) {
    TrialQuery query;
    EXPECT_THAT(walk(query, page_size),
                ElementsAre(P(1, 0), P(1, 1), P(1, 2), P(1, 3), P(2, 0), P(2, 1), P(2, 2), P(2, 3)));
    query.order_by_time = true;
    EXPECT_THAT(walk(query, page_size),
                ElementsAre(P(1, 3), P(2, 3), P(1, 0), P(1, 2), P(2, 0), P(2, 2), P(1, 1), P(2, 1)));
    query.study_number = 2;
    EXPECT_THAT(walk(query, page_size), ElementsAre(P(2, 3), P(2, 0), P(2, 2), P(2, 1)));
    query.purpose = 1;
    EXPECT_THAT(walk(query, page_size), ElementsAre(P(2, 0), P(2, 2), P(2, 1)));
    query.outcomes = {4, 12};
    EXPECT_THAT(walk(query, page_size), ElementsAre(P(2, 1)));
  }
  TrialQuery finals;
  finals.purpose = 3;
  EXPECT_THAT(walk(finals, 1), ElementsAre(P(1, 3), P(2, 3)));
  TrialQuery unknown;
  unknown.job_id = job_id + 1;
  EXPECT_TRUE(absl::IsNotFound(store_->trials()->ListTrials(unknown).status()));

  std::map<std::tuple<int64_t, int, int>, int64_t> counts;
  const std::vector<OutcomeCountRow> rows = store_->trials()->CountOutcomes(job_id).value();
  for (const OutcomeCountRow& row : rows) {
    counts[{row.study_id, row.purpose, row.outcome}] = row.count;
  }
  EXPECT_THAT(counts, SizeIs(6));
  EXPECT_EQ((counts[{second_study, 1, 1}]), 2);
  EXPECT_EQ((counts[{second_study, 1, 4}]), 1);
  EXPECT_EQ((counts[{second_study, 3, 1}]), 1);
  EXPECT_TRUE(absl::IsNotFound(store_->trials()->CountOutcomes(job_id + 1).status()));
}

TEST_P(StoreConformance, ColumnsAndTrialsByOrdinal) {
  const ClaimRequest claimer = Register("agent", 10);
  const int64_t job_id = Submit(MakeSubmit("uid", {MakeStudy(1), MakeStudy(2)}));
  const int64_t study_id = StudyOf(job_id, 1);
  Propose(study_id, {MakeUnit(0, 64), MakeUnit(64, 6)});
  const std::vector<ClaimedUnit> units = Claim(claimer);
  ASSERT_THAT(units, SizeIs(2));
  ASSERT_EQ(units[1].unit.first_ordinal, 64);
  EXPECT_EQ(Report(MakeReport(claimer, units[0], {MakeTrial(0, 50), MakeTrial(2, 0, 4)}, false)),
            ReportVerdict::kAccepted);
  TrialRow finalist = MakeTrial(66, 20);
  finalist.purpose = 3;
  EXPECT_EQ(Report(MakeReport(claimer, units[1], {MakeTrial(64, 70), MakeTrial(65, 0, 12), finalist}, false)),
            ReportVerdict::kAccepted);
  const std::vector<TrialColumns> all = store_->trials()->ReadColumns(study_id, 0, 100).value();
  ASSERT_THAT(all, SizeIs(5));
  EXPECT_EQ(all[0].ordinal, 0);
  EXPECT_EQ(all[0].outcome, 1);
  EXPECT_EQ(all[0].purpose, 1);
  EXPECT_EQ(all[0].config, MakeTrial(0).config);
  EXPECT_EQ(all[0].median_ns, 50);
  EXPECT_EQ(all[0].ended_at_ms, MakeTrial(0).ended_at_ms);
  EXPECT_EQ(all[0].detail, MakeTrial(0).detail) << "one of the first";
  EXPECT_EQ(all[1].ordinal, 2);
  EXPECT_EQ(all[1].median_ns, 0);
  EXPECT_EQ(all[2].ordinal, 64);
  EXPECT_EQ(all[2].detail, "") << "neither one of the first nor one that failed";
  EXPECT_EQ(all[3].outcome, 12);
  EXPECT_EQ(all[3].detail, MakeTrial(65, 0, 12).detail);
  EXPECT_EQ(all[4].purpose, 3);
  const std::vector<TrialColumns> part = store_->trials()->ReadColumns(study_id, 1, 2).value();
  ASSERT_THAT(part, SizeIs(2));
  EXPECT_EQ(part[0].ordinal, 2);
  EXPECT_EQ(part[1].ordinal, 64);
  EXPECT_THAT(store_->trials()->ReadColumns(study_id, 67, 10).value(), IsEmpty());
  EXPECT_THAT(store_->trials()->ReadColumns(StudyOf(job_id, 2), 0, 10).value(), IsEmpty());

  std::vector<int64_t> ordinals;
  const auto rows = store_->trials()->GetTrials(study_id, {66, 1, 0}).value();
  for (const TrialRow& row : rows) {
    ordinals.push_back(row.ordinal);
    EXPECT_EQ(row.study_id, study_id);
    EXPECT_EQ(row.detail, MakeTrial(row.ordinal).detail);
  }
  EXPECT_THAT(ordinals, testing::UnorderedElementsAre(66, 0));
  EXPECT_THAT(store_->trials()->GetTrials(study_id, {}).value(), IsEmpty());
  EXPECT_TRUE(absl::IsInvalidArgument(store_->trials()->GetTrials(study_id, std::vector<int64_t>(1001, 0)).status()));
}

TEST_P(StoreConformance, TrialPagesAreStableWhileTrialsArrive) {
  const ClaimRequest claimer = Register("agent");
  const ClaimedUnit unit = Prepare(claimer, "uid", 10);
  for (const int64_t ordinal : {2, 4, 6}) {
    EXPECT_EQ(Report(MakeReport(claimer, unit, {MakeTrial(ordinal, 100.0 + static_cast<double>(ordinal))}, false)),
              ReportVerdict::kAccepted);
  }
  TrialQuery query;
  query.job_id = unit.job_id;
  query.order_by_time = true;
  query.page.page_size = 2;
  const Page<TrialRow> first = store_->trials()->ListTrials(query).value();
  ASSERT_THAT(first.rows, SizeIs(2));
  EXPECT_TRUE(first.rows[0].log.empty());
  // One that is faster than all seen, and one slower than all.
  EXPECT_EQ(Report(MakeReport(claimer, unit, {MakeTrial(0, 1), MakeTrial(1, 900)}, false)), ReportVerdict::kAccepted);
  query.page.page_token = first.next_page_token;
  const Page<TrialRow> second = store_->trials()->ListTrials(query).value();
  std::vector<int64_t> rest;
  for (const TrialRow& trial : second.rows) rest.push_back(trial.ordinal);
  EXPECT_THAT(rest, ElementsAre(6, 1));
  query.order_by_time = false;
  EXPECT_TRUE(absl::IsInvalidArgument(store_->trials()->ListTrials(query).status()));
}

}  // namespace
}  // namespace tunefarm
