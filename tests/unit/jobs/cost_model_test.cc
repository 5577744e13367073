// Jobs with a cost model, from the request to the last trial, on a CUDA device that is not there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "server/cost/cost_guide.h"
#include "tests/unit/cost/tiled_kernel.h"
#include "tests/unit/jobs/farm.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;
using tunefarm::v1::CostModelMode;

tunefarm::v1::Kernel TiledKernel() { return TiledPlan()->kernel(); }

tunefarm::v1::Device CudaDevice() {
  tunefarm::v1::Device device = HostDevice("GPU-1");
  *device.mutable_device_class() = FindKnownClass("A100").value().ToProto();
  return device;
}

tunefarm::v1::Job CostJob(CostModelMode mode, double factor = 0) {
  tunefarm::v1::Job job;
  job.mutable_strategy()->mutable_cost_model()->set_mode(mode);
  job.mutable_strategy()->mutable_cost_model()->set_factor(factor);
  return job;
}

class CostJobTest : public testing::Test {
 protected:
  std::set<std::string> Searched(Farm* farm, const std::string& name) {
    std::set<std::string> texts;
    for (const auto& trial : farm->Trials(name)) {
      if (trial.purpose() != tunefarm::v1::TRIAL_PURPOSE_SEARCH) continue;
      texts.insert(TiledPlan()->ParseConfig(trial.config()).value().ToText());
    }
    return texts;
  }

  // What the model leaves of the tests' kernel.
  std::set<std::string> Left(double factor) {
    const auto plan = TiledPlan();
    const ResolvedProblem problem = plan->ResolveProblem(TestProblem(1024)).value();
    const DeviceClass device = FindKnownClass("A100").value();
    const Space space = plan->BuildSpace(problem, device).value();
    tunefarm::v1::CostModel options;
    options.set_mode(CostModelMode::COST_MODEL_MODE_PRUNE);
    options.set_factor(factor);
    const auto guide = MakeCostGuide(ResolvedCostModel(options), "default", plan, problem, device, space).value();
    std::set<std::string> texts;
    for (uint64_t row = 0; row < guide.left->size(); ++row) {
      texts.insert(space.MakeConfig(guide.left->Row(row)).ToText());
    }
    return texts;
  }

  absl::Status Refused(Farm* farm, const tunefarm::v1::Kernel& kernel, tunefarm::v1::Job job) {
    *job.add_problems() = TestProblem(1024);
    return farm->service().Submit(job, kernel, "", false).status();
  }

  TemporaryDirectory directory_;
};

TEST_F(CostJobTest, PruneTriesWhatIsLeftAndSaysWhatIsNot) {
  Farm farm(directory_.path(), {CudaDevice()});
  const std::string name = farm.SubmitJob({1024}, TiledKernel(), CostJob(CostModelMode::COST_MODEL_MODE_PRUNE));
  const std::set<std::string> left = Left(kPruneFactorDefault);
  ASSERT_GT(left.size(), 1u);
  ASSERT_LT(left.size(), 60u);
  const tunefarm::v1::Job accepted = farm.Job(name);
  EXPECT_EQ(accepted.strategy().cost_model().factor(), kPruneFactorDefault);
  EXPECT_EQ(accepted.strategy().cost_model().version(), kCostModelVersion);
  EXPECT_EQ(accepted.strategy().strategy_name(), "exhaustive");
  const tunefarm::v1::SpaceSize& size = accepted.studies(0).space();
  EXPECT_EQ(size.valid(), static_cast<int64_t>(left.size()));
  EXPECT_FALSE(size.approximate());
  const tunefarm::v1::RuleCount& rule = size.rules(size.rules_size() - 1);
  EXPECT_EQ(rule.rule(), "cost model: predicted time <= 1.5 x the least");
  EXPECT_EQ(rule.removed(), 60 - size.valid());
  ASSERT_TRUE(farm.Finish(name));
  EXPECT_EQ(farm.Job(name).state(), tunefarm::v1::JOB_STATE_SUCCEEDED) << farm.Job(name).error();
  EXPECT_EQ(Searched(&farm, name), left);
  EXPECT_EQ(farm.Job(name).studies(0).search_ended_because(), "the whole space");
}

