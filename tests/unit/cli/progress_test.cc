#include "client/cli/studies/progress.h"

#include <gtest/gtest.h>

#include "server/base/check.h"
#include "tests/fakes/fake_clock.h"

namespace tunefarm::cli {
namespace {

v1::JobEvent Snapshot(int64_t done, int64_t total, int studies) {
  v1::JobEvent event;
  event.mutable_job()->mutable_progress()->set_done(done);
  event.mutable_job()->mutable_progress()->set_total(total);
  for (int i = 1; i <= studies; ++i)
    event.mutable_job()->add_studies()->set_name("jobs/1/studies/" + std::to_string(i));
  return event;
}

v1::JobEvent Ended(int study, v1::TrialPurpose purpose, v1::Outcome outcome, double median_ns, int64_t done,
                   int64_t total) {
  v1::JobEvent event;
  event.set_study("jobs/1/studies/" + std::to_string(study));
  event.mutable_trial_ended()->set_purpose(purpose);
  event.mutable_trial_ended()->set_outcome(outcome);
  event.mutable_trial_ended()->mutable_measurement()->set_median_ns(median_ns);
  event.mutable_progress()->set_done(done);
  event.mutable_progress()->set_total(total);
  return event;
}

class ProgressTest : public testing::Test {
 protected:
  ProgressTest() {
    session_.err = open_memstream(&text_, &size_);
    session_.clock = &still_;
    TUNEFARM_CHECK(session_.err != nullptr);
  }
  ~ProgressTest() override {
    std::fclose(session_.err);
    std::free(text_);
  }
  std::string Printed() {
    std::fflush(session_.err);
    return std::string(text_, size_);
  }

