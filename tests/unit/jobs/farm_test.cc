// Jobs through service, driver, serialising link, agent and database, on a scripted evaluator.
#include "tests/unit/jobs/farm.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/random.h"
#include "server/base/status.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;
using tunefarm::v1::Trial;

std::string TextOf(const tunefarm::v1::Config& config) {
  return "A=" + std::to_string(config.values().at("A").int_value()) +
         ",B=" + std::to_string(config.values().at("B").int_value());
}

class FarmTest : public testing::Test {
 protected:
  TemporaryDirectory directory_;
};

TEST_F(FarmTest, TunesTwoProblemsAndPromotesTheFastestOfTheFinal) {
  Farm farm(directory_.path());
  farm.scripter = Bowl;
  farm.evaluator().set_scripter(Bowl);
  const std::string name = farm.SubmitJob({1024, 2048});
  ASSERT_TRUE(farm.Finish(name));
  const auto job = farm.Job(name);
  EXPECT_EQ(job.state(), tunefarm::v1::JOB_STATE_SUCCEEDED);
  ASSERT_EQ(job.studies_size(), 2);
  for (const auto& study : job.studies()) {
    EXPECT_EQ(study.state(), tunefarm::v1::STUDY_STATE_ENDED);
    EXPECT_EQ(study.space().valid(), 11);
    EXPECT_EQ(study.progress().done(), 11);
    ASSERT_TRUE(study.has_best());
    EXPECT_EQ(TextOf(study.best().config()), "A=4,B=2");
    EXPECT_EQ(study.best().measurement().median_ns(), 1000);
    EXPECT_EQ(study.best().baseline_label(), "default config");
    EXPECT_EQ(study.best().baseline_ns(), 1310);
  }
  // One final outcome per ordinal: 11 of the search, and 5 finalists and the default config in the final.
  std::map<std::string, int> seen;
  for (const Trial& trial : farm.Trials(name)) ++seen[trial.name()];
  EXPECT_EQ(seen.size(), 2u * (11 + 6));
  for (const auto& [trial, count] : seen) EXPECT_EQ(count, 1) << trial;
  // On a CPU nothing compiles while something is measured, and one config runs at a time.
  EXPECT_FALSE(farm.evaluator().overlapped());
  EXPECT_EQ(farm.evaluator().most_running(), 1);
  EXPECT_EQ(farm.evaluator().most_compiling() > 1, true);
  for (const auto& run : farm.evaluator().runs()) EXPECT_TRUE(run.had_reference);
}

TEST_F(FarmTest, OrdinalZeroIsTheDefaultConfigAndTheBaselineComesNext) {
  Farm farm(directory_.path());
  farm.evaluator().set_scripter(Bowl);
  const std::string name = farm.SubmitJob({1024}, TestKernel(true));
  ASSERT_TRUE(farm.Finish(name));
  const auto trials = farm.Trials(name);
  EXPECT_EQ(TextOf(trials[0].config()), "A=1,B=1");
  EXPECT_EQ(trials[1].purpose(), tunefarm::v1::TRIAL_PURPOSE_BASELINE);
  EXPECT_EQ(farm.evaluator().runs()[1].config, "baseline");
  const auto best = farm.Job(name).studies(0).best();
  EXPECT_EQ(best.baseline_ns(), 5000);
  EXPECT_EQ(best.baseline_label(), "plain loop");
}