TEST_F(CostJobTest, ARestartGoesOnWithTheSameSpaceAndProposesNothingTwice) {
  Farm farm(directory_.path(), {CudaDevice()});
  for (const CostModelMode mode : {CostModelMode::COST_MODEL_MODE_PRUNE, CostModelMode::COST_MODEL_MODE_RANK}) {
    tunefarm::v1::Job job = CostJob(mode);
    job.mutable_strategy()->set_strategy_name("default");
    job.set_no_memory(true);
    job.mutable_policy()->set_no_reuse(true);
    const std::string name = farm.SubmitJob({1024}, TiledKernel(), job);
    const int64_t total = farm.Job(name).studies(0).space().valid();
    for (const int64_t ended : {total / 4, total / 2}) {
      ASSERT_TRUE(farm.RunUntil([&] { return farm.Job(name).progress().done() >= ended; }));
      farm.Crash();
      farm.Boot();
    }
    ASSERT_TRUE(farm.Finish(name));
    EXPECT_EQ(farm.Job(name).state(), tunefarm::v1::JOB_STATE_SUCCEEDED) << farm.Job(name).error();
    const std::set<std::string> searched = Searched(&farm, name);
    if (mode == CostModelMode::COST_MODEL_MODE_PRUNE) {
      EXPECT_EQ(searched, Left(kPruneFactorDefault));
    } else {
      EXPECT_EQ(searched.size(), 60u);
    }
    int64_t trials = 0;
    for (const auto& trial : farm.Trials(name)) trials += trial.purpose() == tunefarm::v1::TRIAL_PURPOSE_SEARCH;
    EXPECT_EQ(trials, static_cast<int64_t>(searched.size()));
  }
}

TEST_F(CostJobTest, TheSameJobProposesTheSame) {
  Farm farm(directory_.path(), {CudaDevice()});
  std::vector<std::string> first;
  for (int i = 0; i < 2; ++i) {
    tunefarm::v1::Job job = CostJob(CostModelMode::COST_MODEL_MODE_RANK);
    job.set_no_memory(true);
    job.mutable_policy()->set_no_reuse(true);
    job.mutable_strategy()->set_strategy_name("exhaustive");
    const std::string name = farm.SubmitJob({1024}, TiledKernel(), job);
    ASSERT_TRUE(farm.Finish(name));
    std::vector<std::string> configs;
    for (const auto& trial : farm.Trials(name)) {
      if (trial.purpose() == tunefarm::v1::TRIAL_PURPOSE_SEARCH) {
        configs.push_back(TiledPlan()->ParseConfig(trial.config()).value().ToText());
      }
    }
    if (i == 0) first = configs;
    EXPECT_EQ(configs, first);
    EXPECT_EQ(configs.size(), 60u);
  }
}

TEST_F(CostJobTest, RefusesWhatItCannotDoInOneSentence) {
  Farm farm(directory_.path(), {CudaDevice(), HostDevice()});
  const absl::Status host = Refused(&farm, TestKernel(), CostJob(CostModelMode::COST_MODEL_MODE_RANK));
  EXPECT_EQ(host.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(host), "COST_MODEL_UNAVAILABLE");
  EXPECT_EQ(MessageOf(host),
            "the cost model has nothing to go by: kernel 'scale' is written in C++ for the host, which has no launch "
            "geometry; leave it off");
  EXPECT_EQ(ReasonOf(Refused(&farm, TestKernel(), CostJob(CostModelMode::COST_MODEL_MODE_PRUNE))),
            "COST_MODEL_UNAVAILABLE");
  tunefarm::v1::Job random = CostJob(CostModelMode::COST_MODEL_MODE_RANK);
  random.mutable_strategy()->set_strategy_name("random");
  EXPECT_EQ(ReasonOf(Refused(&farm, TiledKernel(), random)), "COST_MODEL_INVALID");
  EXPECT_EQ(ReasonOf(Refused(&farm, TiledKernel(), CostJob(CostModelMode::COST_MODEL_MODE_PRUNE, 0.5))),
            "COST_MODEL_INVALID");
  EXPECT_TRUE(Refused(&farm, TestKernel(), CostJob(CostModelMode::COST_MODEL_MODE_OFF)).ok());
}

TEST_F(CostJobTest, CountsAndPredictionsOfASpace) {
  Farm farm(directory_.path(), {CudaDevice(), HostDevice()});
  tunefarm::v1::CountSpaceRequest request;
  *request.mutable_kernel() = TiledKernel();
  *request.mutable_problem() = TestProblem(1024);
  EXPECT_FALSE(farm.service().CountSpace(request)->has_predicted_best());
  request.mutable_cost_model()->set_mode(CostModelMode::COST_MODEL_MODE_RANK);
  const auto ranked = farm.service().CountSpace(request);
  ASSERT_TRUE(ranked.ok()) << MessageOf(ranked.status());
  EXPECT_EQ(ranked->space().valid(), 60);
  EXPECT_GT(ranked->predicted_best().relative_time(), 0);
  EXPECT_GE(ranked->predicted_default().relative_time(), ranked->predicted_best().relative_time());
  EXPECT_EQ(ranked->predicted_default().threads_per_block(), 64);
  request.mutable_cost_model()->set_mode(CostModelMode::COST_MODEL_MODE_PRUNE);
  EXPECT_EQ(farm.service().CountSpace(request)->space().valid(), static_cast<int64_t>(Left(1.5).size()));
  *request.mutable_kernel() = TestKernel();
  EXPECT_EQ(ReasonOf(farm.service().CountSpace(request).status()), "COST_MODEL_UNAVAILABLE");
}

}  // namespace
}  // namespace tunefarm