  char* text_ = nullptr;
  size_t size_ = 0;
  FakeClock still_;
  Session session_;
};

TEST_F(ProgressTest, WhatHoldsAJobUpIsToldOnce) {
  Progress progress(&session_);
  v1::JobEvent waits = Snapshot(0, 8, 1);
  waits.mutable_job()->set_state_reason("H200: trials wait: another process measures on it");
  progress.OnEvent(waits);
  progress.OnEvent(waits);
  waits.mutable_job()->clear_state_reason();
  waits.mutable_job()->set_state(v1::JOB_STATE_RUNNING);
  progress.OnEvent(waits);
  const std::string printed = Printed();
  EXPECT_EQ(printed.find("H200: trials wait"), printed.rfind("H200: trials wait")) << printed;
  EXPECT_NE(printed.find("H200: trials wait"), std::string::npos) << printed;
  EXPECT_NE(printed.find("the job continues"), std::string::npos) << printed;
}

TEST_F(ProgressTest, AHeldUpJobThatEndsDoesNotGoOn) {
  Progress progress(&session_);
  v1::JobEvent waits = Snapshot(0, 8, 1);
  waits.mutable_job()->set_state_reason("H200: trials wait: another process measures on it");
  progress.OnEvent(waits);
  waits.mutable_job()->clear_state_reason();
  waits.mutable_job()->set_state(v1::JOB_STATE_CANCELLED);
  progress.OnEvent(waits);
  EXPECT_EQ(Printed().find("the job continues"), std::string::npos);
}

TEST_F(ProgressTest, OneStudyShowsItsBestAndTheSpeedup) {
  Progress progress(&session_);
  progress.OnEvent(Snapshot(0, 8, 1));
  EXPECT_EQ(progress.Line(), "[0/8]   0%");
  progress.OnEvent(Ended(1, v1::TRIAL_PURPOSE_BASELINE, v1::OUTCOME_OK, 200, 0, 8));
  EXPECT_EQ(progress.Line(), "[0/8]   0%");
  progress.OnEvent(Ended(1, v1::TRIAL_PURPOSE_SEARCH, v1::OUTCOME_OK, 100, 1, 8));
  EXPECT_EQ(progress.Line(), "[1/8]  12%  best 100 ns (2.00x baseline)");
  // Slower, or wrong: no new best.
  progress.OnEvent(Ended(1, v1::TRIAL_PURPOSE_SEARCH, v1::OUTCOME_OK, 150, 2, 8));
  progress.OnEvent(Ended(1, v1::TRIAL_PURPOSE_SEARCH, v1::OUTCOME_WRONG_RESULT, 10, 3, 8));
  EXPECT_EQ(progress.Line(), "[3/8]  37%  best 100 ns (2.00x baseline)");
  // The final's numbers are other ones: they count when it is decided.
  progress.OnEvent(Ended(1, v1::TRIAL_PURPOSE_FINALIST, v1::OUTCOME_OK, 90, 8, 8));
  EXPECT_EQ(progress.Line(), "[8/8] 100%  best 100 ns (2.00x baseline)");
  v1::JobEvent decided;
  decided.mutable_study_changed()->set_name("jobs/1/studies/1");
  decided.mutable_study_changed()->mutable_incumbent()->mutable_measurement()->set_median_ns(95);
  progress.OnEvent(decided);
  EXPECT_EQ(progress.Line(), "[8/8] 100%  best 95 ns (2.11x baseline)");
}

TEST_F(ProgressTest, SeveralStudiesShowHowManyAreDoneAndHaveABest) {
  Progress progress(&session_);
  progress.OnEvent(Snapshot(0, 20, 3));
  progress.OnEvent(Ended(2, v1::TRIAL_PURPOSE_SEARCH, v1::OUTCOME_OK, 100, 1, 20));
  EXPECT_EQ(progress.Line(), "[1/20]   5%  0/3 problems done, 1 have a best");
  v1::JobEvent ended;
  for (const char* const study : {"jobs/1/studies/1", "jobs/1/studies/2"}) {
    ended.mutable_study_changed()->set_name(study);
    ended.mutable_study_changed()->set_state(v1::STUDY_STATE_ENDED);
    *ended.mutable_progress() = Ended(2, v1::TRIAL_PURPOSE_SEARCH, v1::OUTCOME_OK, 100, 8, 20).progress();
    progress.OnEvent(ended);
  }
  EXPECT_EQ(progress.Line(), "[8/20]  40%  2/3 problems done, 1 have a best");
}

TEST_F(ProgressTest, CountsFinalsFailuresAndTheTimeLeft) {
  Progress progress(&session_);
  v1::JobEvent event = Snapshot(30, 20, 1);
  v1::Progress* counts = event.mutable_job()->mutable_progress();
  counts->set_total_is_estimate(true);
  counts->set_eta_ms(90'000);
  counts->set_finals_done(2);
  counts->set_finals_total(15);
  const auto add = [&](v1::Outcome outcome, int64_t count) {
    counts->add_outcomes()->set_outcome(outcome);
    counts->mutable_outcomes(counts->outcomes_size() - 1)->set_count(count);
  };
  add(v1::OUTCOME_RUN_CRASH, 1);
  add(v1::OUTCOME_OK, 1200);
  add(v1::OUTCOME_WRONG_RESULT, 1300);
  add(v1::OUTCOME_NOISY, 0);
  progress.OnEvent(event);
  EXPECT_EQ(progress.Line(), "[30/~20] 100%  final 2/15  eta 1 min 30 s  1,300 WRONG_RESULT, 1 RUN_CRASH");
  EXPECT_EQ(OutcomesText(*counts), "1,200 OK, 1,300 WRONG_RESULT, 1 RUN_CRASH");
  EXPECT_EQ(OutcomesText(v1::Progress()), "none");
  EXPECT_EQ(FailureText(v1::Progress()), "");
}

TEST_F(ProgressTest, OffATerminalALinePerTenthAndNoControlCharacters) {
  Progress progress(&session_);
  progress.OnEvent(Snapshot(0, 100, 1));
  for (int i = 1; i <= 25; ++i) {
    progress.OnEvent(Ended(1, v1::TRIAL_PURPOSE_SEARCH, v1::OUTCOME_RUN_CRASH, 0, i, 100));
  }
  progress.Finish();
  EXPECT_EQ(Printed(), "[0/100]   0%\n[10/100]  10%\n[20/100]  20%\n");
}

TEST_F(ProgressTest, OnATerminalOneLineIsRewritten) {
  session_.err_is_terminal = true;
  Progress progress(&session_);
  progress.OnEvent(Snapshot(0, 2, 1));
  progress.OnEvent(Ended(1, v1::TRIAL_PURPOSE_SEARCH, v1::OUTCOME_RUN_CRASH, 0, 1, 2));
  v1::JobEvent message;
  message.set_message("A worker was restarted.");
  progress.OnEvent(message);
  progress.Finish();
  progress.Finish();
  EXPECT_EQ(Printed(), "\r[0/2]   0%\x1b[K\r[1/2]  50%\x1b[K\r\x1b[KA worker was restarted.\n\r[1/2]  50%\x1b[K\n");
}

TEST_F(ProgressTest, ElapsedTimeAndRate) {
  FakeClock clock;
  session_.clock = &clock;
  Progress progress(&session_);
  v1::JobEvent begun = Snapshot(10, 100, 1);
  begun.mutable_job()->set_started_at_ms(clock.WallMs() - 60'000);
  progress.OnEvent(begun);
  EXPECT_EQ(progress.Line(), "[10/100]  10%  1 min 00 s");
  clock.Advance(std::chrono::seconds(8));
  progress.OnEvent(Ended(1, v1::TRIAL_PURPOSE_SEARCH, v1::OUTCOME_OK, 100, 30, 100));
  EXPECT_EQ(progress.Line(), "[30/100]  30%  1 min 08 s  2.5 trials/s  best 100 ns");
}

TEST_F(ProgressTest, QuietPrintsNothing) {
  session_.quiet = true;
  session_.err_is_terminal = true;
  Progress progress(&session_);
  progress.OnEvent(Snapshot(0, 2, 1));
  progress.Finish();
  EXPECT_EQ(Printed(), "");
}

TEST(OutcomeTextTest, NamesAndUnknownNumbers) {
  EXPECT_EQ(OutcomeText(v1::OUTCOME_RUN_CRASH), "RUN_CRASH");
  EXPECT_EQ(OutcomeText(static_cast<v1::Outcome>(999)), "OUTCOME 999");
}

}  // namespace
}  // namespace tunefarm::cli