TEST_F(FarmTest, EveryFaultGetsItsOwnOutcomeAndNothingElseIsAffected) {
  Farm farm(directory_.path());
  const std::map<std::string, tunefarm::v1::Outcome> compile_faults = {
      {"A=1,B=2", tunefarm::v1::OUTCOME_COMPILE_ERROR}, {"A=1,B=3", tunefarm::v1::OUTCOME_COMPILE_TIMEOUT}};
  const std::map<std::string, tunefarm::v1::Outcome> run_faults = {{"A=2,B=1", tunefarm::v1::OUTCOME_RUN_CRASH},
                                                                   {"A=2,B=2", tunefarm::v1::OUTCOME_RUN_TIMEOUT},
                                                                   {"A=2,B=3", tunefarm::v1::OUTCOME_WRONG_RESULT},
                                                                   {"A=4,B=2", tunefarm::v1::OUTCOME_OUT_OF_BOUNDS},
                                                                   {"A=8,B=1", tunefarm::v1::OUTCOME_NOISY}};
  farm.evaluator().set_scripter([&](const FakeEvaluator::Question& question) {
    FakeEvaluator::Script script = Bowl(question);
    if (const auto fault = compile_faults.find(question.config); fault != compile_faults.end())
      script.compile = fault->second;
    if (const auto fault = run_faults.find(question.config); fault != run_faults.end()) script.run = fault->second;
    return script;
  });
  const std::string name = farm.SubmitJob({1024});
  ASSERT_TRUE(farm.Finish(name));
  for (const Trial& trial : farm.Trials(name)) {
    const std::string text = TextOf(trial.config());
    tunefarm::v1::Outcome expected = tunefarm::v1::OUTCOME_OK;
    if (compile_faults.count(text)) expected = compile_faults.at(text);
    if (run_faults.count(text)) expected = run_faults.at(text);
    EXPECT_EQ(trial.outcome(), expected) << text;
  }
  EXPECT_EQ(TextOf(farm.Job(name).studies(0).best().config()), "A=4,B=1");

  // The second job does not run again what crashed or hung; with retry_poisoned it does.
  const std::string again = farm.SubmitJob({1024});
  ASSERT_TRUE(farm.Finish(again));
  std::set<std::string> poisoned;
  for (const Trial& trial : farm.Trials(again)) {
    if (trial.outcome() == tunefarm::v1::OUTCOME_POISONED) poisoned.insert(TextOf(trial.config()));
  }
  EXPECT_EQ(poisoned, (std::set<std::string>{"A=1,B=3", "A=2,B=1", "A=2,B=2"}));
  tunefarm::v1::Job retry;
  retry.set_retry_poisoned(true);
  const std::string third = farm.SubmitJob({1024}, TestKernel(), retry);
  ASSERT_TRUE(farm.Finish(third));
  for (const Trial& trial : farm.Trials(third)) EXPECT_NE(trial.outcome(), tunefarm::v1::OUTCOME_POISONED);
}

TEST_F(FarmTest, AnOutcomeOfANewerAgentIsKeptAndCountsAsAFailure) {
  const auto future = static_cast<tunefarm::v1::Outcome>(99);
  Farm farm(directory_.path());
  farm.evaluator().set_scripter([&](const FakeEvaluator::Question& question) {
    FakeEvaluator::Script script = Bowl(question);
    if (question.config == "A=4,B=2" && question.is_run) script.run = future;
    return script;
  });
  const std::string name = farm.SubmitJob({1024});
  ASSERT_TRUE(farm.Finish(name));
  EXPECT_EQ(farm.Job(name).state(), tunefarm::v1::JOB_STATE_SUCCEEDED);
  EXPECT_NE(TextOf(farm.Job(name).studies(0).best().config()), "A=4,B=2");
  int kept = 0;
  for (const Trial& trial : farm.Trials(name)) {
    if (TextOf(trial.config()) != "A=4,B=2") continue;
    EXPECT_EQ(trial.outcome(), future);
    ++kept;
  }
  EXPECT_EQ(kept, 1);
}

