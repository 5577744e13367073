// What a submit refuses, and how it says so; request ids; look-ups and lists by name.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "tests/unit/jobs/farm.h"

namespace tunefarm {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class SubmitTest : public testing::Test {
 protected:
  absl::Status Refused(tunefarm::v1::Job job, const std::optional<tunefarm::v1::Kernel>& kernel = TestKernel()) {
    return farm_.service().Submit(job, kernel, "", false).status();
  }
  static std::string Text(const absl::Status& status) { return std::string(MessageOf(status)); }
  static tunefarm::v1::Job OneProblem(int64_t n = 1024) {
    tunefarm::v1::Job job;
    *job.add_problems() = TestProblem(n);
    return job;
  }

  TemporaryDirectory directory_;
  Farm farm_{directory_.path()};
};

TEST_F(SubmitTest, RefusesAnUnknownKernelWithTheLikelyMeantOne) {
  ASSERT_TRUE(farm_.service().CreateKernel(TestKernel()).ok());
  auto job = OneProblem();
  job.set_kernel("scal");
  const absl::Status status = Refused(job, std::nullopt);
  EXPECT_EQ(ReasonOf(status), "KERNEL_NOT_FOUND");
  EXPECT_THAT(Text(status), HasSubstr("did you mean 'scale'"));
}

// As a built-in one that was never tuned here.
TEST_F(SubmitTest, SaysHowAKernelThatIsNotStoredBecomesSo) {
  for (const bool is_empty : {true, false}) {
    if (!is_empty) {
      ASSERT_TRUE(farm_.service().CreateKernel(TestKernel()).ok());
    }
    auto job = OneProblem();
    job.set_kernel("matmul_host");
    const absl::Status status = Refused(job, std::nullopt);
    EXPECT_EQ(ReasonOf(status), "KERNEL_NOT_FOUND");
    EXPECT_THAT(Text(status),
                testing::AllOf(HasSubstr("there is no kernel 'matmul_host'"), HasSubstr("tunefarm tune KERNEL")));
  }
}

TEST_F(SubmitTest, RefusesAnUnknownDimAndNamesTheProblem) {
  auto job = OneProblem();
  auto* second = job.add_problems();
  (*second->mutable_dims())["M"].set_int_value(1);
  const absl::Status status = Refused(job);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Text(status), HasSubstr("problems[1]"));
}

TEST_F(SubmitTest, RefusesAnUnknownDeviceWithTheListOfDevices) {
  auto job = OneProblem();
  job.set_device_selector("hosst");
  const absl::Status status = Refused(job);
  EXPECT_EQ(ReasonOf(status), "DEVICE_NOT_FOUND");
  EXPECT_THAT(Text(status), HasSubstr("did you mean 'host'"));
  EXPECT_THAT(Text(status), HasSubstr("HOST-1"));
  job.set_device_selector("cuda");
  EXPECT_EQ(ReasonOf(Refused(job)), "DEVICE_NOT_FOUND");
}

TEST_F(SubmitTest, RefusesPythonUnlessTheDaemonRunsItAndSaysWhatToSet) {
  tunefarm::v1::Kernel kernel;
  kernel.set_display_name("snake");
  kernel.set_language(tunefarm::v1::LANGUAGE_PYTHON);
  kernel.mutable_python()->set_device(tunefarm::v1::DEVICE_KIND_HOST);
  kernel.add_sources()->set_path("snake.py");
  kernel.mutable_sources(0)->set_content("def make_run_and_gt(config): ...");
  auto* dim = kernel.add_dims();
  dim->set_name("N");
  auto* parameter = kernel.add_parameters();
  parameter->set_name("A");
  parameter->mutable_values()->add_ints(1);
  const absl::Status status = Refused(OneProblem(), kernel);
  EXPECT_EQ(ReasonOf(status), "PYTHON_DISABLED");
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(Text(status), AllOf(HasSubstr("'snake'"), HasSubstr("python_interpreter")));
  farm_.Crash();
  farm_.abilities.runs_python = true;
  farm_.Boot();
  EXPECT_TRUE(Refused(OneProblem(), kernel).ok());
  // It says itself what it runs on.
  kernel.mutable_python()->set_device(tunefarm::v1::DEVICE_KIND_CUDA);
  const absl::Status no_gpu = Refused(OneProblem(), kernel);
  EXPECT_EQ(ReasonOf(no_gpu), "DEVICE_NOT_FOUND");
  EXPECT_THAT(Text(no_gpu), HasSubstr("PYTHON (on a GPU)"));
}

