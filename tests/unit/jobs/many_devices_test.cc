// Several GPUs of one machine, on a fake clock: all work, none twice, and all end together.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/fakes/cuda_definition.h"
#include "tests/unit/jobs/farm.h"

namespace tunefarm {
namespace {

using tunefarm::v1::Trial;

constexpr int kTrials = 500;
constexpr double kCompileSeconds = 0.8;

tunefarm::v1::Kernel WideKernel(const std::string& name = "wide") {
  return CudaDefinition(name, "parameters { name: 'T' range { first: 1 last: 500 } }", "T", "32");
}

std::vector<tunefarm::v1::Device> Gpus(int count) {
  std::vector<tunefarm::v1::Device> devices;
  for (int i = 0; i < count; ++i) devices.push_back(FakeGpu("GPU-" + std::to_string(i)));
  return devices;
}

class ManyDevicesTest : public testing::TestWithParam<int> {
 protected:
  ManyDevicesTest() : farm_(directory_.path(), Gpus(GetParam()), 16) {}

  // Compile and run times; the config T takes between 3/4 and 5/4 of the run time.
  void Script(Duration compile, Duration run) {
    farm_.evaluator().set_scripter([=](const FakeEvaluator::Question& question) {
      FakeEvaluator::Script script;
      script.compile_time = compile;
      script.run_time = run;
      if (question.config.size() > 2) {
        const int t = std::stoi(question.config.substr(2));
        script.median_ns = 1000 + t;
        script.run_time = run * (75 + t * 37 % 51) / 100;
      }
      return script;
    });
  }

  std::vector<Trial> Trials(const std::string& job, tunefarm::v1::TrialPurpose purpose) {
    std::vector<Trial> trials;
    for (const Trial& trial : farm_.Trials(job)) {
      if (trial.purpose() == purpose) trials.push_back(trial);
    }
    return trials;
  }

  // Fake time until the last trial of the search has ended.
  double SearchSeconds(const std::string& job) {
    const MonotonicTime began = farm_.clock.Now();
    EXPECT_TRUE(farm_.RunUntil([&] { return farm_.Job(job).progress().done() >= kTrials; }));
    return std::chrono::duration<double>(farm_.clock.Now() - began).count();
  }

  TemporaryDirectory directory_;
  Farm farm_;
};

TEST_P(ManyDevicesTest, BoundByTheDevicesTheyAllWorkToTheEnd) {
  const int devices = GetParam();
  Script(std::chrono::milliseconds(1), std::chrono::milliseconds(60));
  const std::string job = farm_.SubmitJob({1024}, WideKernel());
  const double seconds = SearchSeconds(job);
  EXPECT_EQ(farm_.evaluator().most_running(), devices);
  double run_seconds = 0;
  std::map<std::string, double> by_device;
  std::set<int64_t> configs;
  for (const Trial& trial : Trials(job, tunefarm::v1::TRIAL_PURPOSE_SEARCH)) {
    run_seconds += trial.run_ms() / 1e3;
    by_device[trial.device_uuid()] += trial.run_ms() / 1e3;
    EXPECT_TRUE(configs.insert(trial.config().values().at("T").int_value()).second);
  }
  EXPECT_EQ(configs.size(), static_cast<size_t>(kTrials));
  EXPECT_EQ(by_device.size(), static_cast<size_t>(devices));
  // On the fake clock nothing but the distribution of the work costs time: the first trial is alone, the last ones may
  // leave a device without work for about one trial.
  EXPECT_LE(seconds, run_seconds / devices + 0.06 * 4) << "the devices' bound is " << run_seconds / devices;
  // Workers are made ready while the first binaries are compiled.
  const std::vector<std::string> expected = farm_.evaluator().expected();
  EXPECT_EQ(std::set<std::string>(expected.begin(), expected.end()).size(), static_cast<size_t>(devices));
  // No trial ran twice.
  std::map<std::string, int> runs;
  for (const auto& run : farm_.evaluator().runs()) ++runs[run.config];
  for (const auto& [config, count] : runs) EXPECT_EQ(count, 1) << config;
}

TEST_P(ManyDevicesTest, BoundByTheCompilersTheCoresNeverWait) {
  Script(std::chrono::milliseconds(800), std::chrono::milliseconds(5));
  farm_.evaluator().set_compile_workers(16);
  const std::string job = farm_.SubmitJob({1024}, WideKernel());
  const double seconds = SearchSeconds(job);
  const double bound = kCompileSeconds * kTrials / 16;
  EXPECT_LE(seconds, bound + 2 * 0.8) << "the compilers' bound is " << bound;
  // More than wait for a compiler and for a device are never asked for at once.
  EXPECT_LE(farm_.evaluator().most_compiling(), 16 * 3 + 2 * GetParam() + 2);
}

TEST_P(ManyDevicesTest, BoundByBothNeitherWaitsForTheOther) {
  // 500 compiles of 0.4 s on 16 cores: 12.5 s. Runs of 25 ms for each device and 500 trials: 12.5 s.
  Script(std::chrono::milliseconds(400), std::chrono::milliseconds(25) * GetParam());
  farm_.evaluator().set_compile_workers(16);
  const std::string job = farm_.SubmitJob({1024}, WideKernel());
  EXPECT_LE(SearchSeconds(job), 1.1 * 12.5 + 2 * 0.4);
}

TEST_P(ManyDevicesTest, TheFinalistsOfAStudyAreComparedOnOneDevice) {
  Script(std::chrono::milliseconds(1), std::chrono::milliseconds(20));
  tunefarm::v1::Job budgeted;
  budgeted.mutable_budget()->set_max_trials(40);
  const std::string job = farm_.SubmitJob({1024, 2048, 4096, 8192}, WideKernel(), budgeted);
  ASSERT_TRUE(farm_.Finish(job));
  EXPECT_EQ(farm_.Job(job).state(), tunefarm::v1::JOB_STATE_SUCCEEDED);
  std::map<std::string, std::set<std::string>> devices_of_study;
  std::map<std::string, int> finalists;
  for (int page = 1; page <= 4; ++page) {
    for (const Trial& trial : Trials(job + "/studies/" + std::to_string(page), tunefarm::v1::TRIAL_PURPOSE_FINALIST)) {
      devices_of_study[trial.problem_key()].insert(trial.device_uuid());
      ++finalists[trial.problem_key()];
    }
  }
  EXPECT_EQ(devices_of_study.size(), 4u);
  for (const auto& [study, devices] : devices_of_study) EXPECT_EQ(devices.size(), 1u) << study;
  for (const auto& [study, count] : finalists) EXPECT_GE(count, 5) << study;
}

TEST_P(ManyDevicesTest, ASmallJobIsNotBehindAHugeOneOfItsPriority) {
  Script(std::chrono::milliseconds(1), std::chrono::milliseconds(60));
  const std::string huge = farm_.SubmitJob({1024}, WideKernel());
  farm_.RunFor(std::chrono::seconds(1));
  tunefarm::v1::Job small_job;
  small_job.mutable_budget()->set_max_trials(20);
  const std::string small = farm_.SubmitJob({1024}, WideKernel("small"), small_job);
  ASSERT_TRUE(farm_.Finish(small));
  EXPECT_FALSE(farm_.Ended(huge));
  EXPECT_LT(farm_.Job(huge).progress().done(), kTrials);
  ASSERT_TRUE(farm_.Finish(huge));
}

INSTANTIATE_TEST_SUITE_P(Devices, ManyDevicesTest, testing::Values(2, 4));

}  // namespace
}  // namespace tunefarm