TEST_F(FarmTest, WhatTheMachineryLosesRunsAgainAndIsLostAfterFiveAttempts) {
  Farm farm(directory_.path());
  farm.evaluator().set_scripter([](const FakeEvaluator::Question& question) {
    FakeEvaluator::Script script = Bowl(question);
    if (question.config == "A=2,B=1" && question.is_run && question.attempt < 3)
      script.run = tunefarm::v1::OUTCOME_LOST;
    if (question.config == "A=2,B=2" && !question.is_run && question.attempt < 2)
      script.compile = tunefarm::v1::OUTCOME_LOST;
    if (question.config == "A=2,B=3" && question.is_run) script.run = tunefarm::v1::OUTCOME_LOST;
    return script;
  });
  const std::string name = farm.SubmitJob({1024});
  ASSERT_TRUE(farm.Finish(name));
  std::map<std::string, const Trial*> found;
  const auto trials = farm.Trials(name);
  for (const Trial& trial : trials) {
    if (trial.purpose() == tunefarm::v1::TRIAL_PURPOSE_SEARCH) found[TextOf(trial.config())] = &trial;
  }
  EXPECT_EQ(found.at("A=2,B=1")->outcome(), tunefarm::v1::OUTCOME_OK);
  EXPECT_EQ(found.at("A=2,B=1")->attempt(), 4);
  EXPECT_EQ(found.at("A=2,B=2")->outcome(), tunefarm::v1::OUTCOME_OK);
  EXPECT_EQ(found.at("A=2,B=3")->outcome(), tunefarm::v1::OUTCOME_LOST);
  EXPECT_EQ(found.at("A=2,B=3")->attempt(), 5);
}

TEST_F(FarmTest, AJobOfWhichEveryTrialIsLostFails) {
  Farm farm(directory_.path());
  farm.evaluator().set_scripter([](const FakeEvaluator::Question& question) {
    FakeEvaluator::Script script = Bowl(question);
    if (!question.is_run || question.problem.find("1024") == std::string::npos) return script;
    script.run = tunefarm::v1::OUTCOME_LOST;
    script.message = "cannot fork a trial";
    return script;
  });
  const std::string lost = farm.SubmitJob({1024});
  ASSERT_TRUE(farm.Finish(lost));
  tunefarm::v1::Job job = farm.Job(lost);
  EXPECT_EQ(job.state(), tunefarm::v1::JOB_STATE_FAILED);
  const std::string why = fmt::format("no trial could be run: all {} are LOST, the first with the message: {}",
                                      farm.Trials(lost).size(), "cannot fork a trial");
  EXPECT_EQ(job.error(), why);
  // Each was tried five times, so the fourth would end as the first three did.
  EXPECT_EQ(job.studies(0).search_ended_because(), "the first 3 trials could not be measured; " + why);
  EXPECT_LT(farm.Trials(lost).size(), static_cast<size_t>(job.studies(0).space().valid()));
  // Of two studies one has results: the job has been done, and the other says what became of it.
  const std::string half = farm.SubmitJob({1024, 2048});
  ASSERT_TRUE(farm.Finish(half));
  job = farm.Job(half);
  EXPECT_EQ(job.state(), tunefarm::v1::JOB_STATE_SUCCEEDED) << job.error();
  EXPECT_THAT(job.studies(0).search_ended_because(), HasSubstr("are LOST"));
  EXPECT_EQ(job.studies(1).search_ended_because(), "every config tried");
}

TEST_F(FarmTest, AConfigThatFailsInTheFinalIsNeverPromoted) {
  Farm farm(directory_.path());
  farm.evaluator().set_scripter([](const FakeEvaluator::Question& question) {
    FakeEvaluator::Script script = Bowl(question);
    // Right in the search, wrong in its third round of the final.
    if (question.config == "A=4,B=2" && question.is_run && question.attempt >= 3) {
      script.run = tunefarm::v1::OUTCOME_WRONG_RESULT;
    }
    return script;
  });
  const std::string name = farm.SubmitJob({1024});
  ASSERT_TRUE(farm.Finish(name));
  EXPECT_EQ(TextOf(farm.Job(name).studies(0).best().config()), "A=4,B=1");
}

TEST_F(FarmTest, WhenAllFinalistsFailTheNextOnesAreMeasured) {
  Farm farm(directory_.path());
  farm.evaluator().set_scripter([](const FakeEvaluator::Question& question) {
    FakeEvaluator::Script script = Bowl(question);
    const std::set<std::string> frail = {"A=4,B=1", "A=4,B=2", "A=4,B=3", "A=1,B=1"};
    if (frail.count(question.config) && question.is_run && question.attempt >= 1)
      script.run = tunefarm::v1::OUTCOME_WRONG_RESULT;
    return script;
  });
  tunefarm::v1::Job job;
  job.mutable_policy()->set_finalists(3);
  const std::string name = farm.SubmitJob({1024}, TestKernel(), job);
  ASSERT_TRUE(farm.Finish(name));
  EXPECT_EQ(TextOf(farm.Job(name).studies(0).best().config()), "A=2,B=2");
}

