// Jobs whose final goes by energy: what is refused, what wins, and what becomes of it.
#include <gmock/gmock.h>

#include <string>

#include "gtest/gtest.h"
#include "server/base/status.h"
#include "tests/fakes/cuda_definition.h"
#include "tests/unit/jobs/farm.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;

// Larger T is slower and needs less energy, so that T=1 is the fastest and T=4 the leanest.
FakeEvaluator::Script Opposed(const FakeEvaluator::Question& question) {
  const int t = question.config[2] - '0';
  FakeEvaluator::Script script = Timed(1000 + 100 * t);
  script.millijoules = 20 - 3 * t;
  return script;
}

class EnergyTest : public testing::Test {
 protected:
  static v1::Kernel Kernel() {
    return CudaDefinition("scale", "parameters { name: 'T' range { first: 1 last: 4 } }", "1", "T * 32");
  }
  static v1::Job By(v1::Objective objective) {
    v1::Job job;
    job.set_objective(objective);
    return job;
  }
  v1::Match MatchOfBest() {
    v1::LookupConfigRequest lookup;
    lookup.set_kernel("scale");
    *lookup.mutable_problem() = TestProblem(1024);
    const auto answer = farm_.service().lookup_api().LookupConfig(lookup);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? answer->match() : v1::MATCH_UNSPECIFIED;
  }
  static int64_t WinnerOf(const v1::Study& study) { return study.incumbent().config().values().at("T").int_value(); }

  TemporaryDirectory directory_;
  Farm farm_{directory_.path(), {FakeGpu("GPU-1")}};
};

