// What a study may learn from others: known studies, samples of their results, priors that stay, measurements by key.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

constexpr int kOk = 1, kCompileError = 4, kCrash = 10;

std::vector<int64_t> Ordinals(const std::vector<ResultRow>& rows) {
  std::vector<int64_t> ordinals;
  for (const ResultRow& row : rows) ordinals.push_back(row.ordinal);
  return ordinals;
}

TEST_P(StoreConformance, StudiesOfAProgramAreFoundUnderWhateverKernelId) {
  SubmitRequest older = MakeSubmit("older", {MakeStudy(1), MakeStudy(2, "other class")});
  older.job.studies[0].toolkit = "12.9";
  SubmitRequest newer = MakeSubmit("newer");
  newer.kernel = MakeKernel("grown");
  newer.kernel->program_digest = older.kernel->program_digest;
  newer.job.kernel_id = "grown";
  SubmitRequest foreign = MakeSubmit("foreign");
  foreign.kernel = MakeKernel("foreign");
  foreign.job.kernel_id = "foreign";
  const int64_t first = Submit(older), second = Submit(newer), third = Submit(foreign);
  // Only those that have handed out trials.
  EXPECT_THAT(store_->studies()->StudiesOfProgram("program-kernel", 10).value(), IsEmpty());
  for (const int64_t study : {StudyOf(first, 1), StudyOf(first, 2), StudyOf(second), StudyOf(third)}) {
    Propose(study, {MakeUnit(0, 4)});
  }
  const std::vector<KnownStudyRow> known = store_->studies()->StudiesOfProgram("program-kernel", 10).value();
  ASSERT_THAT(known, SizeIs(3));  // the newest first
  EXPECT_EQ(known[0].study_id, StudyOf(second));
  EXPECT_EQ(known[0].job_id, second);
  EXPECT_EQ(known[0].toolkit, "");
  EXPECT_EQ(known[1].class_id, "other class");
  EXPECT_EQ(known[2].study_id, StudyOf(first, 1));
  EXPECT_EQ(known[2].problem_key, "m=1");
  EXPECT_EQ(known[2].problem, "problem");
  EXPECT_EQ(known[2].toolkit, "12.9");
  EXPECT_EQ(known[2].next_ordinal, 4);
  EXPECT_THAT(store_->studies()->StudiesOfProgram("program-kernel", 2).value(), SizeIs(2));
  EXPECT_EQ(store_->jobs()->GetJob(first)->studies[0].toolkit, "12.9");
}

TEST_P(StoreConformance, ResultsAreSampledFastestSpreadAndFailed) {
  const ClaimRequest claimer = Register("agent");
  const ClaimedUnit unit = Prepare(claimer, "job", 64);
  std::vector<TrialRow> trials;
  for (int i = 0; i < 60; ++i) {
    const bool failed = i % 4 == 0;
    TrialRow trial = MakeTrial(i, failed ? 0 : 1000 - i, failed ? (i % 8 == 0 ? kCompileError : kCrash) : kOk);
    trials.push_back(trial);
  }
  TrialRow finalist = MakeTrial(60, 1);
  finalist.purpose = 3;
  trials.push_back(finalist);
  ASSERT_EQ(Report(MakeReport(claimer, unit, trials, false)), ReportVerdict::kAccepted);
  ResultQuery query;
  query.study_id = unit.unit.study_id;
  query.fastest_max = 3;
  EXPECT_THAT(Ordinals(store_->trials()->SampleResults(query).value()), ElementsAre(57, 58, 59));
  query = {};
  query.study_id = unit.unit.study_id;
  query.failed_max = 5;
  query.failed_outcomes = {kCrash, kCompileError};
  // Some of each kind, the newest: crashes at 4, 12, 20, ... 52, compile errors at 0, 8, ... 56.
  EXPECT_THAT(Ordinals(store_->trials()->SampleResults(query).value()), ElementsAre(40, 44, 48, 52, 56));
  query.failed_max = 1000;
  EXPECT_THAT(store_->trials()->SampleResults(query).value(), SizeIs(15));
  query = {};
  query.study_id = unit.unit.study_id;
  query.spread_max = 4;  // of 64 ordinals
  EXPECT_THAT(Ordinals(store_->trials()->SampleResults(query).value()), ElementsAre(0, 16, 32, 48));
  query.spread_max = 1000;
  query.fastest_max = 1000;
  const std::vector<ResultRow> all = store_->trials()->SampleResults(query).value();
  ASSERT_THAT(all, SizeIs(60));  // each once, and not the finalist
  EXPECT_EQ(all[1].config, "tile=1");
  EXPECT_EQ(all[1].median_ns, 999);
  EXPECT_EQ(all[4].outcome, kCrash);
  EXPECT_EQ(all[4].median_ns, 0);
  query.study_id = 4711;
  EXPECT_THAT(store_->trials()->SampleResults(query).value(), IsEmpty());
}

DriveStep FirstStep(int64_t study_id) {
  DriveStep step;
  step.study_id = study_id;
  step.new_units = {MakeUnit(0, 4)};
  step.now_ms = kNow;
  step.priors = {{0, std::string("near\0est", 8)}, {1, "next"}};
  return step;
}