TEST_F(FarmTest, AJobWithoutAnyValidConfigSucceedsWithoutABest) {
  Farm farm(directory_.path());
  farm.evaluator().set_scripter([](const FakeEvaluator::Question& question) {
    FakeEvaluator::Script script = Bowl(question);
    script.run = tunefarm::v1::OUTCOME_WRONG_RESULT;
    return script;
  });
  const std::string name = farm.SubmitJob({1024});
  ASSERT_TRUE(farm.Finish(name));
  EXPECT_EQ(farm.Job(name).state(), tunefarm::v1::JOB_STATE_SUCCEEDED);
  EXPECT_FALSE(farm.Job(name).studies(0).has_best());
}

TEST_F(FarmTest, AReferenceThatDoesNotCompileIsSaidOnEveryTrial) {
  Farm farm(directory_.path());
  farm.evaluator().set_scripter([](const FakeEvaluator::Question& question) {
    FakeEvaluator::Script script = Bowl(question);
    if (question.config == "A=1,B=1") {
      script.compile = tunefarm::v1::OUTCOME_COMPILE_ERROR;
      script.message = "no such header";
    }
    return script;
  });
  const std::string name = farm.SubmitJob({1024});
  ASSERT_TRUE(farm.Finish(name));
  for (const Trial& trial : farm.Trials(name)) {
    EXPECT_EQ(trial.outcome(), tunefarm::v1::OUTCOME_COMPILE_ERROR);
    EXPECT_THAT(trial.message(), HasSubstr("no such header"));
  }
  EXPECT_TRUE(farm.evaluator().runs().empty());
}

TEST_F(FarmTest, TheIncumbentStaysUnlessItIsBeatenBeyondNoise) {
  Farm farm(directory_.path());
  farm.evaluator().set_scripter(Bowl);
  ASSERT_TRUE(farm.Finish(farm.SubmitJob({1024})));
  // 0.5 % faster than the incumbent's 1000 ns: within the margin.
  farm.evaluator().set_scripter([](const FakeEvaluator::Question& question) {
    return question.config == "A=8,B=2" ? Timed(995) : Bowl(question);
  });
  tunefarm::v1::Job anew;  // what the first one measured is not true any more
  anew.mutable_policy()->set_no_reuse(true);
  const std::string second = farm.SubmitJob({1024}, TestKernel(), anew);
  std::vector<std::string> messages;
  const auto watch = farm.service().Watch(
      second, 0,
      [&](const tunefarm::v1::JobEvent& event) {
        if (!event.message().empty()) messages.push_back(event.message());
      },
      [](const absl::Status&) {});
  ASSERT_TRUE(farm.Finish(second));
  farm.RunControl();
  // What was told is what is stored.
  const std::string kept = farm.Job(second).studies(0).kept_because();
  EXPECT_THAT(kept, testing::StartsWith("the best stays: the fastest finalist needs 0.99"));
  EXPECT_THAT(messages, testing::Contains("N=1024: " + kept));
  EXPECT_EQ(TextOf(farm.Job(second).studies(0).best().config()), "A=4,B=2");
  EXPECT_EQ(farm.Job(second).studies(0).best().job(), second) << "its new measurement is filed";
  EXPECT_EQ(TextOf(farm.Job(second).studies(0).incumbent().config()), "A=4,B=2");
  farm.evaluator().set_scripter([](const FakeEvaluator::Question& question) {
    return question.config == "A=8,B=2" ? Timed(900) : Bowl(question);
  });
  const std::string third = farm.SubmitJob({1024}, TestKernel(), anew);
  ASSERT_TRUE(farm.Finish(third));
  EXPECT_EQ(TextOf(farm.Job(third).studies(0).best().config()), "A=8,B=2");
  EXPECT_THAT(farm.Job(third).studies(0).kept_because(), testing::HasSubstr(" beats the best: round by round"));
  farm.Crash();
  farm.Boot();
  EXPECT_EQ(farm.Job(second).studies(0).kept_because(), kept);
  EXPECT_EQ(farm.service().catalog().revision(), 4);
  tunefarm::v1::LookupConfigRequest request;
  request.set_kernel("scale");
  *request.mutable_problem() = TestProblem(1024);
  EXPECT_EQ(farm.service().lookup_api().LookupConfig(request)->match(), tunefarm::v1::MATCH_EXACT);
  EXPECT_EQ(TextOf(farm.service().lookup_api().LookupConfig(request)->best().config()), "A=8,B=2");
  *request.mutable_problem() = TestProblem(4096);
  EXPECT_EQ(farm.service().lookup_api().LookupConfig(request)->match(), tunefarm::v1::MATCH_NEAREST_SHAPE);
  EXPECT_EQ(farm.service().lookup_api().LookupConfig(request)->distance(), 2);
}

