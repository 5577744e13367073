// Jobs that are told what to try first.
#include <gmock/gmock.h>

#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/base/status.h"
#include "tests/unit/jobs/farm.h"

namespace tunefarm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using tunefarm::v1::Trial;

class StartingConfigs : public testing::Test {
 protected:
  static void Add(int problem, int64_t a, int64_t b, tunefarm::v1::Job* job) {
    auto* const starting = job->add_starting_configs();
    starting->set_problem_index(problem);
    auto* const values = starting->mutable_config()->mutable_values();
    (*values)["A"].set_int_value(a);
    (*values)["B"].set_int_value(b);
  }
  // "A B" of what a study's search tried, in its order.
  std::vector<std::string> Searched(const std::string& job, int study) {
    std::vector<std::string> configs;
    const std::string prefix = job + "/studies/" + std::to_string(study) + "/";
    for (const Trial& trial : farm_.Trials(job)) {
      if (trial.purpose() != tunefarm::v1::TRIAL_PURPOSE_SEARCH || trial.name().rfind(prefix, 0) != 0) continue;
      configs.push_back(std::to_string(trial.config().values().at("A").int_value()) + " " +
                        std::to_string(trial.config().values().at("B").int_value()));
    }
    return configs;
  }

  TemporaryDirectory directory_;
  Farm farm_{directory_.path()};
};

TEST_F(StartingConfigs, EachProblemBeginsWithItsOwnAndOneTrialIsABestOnlyWhereThatIsWanted) {
  farm_.evaluator().set_scripter([](const FakeEvaluator::Question& question) {
    FakeEvaluator::Script script;
    script.median_ns = question.config == "A=4,B=2" ? 500 : 1000;
    return script;
  });
  tunefarm::v1::Job job;
  job.mutable_budget()->set_max_trials(1);
  Add(0, 4, 2, &job);
  Add(1, 8, 1, &job);
  const std::string name = farm_.SubmitJob({1024, 2048}, TestKernel(), job);
  ASSERT_TRUE(farm_.Finish(name));
  EXPECT_THAT(Searched(name, 1), ElementsAre("4 2"));
  EXPECT_THAT(Searched(name, 2), ElementsAre("8 1"));
  tunefarm::v1::LookupConfigRequest lookup;
  lookup.set_kernel("scale");
  *lookup.mutable_problem() = TestProblem(1024);
  EXPECT_EQ(farm_.service().lookup_api().LookupConfig(lookup)->match(), tunefarm::v1::MATCH_DEFAULT);
  EXPECT_THAT(farm_.Job(name).studies(0).not_promoted_because(), HasSubstr("no search"));
  // The final decides: measured here, beside the default config.
  job.set_promote_given(true);
  ASSERT_TRUE(farm_.Finish(farm_.SubmitJob({1024, 2048}, TestKernel(), job)));
  const auto answer = farm_.service().lookup_api().LookupConfig(lookup);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->match(), tunefarm::v1::MATCH_EXACT);
  EXPECT_EQ(answer->best().config().values().at("A").int_value(), 4);
  EXPECT_EQ(answer->best().baseline_label(), "default config");
}

TEST_F(StartingConfigs, OnlyASearchMakesAProblemTuned) {
  farm_.evaluator().set_scripter(Bowl);
  const auto match_after = [&](int64_t size, int64_t trials, int starting) {
    tunefarm::v1::Job job;
    job.mutable_strategy()->set_strategy_name("random");
    job.mutable_budget()->set_max_trials(trials);
    for (int b = 1; b <= starting; ++b) Add(0, 4, b, &job);
    EXPECT_TRUE(farm_.Finish(farm_.SubmitJob({size}, TestKernel(), job)));
    tunefarm::v1::LookupConfigRequest lookup;
    lookup.set_kernel("scale");
    lookup.set_worst_match(tunefarm::v1::MATCH_EXACT);
    *lookup.mutable_problem() = TestProblem(size);
    return farm_.service().lookup_api().LookupConfig(lookup)->match();
  };
  EXPECT_EQ(match_after(64, 1, 0), tunefarm::v1::MATCH_NOT_FOUND) << "the default config alone";
  EXPECT_EQ(match_after(65, 3, 3), tunefarm::v1::MATCH_NOT_FOUND) << "the given ones alone";
  EXPECT_EQ(match_after(66, 4, 3), tunefarm::v1::MATCH_EXACT) << "one more than the given ones";
  EXPECT_EQ(match_after(67, 2, 0), tunefarm::v1::MATCH_EXACT);
}

TEST_F(StartingConfigs, WhatIsNotOfTheSpaceIsLeftOutWithACountAndTheFirstReason) {
  tunefarm::v1::Job job;
  job.mutable_strategy()->set_strategy_name("random");
  job.mutable_budget()->set_max_trials(3);
  Add(0, 8, 3, &job);  // the constraint
  Add(0, 5, 1, &job);  // no value of A
  Add(0, 2, 2, &job);
  (*job.mutable_starting_configs(1)->mutable_config()->mutable_values())["C"].set_int_value(1);
  const std::string name = farm_.SubmitJob({1024}, TestKernel(), job);
  std::vector<std::string> messages;
  const auto watch = farm_.service().Watch(
      name, 0,
      [&](const tunefarm::v1::JobEvent& event) {
        if (!event.message().empty()) messages.push_back(event.message());
      },
      [](const absl::Status&) {});
  ASSERT_TRUE(farm_.Finish(name));
  farm_.RunFor(std::chrono::seconds(1));
  EXPECT_THAT(messages,
              testing::Contains(HasSubstr("2 of 3 starting configs are left out, as they are not in the space: "
                                          "the config breaks the constraint")));
  const std::vector<std::string> searched = Searched(name, 1);
  ASSERT_EQ(searched.size(), 3u);
  EXPECT_EQ(searched[0], "2 2");
  EXPECT_EQ(searched[1], "1 1") << "the default config";
}

TEST_F(StartingConfigs, SurviveARestart) {
  tunefarm::v1::Job job;
  job.mutable_strategy()->set_strategy_name("random");
  for (const int64_t a : {8, 4, 2}) Add(0, a, 2, &job);
  const std::string name = farm_.SubmitJob({1024}, TestKernel(), job);
  ASSERT_TRUE(farm_.RunUntil([&] { return farm_.Job(name).progress().done() >= 1; }));
  farm_.Crash();
  farm_.Boot();
  ASSERT_TRUE(farm_.Finish(name));
  const std::vector<std::string> searched = Searched(name, 1);
  EXPECT_EQ(searched.size(), 11u);
  EXPECT_THAT(std::vector<std::string>(searched.begin(), searched.begin() + 3), ElementsAre("8 2", "4 2", "2 2"));
}

TEST_F(StartingConfigs, Refusals) {
  tunefarm::v1::Job job;
  *job.add_problems() = TestProblem(1024);
  Add(1, 1, 1, &job);
  const auto refused = farm_.service().Submit(job, TestKernel(), "", false).status();
  EXPECT_THAT(std::string(MessageOf(refused)),
              HasSubstr("starting_configs[0].problem_index is 1, the job has 1 problem"));
  job.clear_starting_configs();
  for (int i = 0; i < 4097; ++i) Add(0, 1, 1, &job);
  EXPECT_EQ(ReasonOf(farm_.service().Submit(job, TestKernel(), "", false).status()), "JOB_INVALID");
}

}  // namespace
}  // namespace tunefarm