TEST_P(StoreConformance, PriorsStayUntilTheStudyEnds) {
  const int64_t source = Submit(MakeSubmit("source"));
  const int64_t job_id = Submit(MakeSubmit("job", {MakeStudy(1), MakeStudy(2)}));
  for (const int number : {1, 2}) ASSERT_TRUE(store_->studies()->Drive(FirstStep(StudyOf(job_id, number))).ok());
  ASSERT_TRUE(Set(source, JobState::kFailed).ok());
  ASSERT_TRUE(store_->jobs()->DeleteJob(source).ok());
  Reopen();
  const std::vector<PriorRow> priors = store_->studies()->LoadPriors(StudyOf(job_id)).value();
  ASSERT_THAT(priors, SizeIs(2));
  EXPECT_EQ(priors[0].payload, std::string("near\0est", 8));
  EXPECT_EQ(priors[1].rank, 1);
  // What a study begins with cannot change.
  DriveStep again = FirstStep(StudyOf(job_id));
  again.new_units = {MakeUnit(4, 4)};
  EXPECT_TRUE(absl::IsFailedPrecondition(store_->studies()->Drive(again).status()));
  EXPECT_THAT(store_->studies()->LoadPriors(StudyOf(job_id)).value(), SizeIs(2));
  DriveStep end;
  end.study_id = StudyOf(job_id, 1);
  end.state = StudyState::kEnded;
  ASSERT_TRUE(store_->studies()->Drive(end).ok());
  EXPECT_THAT(store_->studies()->LoadPriors(StudyOf(job_id, 1)).value(), IsEmpty());
  EXPECT_THAT(store_->studies()->LoadPriors(StudyOf(job_id, 2)).value(), SizeIs(2));
  const int64_t second = StudyOf(job_id, 2);
  ASSERT_TRUE(Set(job_id, JobState::kCancelled).ok());
  EXPECT_THAT(store_->studies()->LoadPriors(second).value(), IsEmpty());
}

TEST_P(StoreConformance, PriorsAndTheFirstStepAreOneTransaction) {
  const int64_t job_id = Submit(MakeSubmit("job"));
  DriveStep step = FirstStep(StudyOf(job_id));
  step.told_unit_ids = {4711};
  EXPECT_FALSE(store_->studies()->Drive(step).ok());
  EXPECT_THAT(store_->studies()->LoadPriors(StudyOf(job_id)).value(), IsEmpty());
  step = FirstStep(StudyOf(job_id));
  step.priors.resize(17);
  EXPECT_TRUE(absl::IsInvalidArgument(store_->studies()->Drive(step).status()));
  step = FirstStep(StudyOf(job_id));
  step.priors[0].payload.assign((size_t{4} << 20) + 1, 'x');
  EXPECT_TRUE(absl::IsInvalidArgument(store_->studies()->Drive(step).status()));
  EXPECT_TRUE(store_->studies()->Drive(FirstStep(StudyOf(job_id))).ok());
}

TEST_P(StoreConformance, MeasurementsAreFoundByTheirKeyAsLongAsTheyAreStored) {
  const std::string a(16, 'a'), b(16, 'b'), c(16, 'c');
  const ClaimRequest claimer = Register("agent");
  const auto measure = [&](const std::string& uid) {
    const ClaimedUnit unit = Prepare(claimer, uid);
    std::vector<TrialRow> trials = {MakeTrial(0), MakeTrial(1), MakeTrial(2)};
    trials[0].measured_key = a;
    trials[1].measured_key = b;
    EXPECT_EQ(Report(MakeReport(claimer, unit, trials, true)), ReportVerdict::kAccepted);
    return unit;
  };
  const ClaimedUnit older = measure("older"), newer = measure("newer");
  auto found = store_->trials()->FindMeasured({b, c, a}).value();
  ASSERT_THAT(found, SizeIs(3));
  EXPECT_FALSE(found[1].has_value());
  ASSERT_TRUE(found[0].has_value() && found[2].has_value());
  EXPECT_EQ(found[0]->trial.ordinal, 1);
  EXPECT_EQ(found[2]->trial.ordinal, 0);
  EXPECT_EQ(found[2]->trial.detail, "detail");
  EXPECT_EQ(found[2]->job_id, newer.job_id);
  EXPECT_EQ(found[2]->study_number, 1);
  ASSERT_TRUE(Set(newer.job_id, JobState::kCancelled).ok());
  ASSERT_TRUE(store_->jobs()->DeleteJob(newer.job_id).ok());
  EXPECT_EQ(store_->trials()->FindMeasured({a}).value()[0]->job_id, older.job_id);
  ASSERT_TRUE(Set(older.job_id, JobState::kCancelled).ok());
  ASSERT_TRUE(store_->jobs()->DeleteJob(older.job_id).ok());
  EXPECT_FALSE(store_->trials()->FindMeasured({a}).value()[0].has_value());
  EXPECT_TRUE(absl::IsInvalidArgument(store_->trials()->FindMeasured({"short"}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(store_->trials()->FindMeasured(std::vector<std::string>(65, a)).status()));
}

}  // namespace
}  // namespace tunefarm
