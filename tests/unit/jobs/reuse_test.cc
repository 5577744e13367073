// Configs whose binary and launches are equal are one measurement; what races gets the time to beat.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "gtest/gtest.h"
#include "tests/fakes/cuda_definition.h"
#include "tests/unit/jobs/farm.h"

namespace tunefarm {
namespace {

using tunefarm::v1::Trial;

// T is in the binary. R is in the launches, where 2, 3 and 4 do the same.
tunefarm::v1::Kernel TwinKernel() {
  return CudaDefinition("twins",
                        "parameters { name: 'T' values { ints: [ 1, 2 ] } } parameters { name: 'R' values { ints: [ 1, "
                        "2, 3, 4 ] } bind: BIND_RUN }",
                        "min(R, 2)", "32");
}

class ReuseTest : public testing::Test {
 protected:
  // The search's trials by config.
  std::map<std::string, Trial> Search(Farm& farm, const std::string& job) {
    std::map<std::string, Trial> trials;
    for (const Trial& trial : farm.Trials(job)) {
      if (trial.purpose() != tunefarm::v1::TRIAL_PURPOSE_SEARCH) continue;
      const auto& values = trial.config().values();
      trials["T" + std::to_string(values.at("T").int_value()) + "R" + std::to_string(values.at("R").int_value())] =
          trial;
    }
    return trials;
  }