TEST_F(SubmitTest, RefusesTritonWhereNoDeviceOfTheClassHasAReleaseOfIt) {
  for (const std::string_view release : {"", "3.6.0"}) {
    TemporaryDirectory directory;
    Farm farm(directory.path(), {GpuDevice("GPU-1", std::string(release))});
    farm.Crash();
    farm.abilities.runs_python = true;
    farm.Boot();
    const absl::Status status = farm.service().Submit(OneProblem(), TritonKernel(), "", true).status();
    if (!release.empty()) {
      EXPECT_TRUE(status.ok()) << status;
      continue;
    }
    EXPECT_EQ(ReasonOf(status), "TRITON_MISSING");
    EXPECT_TRUE(absl::IsFailedPrecondition(status));
    EXPECT_THAT(Text(status), AllOf(HasSubstr("'product'"), HasSubstr("restart the daemon or agent")));
  }
}

TEST_F(SubmitTest, RefusesAnEmptySpaceWithWhatEachRuleRemoved) {
  auto kernel = TestKernel();
  kernel.add_constraints()->set_expression("A > 100");
  const absl::Status status = Refused(OneProblem(), kernel);
  EXPECT_EQ(ReasonOf(status), "SPACE_EMPTY");
  EXPECT_THAT(Text(status), HasSubstr("A > 100"));
}

TEST_F(SubmitTest, RefusesAProblemThatDoesNotFitWithBothNumbers) {
  const absl::Status status = Refused(OneProblem(int64_t{1} << 33));
  EXPECT_EQ(ReasonOf(status), "PROBLEM_TOO_LARGE");
  EXPECT_THAT(Text(status), AllOf(HasSubstr("needs 96.0 GiB"), HasSubstr("has 1 GiB")));
}

TEST_F(SubmitTest, RefusesExhaustiveOverASpaceThatCannotBeListedAndChoosesTheDefaultForIt) {
  auto kernel = TestKernel();
  for (int i = 0; i < 10; ++i) {
    auto* parameter = kernel.add_parameters();
    parameter->set_name("P" + std::to_string(i));
    parameter->mutable_range()->set_first(1);
    parameter->mutable_range()->set_last(16);
  }
  auto job = OneProblem();
  job.mutable_strategy()->set_strategy_name("exhaustive");
  const absl::Status status = Refused(job, kernel);
  EXPECT_EQ(ReasonOf(status), "STRATEGY_INVALID");
  EXPECT_THAT(Text(status), HasSubstr("random"));
  const auto accepted = farm_.service().Submit(OneProblem(), kernel, "", true);
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  EXPECT_EQ(accepted->strategy().strategy_name(), "default");
  EXPECT_EQ(accepted->budget().max_trials(), 1000);
  EXPECT_TRUE(accepted->name().empty());
  job.mutable_strategy()->set_strategy_name("randum");
  EXPECT_THAT(Text(Refused(job)), HasSubstr("did you mean 'random'"));
}

