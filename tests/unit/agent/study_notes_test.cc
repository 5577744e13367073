#include "server/agent/study_notes.h"

#include <gtest/gtest.h>

#include <string>

namespace tunefarm {
namespace {

using tunefarm::v1::Trial;

Trial Ended(tunefarm::v1::Outcome outcome, int64_t ordinal = 7) {
  Trial trial;
  trial.set_ordinal(ordinal);
  trial.set_outcome(outcome);
  trial.set_phase(tunefarm::v1::PHASE_VERIFY);
  trial.set_log("long");
  if (outcome == tunefarm::v1::OUTCOME_OK || outcome == tunefarm::v1::OUTCOME_NOISY) {
    trial.mutable_measurement()->set_median_ns(1000);
    trial.mutable_measurement()->set_ci_high_ns(1010);
    trial.mutable_measurement()->add_sample_ns(1000);
  }
  return trial;
}

TEST(StudyNotes, WorkThatRunsIsWaitedForAndItsVerdictIsKept) {
  StudyNotes notes;
  const Digest work = Sha256("work");
  EXPECT_FALSE(notes.Find(1, work).runs);
  notes.Begin(1, work);
  EXPECT_TRUE(notes.Find(1, work).runs);
  EXPECT_EQ(notes.Find(1, work).verdict, nullptr);
  const Trial ended = Ended(tunefarm::v1::OUTCOME_OK);
  notes.End(1, work, &ended);
  const StudyNotes::Twin twin = notes.Find(1, work);
  EXPECT_FALSE(twin.runs);
  ASSERT_NE(twin.verdict, nullptr);
  EXPECT_EQ(twin.verdict->ordinal(), 7);
  EXPECT_EQ(twin.verdict->measurement().median_ns(), 1000);
  EXPECT_EQ(twin.verdict->measurement().sample_ns_size(), 0);
  EXPECT_EQ(twin.verdict->log(), "");
  // Of this study and this work only.
  EXPECT_EQ(notes.Find(2, work).verdict, nullptr);
  EXPECT_EQ(notes.Find(1, Sha256("other work")).verdict, nullptr);
}

TEST(StudyNotes, OnlyVerdictsOnTheConfigArePassedOn) {
  using namespace tunefarm::v1;  // NOLINT: the outcomes
  for (int value = Outcome_MIN; value <= Outcome_MAX; ++value) {
    const auto outcome = static_cast<Outcome>(value);
    StudyNotes notes;
    const tunefarm::v1::Trial ended = Ended(outcome);
    notes.End(1, Sha256("work"), &ended);
    const bool expected = outcome == OUTCOME_OK || outcome == OUTCOME_INFEASIBLE_LAUNCH ||
                          outcome == OUTCOME_LOAD_ERROR || outcome == OUTCOME_RUN_TIMEOUT ||
                          outcome == OUTCOME_RUN_CRASH || outcome == OUTCOME_OUT_OF_BOUNDS ||
                          outcome == OUTCOME_WRONG_RESULT || outcome == OUTCOME_SANDBOX_VIOLATION;
    EXPECT_EQ(notes.Find(1, Sha256("work")).verdict != nullptr, expected) << Outcome_Name(outcome);
  }
}

TEST(StudyNotes, BadConditionsAndCrashesOfTheReferenceAreNoVerdicts) {
  StudyNotes notes;
  Trial throttled = Ended(tunefarm::v1::OUTCOME_OK);
  throttled.mutable_measurement()->set_throttled(true);
  notes.End(1, Sha256("a"), &throttled);
  Trial contended = Ended(tunefarm::v1::OUTCOME_OK);
  contended.mutable_measurement()->set_contended(true);
  notes.End(1, Sha256("b"), &contended);
  Trial preparing = Ended(tunefarm::v1::OUTCOME_RUN_CRASH);
  preparing.clear_phase();
  notes.End(1, Sha256("c"), &preparing);
  for (const char* work : {"a", "b", "c"}) EXPECT_EQ(notes.Find(1, Sha256(work)).verdict, nullptr) << work;
}

TEST(StudyNotes, MemoryIsBounded) {
  StudyNotes notes;
  const Trial ended = Ended(tunefarm::v1::OUTCOME_OK);
  const auto work = [](size_t i) { return Sha256("work " + std::to_string(i)); };
  for (size_t i = 0; i <= StudyNotes::kVerdictsPerStudyMax; ++i) notes.End(1, work(i), &ended);
  EXPECT_EQ(notes.Find(1, work(0)).verdict, nullptr);
  EXPECT_NE(notes.Find(1, work(1)).verdict, nullptr);
  notes.Begin(2, work(0));
  for (size_t i = 0; i < StudyNotes::kStudiesMax; ++i) notes.End(static_cast<int64_t>(100 + i), work(1), &ended);
  EXPECT_EQ(notes.Find(1, work(1)).verdict, nullptr);
  EXPECT_TRUE(notes.Find(2, work(0)).runs) << "a study with work under way is not forgotten";
}

TEST(StudyNotes, TheTimeToBeatIsTheSmallestUpperEnd) {
  StudyNotes notes;
  EXPECT_EQ(notes.RaceLimitNs(1, 0), 0);
  EXPECT_EQ(notes.RaceLimitNs(1, 500), 500);
  notes.NoteTime(1, Ended(tunefarm::v1::OUTCOME_OK));
  EXPECT_EQ(notes.RaceLimitNs(1, 0), 1010);
  EXPECT_EQ(notes.RaceLimitNs(1, 500), 500);
  EXPECT_EQ(notes.RaceLimitNs(1, 2000), 1010);
  EXPECT_EQ(notes.RaceLimitNs(2, 0), 0);
  Trial slower = Ended(tunefarm::v1::OUTCOME_OK);
  slower.mutable_measurement()->set_ci_high_ns(3000);
  notes.NoteTime(1, slower);
  Trial noisy = Ended(tunefarm::v1::OUTCOME_NOISY);
  noisy.mutable_measurement()->set_ci_high_ns(10);
  notes.NoteTime(1, noisy);
  EXPECT_EQ(notes.RaceLimitNs(1, 0), 1010);
}

}  // namespace
}  // namespace tunefarm