TEST_F(FarmTest, AnIncumbentTooNoisyInTheFinalIsMeasuredAgainBeforeAnybodyReplacesIt) {
  Farm farm(directory_.path());
  farm.evaluator().set_scripter(Bowl);
  const std::string first = farm.SubmitJob({1024});
  ASSERT_TRUE(farm.Finish(first));
  // 1 run of the search and 5 of the final each; then the second job's search, and its final from run 7 on.
  int noisy_until = 12;
  const auto scripter = [&noisy_until](const FakeEvaluator::Question& question) {
    FakeEvaluator::Script script = question.config == "A=8,B=2" ? Timed(995) : Bowl(question);
    const bool noisy = question.is_run && question.attempt >= 7 && question.attempt < noisy_until;
    if (question.config == "A=4,B=2" && noisy) script.run = tunefarm::v1::OUTCOME_NOISY;
    return script;
  };
  farm.evaluator().set_scripter(scripter);
  const std::string second = farm.SubmitJob({1024});
  ASSERT_TRUE(farm.Finish(second));
  auto best = farm.Job(second).studies(0).best();
  EXPECT_EQ(TextOf(best.config()), "A=4,B=2");
  EXPECT_EQ(best.job(), second);
  EXPECT_EQ(best.baseline_ns(), 1310) << "the default takes part again";
  // Never to be compared, it stays.
  noisy_until = 1000;
  const std::string third = farm.SubmitJob({1024});
  ASSERT_TRUE(farm.Finish(third));
  EXPECT_EQ(farm.Job(third).state(), tunefarm::v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(farm.Job(third).studies(0).best().revision(), 0) << "nothing is filed";
  EXPECT_EQ(farm.service().catalog().revision(), 3);
}

TEST_F(FarmTest, CancelKillsWhatRunsAndEndsWhenItIsGone) {
  Farm farm(directory_.path());
  farm.evaluator().set_scripter([](const FakeEvaluator::Question& question) {
    FakeEvaluator::Script script = Bowl(question);
    if (question.is_run) script.run_time = std::chrono::hours(1);
    return script;
  });
  const std::string name = farm.SubmitJob({1024});
  ASSERT_TRUE(farm.RunUntil([&] { return !farm.evaluator().runs().empty(); }));
  const auto cancelling = farm.service().Cancel(name);
  ASSERT_TRUE(cancelling.ok()) << cancelling.status();
  EXPECT_EQ(cancelling->state(), tunefarm::v1::JOB_STATE_CANCELLING);
  ASSERT_TRUE(farm.RunUntil([&] { return farm.Ended(name); }, std::chrono::seconds(5)));
  EXPECT_EQ(farm.Job(name).state(), tunefarm::v1::JOB_STATE_CANCELLED);
  EXPECT_GE(farm.evaluator().cancelled(), 1);
  EXPECT_EQ(farm.evaluator().in_flight(), 0);
  EXPECT_EQ(ReasonOf(farm.service().Cancel(name).status()), "JOB_STATE");
  EXPECT_TRUE(farm.service().Delete(name).ok());
  EXPECT_EQ(ReasonOf(farm.service().GetJob(name).status()), "JOB_NOT_FOUND");
}

TEST_F(FarmTest, PauseTakesUnitsBackAndResumeLosesNothing) {
  Farm farm(directory_.path());
  farm.evaluator().set_scripter(Bowl);
  const std::string name = farm.SubmitJob({1024});
  ASSERT_TRUE(farm.RunUntil([&] { return farm.Trials(name).size() >= 3; }));
  ASSERT_TRUE(farm.service().Pause(name).ok());
  EXPECT_EQ(ReasonOf(farm.service().Delete(name)), "JOB_STATE");
  farm.RunFor(std::chrono::seconds(5));
  const size_t runs = farm.evaluator().runs().size();
  farm.RunFor(std::chrono::minutes(5));
  EXPECT_EQ(farm.evaluator().runs().size(), runs) << "a paused job runs nothing";
  EXPECT_EQ(farm.Job(name).state(), tunefarm::v1::JOB_STATE_PAUSED);
  ASSERT_TRUE(farm.service().Resume(name).ok());
  ASSERT_TRUE(farm.Finish(name));
  EXPECT_EQ(farm.Trials(name).size(), 17u);
  EXPECT_EQ(TextOf(farm.Job(name).studies(0).best().config()), "A=4,B=2");
}

TEST_F(FarmTest, ATimeBudgetEndsTheSearchAndTheBestSoFarGoToTheFinal) {
  Farm farm(directory_.path());
  farm.evaluator().set_scripter([](const FakeEvaluator::Question& question) {
    FakeEvaluator::Script script = Bowl(question);
    if (question.is_run) script.run_time = std::chrono::seconds(1);
    return script;
  });
  tunefarm::v1::Job job;
  job.mutable_budget()->set_max_seconds(4);
  const std::string name = farm.SubmitJob({1024}, TestKernel(), job);
  ASSERT_TRUE(farm.Finish(name));
  const auto study = farm.Job(name).studies(0);
  EXPECT_GE(study.progress().done(), 2);
  EXPECT_LT(study.progress().done(), 6);
  EXPECT_TRUE(study.has_best());
}

// What watchers are told first is read from the store, which may take long.
TEST_F(FarmTest, AJobEndsWhileNoWatcherIsServed) {
  Farm farm(directory_.path());
  farm.holds_job_watchers = true;
  const std::string name = farm.SubmitJob({1024});
  int events = 0;
  std::optional<absl::Status> end;
  const auto watch = farm.service().Watch(
      name, 0, [&](const tunefarm::v1::JobEvent&) { ++events; }, [&](absl::Status status) { end = status; });
  ASSERT_TRUE(watch.ok());
  ASSERT_TRUE(farm.Finish(name));
  EXPECT_EQ(events, 0);
  farm.holds_job_watchers = false;
  ASSERT_TRUE(farm.RunUntil([&] { return end.has_value(); }));
  EXPECT_GT(events, 0);
}

TEST_F(FarmTest, WatchersGetASnapshotThenEveryTrialThenTheEnd) {
  Farm farm(directory_.path());
  farm.evaluator().set_scripter(Bowl);
  const std::string name = farm.SubmitJob({1024});
  std::vector<tunefarm::v1::JobEvent> events;
  std::optional<absl::Status> end;
  const auto watch = farm.service().Watch(
      name, 0, [&](const tunefarm::v1::JobEvent& event) { events.push_back(event); },
      [&](absl::Status status) { end = status; });
  ASSERT_TRUE(watch.ok());
  ASSERT_TRUE(farm.RunUntil([&] { return end.has_value(); }));
  EXPECT_TRUE(end->ok());
  ASSERT_FALSE(events.empty());
  EXPECT_TRUE(events.front().has_job());
  int trials = 0;
  for (size_t i = 1; i < events.size(); ++i) {
    trials += events[i].has_trial_ended();
    EXPECT_EQ(events[i].event_id(), events[i - 1].event_id() + 1);
  }
  EXPECT_EQ(trials, 17);
  EXPECT_EQ(events.back().job().state(), tunefarm::v1::JOB_STATE_SUCCEEDED);
  // A position of the middle resumes there; one of another run of the daemon gets a snapshot.
  for (const auto& [after, expected] : {std::pair<int64_t, size_t>{events[3].event_id(), events.size() - 4}, {7, 1}}) {
    size_t seen = 0;
    end.reset();
    const auto resumed = farm.service().Watch(
        name, after, [&](const auto&) { ++seen; }, [&](absl::Status status) { end = status; });
    ASSERT_TRUE(farm.RunUntil([&] { return end.has_value(); }));
    EXPECT_EQ(seen, expected);
  }
}

TEST_F(FarmTest, DrainFinishesTheTrialInHandAndReportsIt) {
  Farm farm(directory_.path());
  farm.evaluator().set_scripter(Bowl);
  const std::string name = farm.SubmitJob({1024});
  ASSERT_TRUE(farm.RunUntil([&] { return farm.evaluator().runs().size() == 2; }));
  bool drained = false;
  farm.agent().Drain([&] { drained = true; });
  ASSERT_TRUE(farm.RunUntil([&] { return drained; }));
  EXPECT_EQ(farm.evaluator().runs().size(), 2u);
  EXPECT_EQ(farm.Trials(name).size(), 2u);
  EXPECT_EQ(farm.evaluator().in_flight(), 0);
}

// Outcome and config by study and ordinal: what must not depend on crashes.
std::map<std::string, std::string> ResultOf(Farm& farm, const std::string& name) {
  std::map<std::string, std::string> result;
  for (const Trial& trial : farm.Trials(name)) {
    const bool inserted =
        result.emplace(trial.name(), TextOf(trial.config()) + " " + std::to_string(trial.outcome())).second;
    EXPECT_TRUE(inserted) << trial.name();
  }
  const tunefarm::v1::Job job = farm.Job(name);
  for (const auto& study : job.studies()) result[study.name()] = TextOf(study.best().config());
  return result;
}

FakeEvaluator::Script BowlWithFaults(const FakeEvaluator::Question& question) {
  FakeEvaluator::Script script = Bowl(question);
  if (question.config == "A=2,B=3") script.run = tunefarm::v1::OUTCOME_WRONG_RESULT;
  if (question.config == "A=1,B=2") script.compile = tunefarm::v1::OUTCOME_COMPILE_ERROR;
  return script;
}

TEST_F(FarmTest, CrashesAtRandomStepsChangeNothingOfTheResult) {
  TemporaryDirectory undisturbed_directory;
  Farm undisturbed(undisturbed_directory.path());
  undisturbed.evaluator().set_scripter(BowlWithFaults);
  const std::string expected_name = undisturbed.SubmitJob({1024, 2048});
  ASSERT_TRUE(undisturbed.Finish(expected_name));
  const auto expected = ResultOf(undisturbed, expected_name);
  ASSERT_EQ(expected.size(), 2u * 17 + 2);

  PhiloxStream random(42);
  for (int seed = 0; seed < 6; ++seed) {
    TemporaryDirectory own_directory;
    Farm farm(own_directory.path());
    farm.scripter = BowlWithFaults;
    farm.evaluator().set_scripter(BowlWithFaults);
    const std::string name = farm.SubmitJob({1024, 2048});
    int crashes = 0;
    while (!farm.Ended(name)) {
      // A final needs some 400 steps in one stretch, so every fourth one may be long.
      uint64_t steps = 1 + random.UniformInt(crashes % 4 == 3 ? 2000 : 150);
      farm.RunUntil([&] { return steps-- == 0 || farm.Ended(name); });
      if (farm.Ended(name)) break;
      farm.Crash();
      farm.Boot();
      ASSERT_LT(++crashes, 500) << "no progress";
    }
    EXPECT_GT(crashes, 0);
    EXPECT_EQ(ResultOf(farm, name), expected) << "seed " << seed << ", " << crashes << " crashes";
  }
}

}  // namespace
}  // namespace tunefarm