TEST_F(SubmitTest, SearchesSmallSpacesOnlyWhereTheBudgetMayNotReachAllOfIt) {
  const auto chosen = [&](const tunefarm::v1::Job& job) {
    const auto accepted = farm_.service().Submit(job, TestKernel(), "", true);
    EXPECT_TRUE(accepted.ok()) << accepted.status();
    return accepted->strategy().strategy_name();
  };
  auto job = OneProblem();
  EXPECT_EQ(chosen(job), "exhaustive");
  job.mutable_budget()->set_max_trials(9'999);
  EXPECT_EQ(chosen(job), "exhaustive");
  job.mutable_budget()->set_max_trials(2);
  EXPECT_EQ(chosen(job), "default");
  job = OneProblem();
  job.mutable_budget()->set_max_seconds(60);
  EXPECT_EQ(chosen(job), "default");
  job.mutable_strategy()->set_strategy_name("exhaustive");
  EXPECT_EQ(chosen(job), "exhaustive");
}

TEST_F(SubmitTest, RefusesNumbersOutOfBounds) {
  EXPECT_EQ(ReasonOf(Refused({})), "PROBLEM_COUNT");
  auto job = OneProblem();
  job.set_priority(101);
  EXPECT_THAT(Text(Refused(job)), HasSubstr("priority is 101, it must be between -100 and 100"));
  job = OneProblem();
  job.mutable_policy()->set_finalists(33);
  EXPECT_EQ(ReasonOf(Refused(job)), "POLICY_INVALID");
  for (const int mhz : {-1, 99, 10'001}) {
    job = OneProblem();
    job.mutable_policy()->set_locked_clock_mhz(mhz);
    EXPECT_EQ(ReasonOf(Refused(job)), "POLICY_INVALID") << mhz;
    EXPECT_THAT(Text(Refused(job)), HasSubstr("must be 0 (the clock is not held) or between 100 and 10000")) << mhz;
  }
  job = OneProblem();
  job.mutable_policy()->set_locked_clock_mhz(1410);
  EXPECT_THAT(Text(Refused(job)), HasSubstr("is no CUDA GPU")) << "a CPU's clock is not held";
  job = OneProblem();
  job.mutable_budget()->set_max_trials(-1);
  EXPECT_EQ(ReasonOf(Refused(job)), "BUDGET_INVALID");
  job = OneProblem();
  job.set_label(std::string("night\0ly", 8));
  EXPECT_THAT(Text(Refused(job)), HasSubstr("the label has a NUL character at byte 5"));
  job = OneProblem();
  *job.add_problems() = TestProblem(1024);
  EXPECT_THAT(Text(Refused(job)), HasSubstr("problems[0] and problems[1] are the same"));
}

TEST_F(SubmitTest, TheSameRequestIdIsTheSameJobAndAnotherBodyIsRefused) {
  const auto first = farm_.service().Submit(OneProblem(), TestKernel(), "id-1", false);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->state(), tunefarm::v1::JOB_STATE_QUEUED);
  EXPECT_EQ(farm_.service().Submit(OneProblem(), TestKernel(), "id-1", false)->name(), first->name());
  EXPECT_EQ(ReasonOf(farm_.service().Submit(OneProblem(2048), TestKernel(), "id-1", false).status()),
            "REQUEST_ID_REUSED");
  EXPECT_EQ(farm_.service().tuning_api().ListJobs({})->jobs_size(), 1);
}

TEST_F(SubmitTest, LookupsAnswerWithTheDefaultBeforeAnythingIsTunedAndRespectTheWorstMatch) {
  ASSERT_TRUE(farm_.service().CreateKernel(TestKernel()).ok());
  tunefarm::v1::LookupConfigRequest request;
  request.set_kernel("scale");
  const auto answer = farm_.service().lookup_api().LookupConfig(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->match(), tunefarm::v1::MATCH_DEFAULT);
  EXPECT_EQ(answer->best().config().values().at("A").int_value(), 1);
  request.set_worst_match(tunefarm::v1::MATCH_SAME_ARCH);
  EXPECT_EQ(farm_.service().lookup_api().LookupConfig(request)->match(), tunefarm::v1::MATCH_NOT_FOUND);

  tunefarm::v1::BatchLookupConfigsRequest batch;
  batch.set_kernel("scale");
  auto* column = batch.add_columns();
  column->set_dim("N");
  for (int i = 1; i <= 3; ++i) column->add_ints(1024 * i);
  const auto answers = farm_.service().lookup_api().BatchLookupConfigs(batch);
  ASSERT_TRUE(answers.ok()) << answers.status();
  EXPECT_EQ(answers->bests_size(), 1);
  EXPECT_THAT(answers->best_indexes(), testing::ElementsAre(0, 0, 0));
}

TEST_F(SubmitTest, CountsASpaceForThisMachineByName) {
  ASSERT_TRUE(farm_.service().CreateKernel(TestKernel()).ok());
  tunefarm::v1::CountSpaceRequest request;
  request.set_name("scale");
  const auto response = farm_.service().kernel_api().CountSpace(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->space().valid(), 11);
  EXPECT_EQ(response->space().cartesian(), "12");
  ASSERT_GE(response->space().rules_size(), 1);
  EXPECT_EQ(response->space().rules(0).removed(), 1);
  request.set_device_selector("A100");
  EXPECT_EQ(ReasonOf(farm_.service().kernel_api().CountSpace(request).status()), "DEVICE_KIND");
}

// Answers as a compiler that looks at parameter A alone.
absl::StatusOr<std::vector<CompiledConfig>> CompileByA(const CompileOrder& order) {
  std::vector<CompiledConfig> compiled;
  for (const Config& config : order.configs) {
    CompiledConfig one;
    one.outcome = v1::OUTCOME_OK;
    one.binary_digest = config.Find("A")->ToText();
    compiled.push_back(one);
  }
  return compiled;
}

class CompileKernelTest : public SubmitTest {
 protected:
  KernelApi Api(CompileConfigs compile) {
    return KernelApi(farm_.hooked_store.get(), &kernels_, &farm_.service().devices(), KernelQuota{}, Clock::Real(),
                     std::move(compile));
  }
  static v1::CompileKernelRequest Request() {
    v1::CompileKernelRequest request;
    *request.mutable_kernel() = TestKernel();
    return request;
  }

  KernelRegistry kernels_{farm_.hooked_store.get()};
};

TEST_F(CompileKernelTest, CompilesTheDefaultAndEachOtherValue) {
  const auto response = Api(CompileByA).CompileKernel(Request());
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->device_class_name(), "Test CPU");
  // A has three other values, B two; what a sample adds is valid and new.
  EXPECT_GE(response->configs_size(), 6);
  EXPECT_LE(response->configs_size(), 11);
  const auto plan = KernelPlan::Compile(TestKernel());
  ASSERT_TRUE(plan.ok());
  const Config usual = (*plan)->DefaultConfig(*(*plan)->ResolveProblem(TestProblem(1024)));
  EXPECT_EQ((*plan)->ParseConfig(response->configs(0).config())->ToText(), usual.ToText());
  EXPECT_THAT(response->parameters_without_effect(), testing::ElementsAre("B"));
  v1::CompileKernelRequest few = Request();
  few.set_configs_max(3);
  EXPECT_EQ(Api(CompileByA).CompileKernel(few)->configs_size(), 3);
}