  TemporaryDirectory directory_;
  Farm farm_{directory_.path(), {FakeGpu("GPU-1")}};
};

TEST_F(ReuseTest, ConfigsThatDoTheSameAreMeasuredOnce) {
  const std::string job = farm_.SubmitJob({1024}, TwinKernel());
  ASSERT_TRUE(farm_.Finish(job));
  const auto trials = Search(farm_, job);
  ASSERT_EQ(trials.size(), 8u);
  std::set<int64_t> measured;
  for (const auto& [name, trial] : trials) {
    EXPECT_EQ(trial.outcome(), tunefarm::v1::OUTCOME_OK) << name;
    EXPECT_EQ(trial.measurement().median_ns(), 1000) << name;
    EXPECT_EQ(trial.device_uuid(), "GPU-1");
    if (!trial.reused()) measured.insert(trial.ordinal());
  }
  EXPECT_EQ(measured.size(), 4u);
  for (const auto& [name, trial] : trials) {
    if (!trial.reused()) continue;
    EXPECT_EQ(measured.count(trial.reused_ordinal()), 1u) << name;
    EXPECT_EQ(trial.run_ms(), 0) << name;
    EXPECT_NE(name.substr(2), "R1") << name;
  }
  // Nothing of the final is reused: a time counts there only if it was taken there.
  // Nor are two there that do the same.
  std::set<std::pair<int64_t, int64_t>> finalists;
  for (const Trial& trial : farm_.Trials(job)) {
    if (trial.purpose() != tunefarm::v1::TRIAL_PURPOSE_FINALIST) continue;
    EXPECT_FALSE(trial.reused());
    const auto& values = trial.config().values();
    const int64_t grid = std::min<int64_t>(values.at("R").int_value(), 2);
    EXPECT_TRUE(finalists.emplace(values.at("T").int_value(), grid).second);
  }
  EXPECT_EQ(finalists.size(), 4u);
}

// The daemon is killed again and again, and what its agent knew with it.
TEST_F(ReuseTest, WhatWasMeasuredBeforeARestartIsNotMeasuredAgain) {
  int claims = 0;
  const auto count_claims = [&] {
    farm_.hooked_store->set_faults([&claims](std::string_view call) {
      claims += call == "ClaimWorks";
      return FaultyStore::Fault::kNone;
    });
  };
  const auto twins = [](const std::string& name) {
    return CudaDefinition(name,
                          "parameters { name: 'T' values { ints: [ 1, 2, 3, 4 ] } } parameters { name: 'R' range { "
                          "first: 1 last: 24 } bind: BIND_RUN }",
                          "min(R, 1)", "32");
  };
  tunefarm::v1::Job request;
  request.mutable_strategy()->set_strategy_name("exhaustive");
  count_claims();
  const std::string job = farm_.SubmitJob({1024}, twins("twins"), request);
  ASSERT_TRUE(farm_.RunUntil([&] { return farm_.Trials(job).size() >= 10; }));
  EXPECT_EQ(claims, 0) << "an agent that has measured everything itself asks nobody";
  for (const size_t stored : {30u, 60u}) {
    farm_.Crash();
    farm_.Boot();
    count_claims();
    ASSERT_TRUE(farm_.RunUntil([&] { return farm_.Trials(job).size() >= stored; }));
  }
  farm_.Crash();
  farm_.Boot();
  count_claims();
  ASSERT_TRUE(farm_.Finish(job));
  EXPECT_GT(claims, 0);
  std::map<int64_t, std::set<int64_t>> measured, copied_from;  // ordinals by T
  int reused = 0;
  for (const auto& [name, trial] : Search(farm_, job)) {
    EXPECT_EQ(trial.outcome(), tunefarm::v1::OUTCOME_OK) << name;
    auto& ordinals = trial.reused() ? copied_from : measured;
    ordinals[trial.config().values().at("T").int_value()].insert(trial.reused() ? trial.reused_ordinal()
                                                                                : trial.ordinal());
    reused += trial.reused();
  }
  EXPECT_EQ(reused, 96 - 4);
  EXPECT_EQ(measured.size(), 4u);
  EXPECT_EQ(copied_from, measured);
  // What begins now is measured by this process alone.
  claims = 0;
  ASSERT_TRUE(farm_.Finish(farm_.SubmitJob({1024}, twins("others"), request)));
  EXPECT_EQ(claims, 0);
}

TEST_F(ReuseTest, APolicyCanAskForEachToBeMeasured) {
  tunefarm::v1::Job job;
  job.mutable_policy()->set_no_reuse(true);
  const std::string name = farm_.SubmitJob({1024}, TwinKernel(), job);
  ASSERT_TRUE(farm_.Finish(name));
  for (const auto& [config, trial] : Search(farm_, name)) EXPECT_FALSE(trial.reused()) << config;
}

TEST_F(ReuseTest, AWrongResultIsPassedOnAndANoisyTimeIsNot) {
  farm_.evaluator().set_scripter([](const FakeEvaluator::Question& question) {
    FakeEvaluator::Script script;
    if (!question.is_run) return script;
    const bool second = question.config.find("T=2") != std::string::npos;
    script.run = second ? tunefarm::v1::OUTCOME_NOISY : tunefarm::v1::OUTCOME_WRONG_RESULT;
    script.message = "as scripted";
    return script;
  });
  const std::string job = farm_.SubmitJob({1024}, TwinKernel());
  ASSERT_TRUE(farm_.Finish(job));
  int wrong = 0, noisy = 0;
  for (const auto& [name, trial] : Search(farm_, job)) {
    wrong += trial.outcome() == tunefarm::v1::OUTCOME_WRONG_RESULT && trial.reused();
    noisy += trial.outcome() == tunefarm::v1::OUTCOME_NOISY && trial.reused();
    EXPECT_EQ(trial.message(), "as scripted") << name;
  }
  EXPECT_EQ(wrong, 2);
  EXPECT_EQ(noisy, 0);
}

TEST_F(ReuseTest, WhatTheMachineryLosesIsRunAgainAndItsTwinsWait) {
  farm_.evaluator().set_scripter([](const FakeEvaluator::Question& question) {
    FakeEvaluator::Script script;
    if (question.is_run && question.attempt == 0) script.run = tunefarm::v1::OUTCOME_LOST;
    return script;
  });
  const std::string job = farm_.SubmitJob({1024}, TwinKernel());
  ASSERT_TRUE(farm_.Finish(job));
  for (const auto& [name, trial] : Search(farm_, job)) EXPECT_EQ(trial.outcome(), tunefarm::v1::OUTCOME_OK) << name;
}

TEST_F(ReuseTest, AfterTheFirstTimeEachRunKnowsTheTimeToBeat) {
  const auto by_t = [](const FakeEvaluator::Question& question) {
    FakeEvaluator::Script script;
    script.median_ns = question.config.find("T=2") != std::string::npos ? 500 : 1000;
    return script;
  };
  farm_.evaluator().set_scripter(by_t);
  tunefarm::v1::Job job;
  job.mutable_policy()->set_no_reuse(true);
  ASSERT_TRUE(farm_.Finish(farm_.SubmitJob({1024}, TwinKernel(), job)));
  const auto runs = farm_.evaluator().runs();
  ASSERT_GE(runs.size(), 8u);
  double smallest = 0;
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(runs[i].race_limit_ns > 0, smallest > 0) << i;
    EXPECT_LE(runs[i].race_limit_ns, smallest) << i;
    const double high = (runs[i].config.find("T=2") != std::string::npos ? 500 : 1000) * 1.01;
    smallest = smallest == 0 ? high : std::min(smallest, high);
  }
  for (size_t i = 8; i < runs.size(); ++i) EXPECT_EQ(runs[i].race_limit_ns, 0) << "in the final nobody is left early";
}

TEST_F(ReuseTest, APolicyCanAskForEachToBeMeasuredToTheEnd) {
  tunefarm::v1::Job job;
  job.mutable_policy()->set_no_early_stop(true);
  ASSERT_TRUE(farm_.Finish(farm_.SubmitJob({1024}, TwinKernel(), job)));
  for (const auto& run : farm_.evaluator().runs()) EXPECT_EQ(run.race_limit_ns, 0);
}

}  // namespace
}  // namespace tunefarm
