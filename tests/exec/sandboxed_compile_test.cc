// The real compile worker in its sandbox: what kernels/examples/hostile_cuda tries while it is compiled. Needs NVRTC,
// no GPU.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "server/base/check.h"
#include "server/base/file.h"
#include "server/base/thread.h"
#include "server/definition/kernel_plan.h"
#include "server/exec/process_evaluator.h"
#include "tests/fakes/permitted.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class SandboxedCompileTest : public testing::Test {
 protected:
  SandboxedCompileTest() {
    options_.worker_binary = std::string(std::getenv("TUNEFARM_BIN_DIR")) + "/tunefarm-worker";
    options_.scratch_directory = directory_.File("scratch");
    options_.compile_workers = 1;
    options_.deadlines.compile_ms = 600'000;
  }

  void SetUp() override {
    const std::string folder = std::string(std::getenv("TUNEFARM_SOURCE_DIR")) + "/kernels/examples/hostile_cuda/";
    const auto read = [&folder](const std::string& name) { return ReadFile(folder + name, 1 << 20); };
    const absl::StatusOr<std::string> text = read("kernel.pbtxt");
    ASSERT_TRUE(text.ok()) << text.status();
    const absl::StatusOr<tunefarm::v1::Kernel> kernel = LoadKernelText(*text, "kernel.pbtxt", read);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    absl::StatusOr<std::shared_ptr<const KernelPlan>> plan = KernelPlan::Compile(*kernel);
    ASSERT_TRUE(plan.ok()) << plan.status();
    plan_ = *plan;
    absl::StatusOr<ResolvedProblem> problem = plan_->ResolveProblem(tunefarm::v1::Problem());
    ASSERT_TRUE(problem.ok()) << problem.status();
    problem_ = std::make_shared<ResolvedProblem>(*std::move(problem));
    // Started once here, so that a machine without NVRTC shows.
    const CompileResult plain = Compile("nothing");
    if (plain.outcome == tunefarm::v1::OUTCOME_LOST) GTEST_SKIP() << plain.message;
    ASSERT_EQ(plain.outcome, tunefarm::v1::OUTCOME_OK) << plain.message << plain.log;
  }

  CompileResult Compile(const std::string& attempt) {
    if (evaluator_ == nullptr) evaluator_ = std::make_unique<ProcessEvaluator>(options_);
    Config config = plan_->DefaultConfig(*problem_);
    config.Set("ATTEMPT", Value(attempt));
    CompileResult result;
    Notification done;
    evaluator_->Compile({plan_, problem_, *FindKnownClass("H200"), config}, [&](CompileResult compiled) {
      result = std::move(compiled);
      done.Notify();
    });
    done.WaitForNotification();
    return result;
  }

  TemporaryDirectory directory_;
  ProcessEvaluatorOptions options_;
  std::shared_ptr<const KernelPlan> plan_;
  std::shared_ptr<const ResolvedProblem> problem_;
  std::unique_ptr<ProcessEvaluator> evaluator_;
};

TEST_F(SandboxedCompileTest, FilesOfTheMachineDoNotShowInTheLog) {
  const absl::StatusOr<ProbeResult> probe = ProbeDevices(options_);
  ASSERT_TRUE(probe.ok()) << probe.status();
  if (!testing::Matches(StartsWith("L1: "))(probe->sandbox_level)) {
    SKIP_NOT_PERMITTED("isolation level L1 is not reached here: " + probe->sandbox_level);
  }
  for (const char* attempt : {"include_passwd", "include_secret", "include_environment"}) {
    const CompileResult result = Compile(attempt);
    EXPECT_EQ(result.outcome, tunefarm::v1::OUTCOME_COMPILE_ERROR) << attempt;
    for (const std::string& text : {result.message, result.log}) {
      EXPECT_THAT(text, Not(HasSubstr("root:"))) << attempt;
      EXPECT_THAT(text, Not(HasSubstr("PATH="))) << attempt;
    }
    EXPECT_THAT(result.message, HasSubstr("cannot open source file")) << attempt;
  }
}

// The worker looks at the toolkit's headers inside of its sandbox, the cache outside.
TEST_F(SandboxedCompileTest, ABinaryIsFoundAgain) {
  const CompileResult again = Compile("nothing");
  EXPECT_EQ(again.outcome, tunefarm::v1::OUTCOME_OK);
  EXPECT_TRUE(again.from_cache);
  EXPECT_NE(again.inputs, nullptr);
}

TEST_F(SandboxedCompileTest, TemplatesThatTakeYearsEndAtTheLimit) {
  evaluator_ = nullptr;
  options_.deadlines.compile_ms = 3000;
  const CompileResult result = Compile("explode_templates");
  EXPECT_EQ(result.outcome, tunefarm::v1::OUTCOME_COMPILE_TIMEOUT) << result.message;
  // How long a good one takes is not what this is about.
  evaluator_ = nullptr;
  options_.deadlines.compile_ms = 600'000;
  EXPECT_EQ(Compile("nothing").outcome, tunefarm::v1::OUTCOME_OK);
}

// Below what is required nothing is compiled.
TEST_F(SandboxedCompileTest, AWorkerThatMissesTheRequiredLevelDoesNoWork) {
  evaluator_ = nullptr;
  options_.sandbox = false;
  options_.required_isolation = "L1";
  const CompileResult result = Compile("nothing");
  EXPECT_EQ(result.outcome, tunefarm::v1::OUTCOME_LOST);
  EXPECT_THAT(result.message + result.log, HasSubstr("isolation L1 is required"));
}

}  // namespace
}  // namespace tunefarm