// A binary of a few bytes for each config.
absl::StatusOr<std::vector<CompiledConfig>> CompileWithBinaries(const CompileOrder& order) {
  std::vector<CompiledConfig> compiled;
  for (const Config& config : order.configs) {
    CompiledConfig one;
    one.outcome = v1::OUTCOME_OK;
    one.binary_digest = config.ToText();
    if (order.binaries_bytes_max > 0) one.binary = "binary of " + config.ToText();
    one.binary_bytes = one.binary.size();
    one.lowered_names["scale"] = "scale";
    one.compile_options = {"-O2", "-shared"};
    one.toolchain = "g++ 12.2.0";
    compiled.push_back(one);
  }
  return compiled;
}

TEST_F(CompileKernelTest, CompilesExactlyTheListedConfigs) {
  const auto plan = KernelPlan::Compile(TestKernel());
  ASSERT_TRUE(plan.ok());
  const Config usual = (*plan)->DefaultConfig(*(*plan)->ResolveProblem(TestProblem(1024)));
  Config other = usual;
  other.Set("A", Value(int64_t{4}));
  v1::CompileKernelRequest request = Request();
  *request.add_configs() = (*plan)->ToProto(other);
  *request.add_configs() = (*plan)->ToProto(usual);
  *request.add_configs() = (*plan)->ToProto(other);
  const auto response = Api(CompileWithBinaries).CompileKernel(request);
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->configs_size(), 3);
  EXPECT_EQ((*plan)->ParseConfig(response->configs(0).config())->ToText(), other.ToText());
  EXPECT_EQ((*plan)->ParseConfig(response->configs(1).config())->ToText(), usual.ToText());
  EXPECT_THAT(response->parameters_without_effect(), testing::IsEmpty());
  EXPECT_EQ(response->configs(0).binary(), "");
  EXPECT_EQ(response->toolchain(), "g++ 12.2.0");

  request.set_with_binaries(true);
  const auto with_binaries = Api(CompileWithBinaries).CompileKernel(request);
  ASSERT_TRUE(with_binaries.ok()) << with_binaries.status();
  const v1::ConfigCompile& first = with_binaries->configs(0);
  EXPECT_EQ(first.binary(), "binary of " + other.ToText());
  EXPECT_EQ(first.binary_format(), v1::BINARY_FORMAT_SHARED_OBJECT);
  EXPECT_EQ(first.lowered_names().at("scale"), "scale");
  EXPECT_THAT(first.compile_options(), testing::ElementsAre("-O2", "-shared"));
  // The macros are those of the worker, in its order.
  const auto constants = (*plan)->Constants(*(*plan)->ResolveProblem(TestProblem(1024)), other, DeviceClass());
  ASSERT_TRUE(constants.ok());
  ASSERT_EQ(first.macros_size(), static_cast<int>(constants->size()));
  for (int i = 0; i < first.macros_size(); ++i) {
    EXPECT_EQ(first.macros(i).name(), (*constants)[static_cast<size_t>(i)].first);
    EXPECT_EQ(first.macros(i).value(), (*constants)[static_cast<size_t>(i)].second);
  }
}