TEST_F(EnergyTest, TheLeastEnergyWinsAndIsNotFiled) {
  farm_.evaluator().set_scripter(Opposed);
  const std::string name = farm_.SubmitJob({1024}, Kernel(), By(v1::OBJECTIVE_ENERGY));
  ASSERT_TRUE(farm_.Finish(name));
  const v1::Job job = farm_.Job(name);
  EXPECT_EQ(job.state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(job.objective(), v1::OBJECTIVE_ENERGY);
  EXPECT_TRUE(job.policy().measure_energy());
  const v1::Study& study = job.studies(0);
  EXPECT_EQ(WinnerOf(study), 4);
  EXPECT_EQ(study.best().config().values().at("T").int_value(), 4) << "what the final measured of it";
  EXPECT_EQ(study.best().revision(), 0);
  EXPECT_EQ(study.best().measurement().energy().millijoules(), 8);
  EXPECT_THAT(study.not_promoted_because(), HasSubstr("objective is energy; only winners by time are filed"));
  EXPECT_THAT(study.kept_because(), HasSubstr("of the energy of the fastest"));
  EXPECT_EQ(MatchOfBest(), v1::MATCH_DEFAULT);
  for (const v1::Trial& trial : farm_.Trials(name)) {
    EXPECT_EQ(trial.measurement().has_energy(), trial.purpose() == v1::TRIAL_PURPOSE_FINALIST) << trial.name();
  }
}

TEST_F(EnergyTest, ABestByTimeDefendsNothingAndStays) {
  farm_.evaluator().set_scripter(Opposed);
  ASSERT_TRUE(farm_.Finish(farm_.SubmitJob({1024}, Kernel())));
  ASSERT_EQ(MatchOfBest(), v1::MATCH_EXACT);
  const std::string name = farm_.SubmitJob({1024}, Kernel(), By(v1::OBJECTIVE_ENERGY_DELAY));
  ASSERT_TRUE(farm_.Finish(name));
  // 1100 * 17, 1200 * 14, 1300 * 11, 1400 * 8: the last is the smallest.
  EXPECT_EQ(WinnerOf(farm_.Job(name).studies(0)), 4);
  EXPECT_THAT(farm_.Job(name).studies(0).not_promoted_because(), HasSubstr("energy times time"));
  EXPECT_EQ(MatchOfBest(), v1::MATCH_EXACT);
  v1::LookupConfigRequest lookup;
  lookup.set_kernel("scale");
  *lookup.mutable_problem() = TestProblem(1024);
  EXPECT_EQ(farm_.service().lookup_api().LookupConfig(lookup)->best().config().values().at("T").int_value(), 1);
}

TEST_F(EnergyTest, SearchResultsAreReusedWhateverTheObjective) {
  farm_.evaluator().set_scripter(Opposed);
  ASSERT_TRUE(farm_.Finish(farm_.SubmitJob({1024}, Kernel())));
  const std::string name = farm_.SubmitJob({1024}, Kernel(), By(v1::OBJECTIVE_ENERGY));
  ASSERT_TRUE(farm_.Finish(name));
  EXPECT_EQ(farm_.Job(name).studies(0).reused_from_earlier(), 4);
}

TEST_F(EnergyTest, WithoutACounterTimeDecidesAndTheStudySaysSo) {
  farm_.evaluator().set_scripter([](const FakeEvaluator::Question& question) {
    FakeEvaluator::Script script = Opposed(question);
    script.millijoules = 0;
    return script;
  });
  const std::string name = farm_.SubmitJob({1024}, Kernel(), By(v1::OBJECTIVE_ENERGY));
  ASSERT_TRUE(farm_.Finish(name));
  const v1::Study study = farm_.Job(name).studies(0);
  EXPECT_EQ(WinnerOf(study), 1);
  EXPECT_THAT(study.kept_because(), testing::AllOf(HasSubstr("time decided instead of energy"),
                                                   HasSubstr("the device has no energy counter")));
  EXPECT_THAT(study.not_promoted_because(), HasSubstr("the job's objective is energy"));
}

TEST_F(EnergyTest, EnergiesAreMeasuredBesideAFinalByTimeWherePolicyAsks) {
  farm_.evaluator().set_scripter(Opposed);
  v1::Job job;
  job.mutable_policy()->set_measure_energy(true);
  const std::string name = farm_.SubmitJob({1024}, Kernel(), job);
  ASSERT_TRUE(farm_.Finish(name));
  const v1::Study study = farm_.Job(name).studies(0);
  EXPECT_EQ(WinnerOf(study), 1);
  EXPECT_EQ(study.best().measurement().energy().millijoules(), 17);
  EXPECT_EQ(MatchOfBest(), v1::MATCH_EXACT);
}

TEST_F(EnergyTest, DevicesAndKernelsWithoutAnEnergyAreRefused) {
  TemporaryDirectory directory;
  Farm farm(directory.path());
  v1::Job job = By(v1::OBJECTIVE_ENERGY);
  *job.add_problems() = TestProblem(1024);
  const absl::Status host = farm.service().Submit(job, TestKernel(), "", false).status();
  EXPECT_EQ(ReasonOf(host), "OBJECTIVE_UNSUPPORTED");
  EXPECT_EQ(MessageOf(host),
            "the job needs the energy of scale, which is measured only of kernels in CUDA C++ and Triton on NVIDIA "
            "GPUs; Test CPU is no such device");
  job.set_objective(v1::OBJECTIVE_TIME);
  EXPECT_TRUE(farm.service().Submit(job, TestKernel(), "", true).ok());
  job.mutable_policy()->set_measure_energy(true);
  EXPECT_EQ(ReasonOf(farm.service().Submit(job, TestKernel(), "", true).status()), "OBJECTIVE_UNSUPPORTED");
  job = By(static_cast<v1::Objective>(4));
  *job.add_problems() = TestProblem(1024);
  EXPECT_THAT(MessageOf(farm_.service().Submit(job, Kernel(), "", true).status()),
              HasSubstr("objective is 4, it must be between 0 and 3"));
}

TEST_F(EnergyTest, KernelsInPythonAreRefusedOnAGpuToo) {
  farm_.Crash();
  farm_.abilities.runs_python = true;
  farm_.Boot();
  v1::Kernel kernel;
  kernel.set_display_name("snake");
  kernel.set_language(v1::LANGUAGE_PYTHON);
  kernel.mutable_python()->set_device(v1::DEVICE_KIND_CUDA);
  kernel.add_sources()->set_path("snake.py");
  kernel.mutable_sources(0)->set_content("def make_run_and_gt(config): ...");
  kernel.add_dims()->set_name("N");
  auto* const parameter = kernel.add_parameters();
  parameter->set_name("A");
  parameter->mutable_values()->add_ints(1);
  v1::Job job = By(v1::OBJECTIVE_ENERGY_DELAY);
  *job.add_problems() = TestProblem(1024);
  const absl::Status status = farm_.service().Submit(job, kernel, "", true).status();
  EXPECT_EQ(ReasonOf(status), "OBJECTIVE_UNSUPPORTED");
  EXPECT_THAT(MessageOf(status), HasSubstr("this one is in Python"));
}

}  // namespace
}  // namespace tunefarm