TEST_F(CompileKernelTest, RefusesWrongConfigsAndFormats) {
  const auto plan = KernelPlan::Compile(TestKernel());
  ASSERT_TRUE(plan.ok());
  const v1::Config good = (*plan)->ToProto((*plan)->DefaultConfig(*(*plan)->ResolveProblem(TestProblem(1024))));
  v1::CompileKernelRequest request = Request();
  *request.add_configs() = good;
  *request.add_configs() = good;
  (*request.mutable_configs(1)->mutable_values())["A"].set_int_value(12345);
  const absl::Status wrong = Api(CompileByA).CompileKernel(request).status();
  EXPECT_EQ(ReasonOf(wrong), "CONFIG_INVALID");
  EXPECT_THAT(Text(wrong), AllOf(HasSubstr("configs[1]"), HasSubstr("A=12345"), HasSubstr("'A'")));
  request = Request();
  for (int i = 0; i < 65; ++i) *request.add_configs() = good;
  EXPECT_EQ(ReasonOf(Api(CompileByA).CompileKernel(request).status()), "CONFIGS_MAX_INVALID");
  request = Request();
  request.set_binary_format(v1::BINARY_FORMAT_PTX);
  const absl::Status ptx = Api(CompileByA).CompileKernel(request).status();
  EXPECT_EQ(ReasonOf(ptx), "BINARY_FORMAT_INVALID");
  EXPECT_THAT(Text(ptx), HasSubstr("'scale' is in C++ for the CPU: its binary is a shared object"));
}

TEST_F(CompileKernelTest, BoundsTheBinariesOfOneAnswer) {
  const auto plan = KernelPlan::Compile(TestKernel());
  ASSERT_TRUE(plan.ok());
  const Config usual = (*plan)->DefaultConfig(*(*plan)->ResolveProblem(TestProblem(1024)));
  v1::CompileKernelRequest request = Request();
  request.set_with_binaries(true);
  for (int i = 0; i < 3; ++i) *request.add_configs() = (*plan)->ToProto(usual);
  const auto large = [](const CompileOrder& order) -> absl::StatusOr<std::vector<CompiledConfig>> {
    ASSIGN_OR_RETURN(std::vector<CompiledConfig> compiled, CompileWithBinaries(order));
    for (CompiledConfig& one : compiled) one.binary_bytes = uint64_t{32} << 20;
    return compiled;
  };
  const absl::Status status = Api(large).CompileKernel(request).status();
  EXPECT_EQ(ReasonOf(status), "BINARIES_TOO_LARGE");
  EXPECT_THAT(Text(status), AllOf(HasSubstr("64 MiB"), HasSubstr("config 2 (" + usual.ToText() + ")")));
}

TEST_F(CompileKernelTest, SaysWhyItCannot) {
  EXPECT_EQ(ReasonOf(Api(nullptr).CompileKernel(Request()).status()), "NO_COMPILER");
  v1::CompileKernelRequest request = Request();
  request.set_configs_max(65);
  EXPECT_EQ(ReasonOf(Api(CompileByA).CompileKernel(request).status()), "CONFIGS_MAX_INVALID");
  request = Request();
  request.set_device_selector("A100");
  EXPECT_EQ(ReasonOf(Api(CompileByA).CompileKernel(request).status()), "DEVICE_KIND");
  request = Request();
  request.set_name("scale");
  EXPECT_EQ(ReasonOf(Api(CompileByA).CompileKernel(request).status()), "KERNEL_NOT_FOUND");
}

TEST_F(SubmitTest, WhatNoConfigCanPassIsRefused) {
  v1::Kernel kernel = TestKernel();
  v1::Argument* const scalar = kernel.add_arguments();
  scalar->set_name("n");
  scalar->mutable_scalar()->set_data_type(v1::DATA_TYPE_I32);
  scalar->mutable_scalar()->set_value("N * N");
  kernel.mutable_launches(0)->mutable_kernel()->add_arguments("n");
  EXPECT_TRUE(Refused(OneProblem(1024), kernel).ok());
  const absl::Status status = Refused(OneProblem(65536), kernel);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Text(status), testing::HasSubstr("argument 'n': 4294967296 is out of the range of i32"));
}

TEST_F(SubmitTest, NamesThatAreNoneAreRefusedWithTheirShape) {
  for (const char* name : {"", "jobs", "jobs/", "jobs/x", "jobs/0", "jobs/1/", "job/1", "jobs/99999999999999999999"}) {
    EXPECT_EQ(ReasonOf(farm_.service().GetJob(name).status()), "NAME_INVALID") << name;
  }
  EXPECT_EQ(ReasonOf(farm_.service().GetJob("jobs/7").status()), "JOB_NOT_FOUND");
  EXPECT_EQ(ReasonOf(farm_.service().GetTrial("jobs/7/studies/1/trials/0").status()), "TRIAL_NOT_FOUND");
}

}  // namespace
}  // namespace tunefarm
