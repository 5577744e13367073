#include "server/exec/worker_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "tests/fakes/temporary_directory.h"

namespace tunefarm {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(WorkerCommandTest, PassesOnWhereThingsAreAndNothingElse) {
  TemporaryDirectory directory;
  setenv("VIRTUAL_ENV", "/some/venv", 1);
  setenv("TUNEFARM_TEST_CREDENTIAL", "hush", 1);
  const char* const home = getenv("HOME");
  const std::string home_before = home == nullptr ? "" : home;
  setenv("HOME", "/home/somebody", 1);
  WorkerCommandOptions options;
  options.worker_binary = "/bin/worker";
  options.scratch_root = directory.File("scratch");
  options.sandbox = false;
  const absl::StatusOr<SubprocessOptions> command =
      MakeWorkerCommand(options, WorkerRole::kCompile, "cuda", "compile-0", "", 0);
  unsetenv("VIRTUAL_ENV");
  unsetenv("TUNEFARM_TEST_CREDENTIAL");
  if (home == nullptr) {
    unsetenv("HOME");
  } else {
    setenv("HOME", home_before.c_str(), 1);
  }
  ASSERT_TRUE(command.ok()) << command.status();
  EXPECT_THAT(command->environment, Contains("VIRTUAL_ENV=/some/venv"));
  EXPECT_THAT(command->environment, Contains("TUNEFARM_USER_HOME=/home/somebody"));
  EXPECT_THAT(command->environment, Contains("HOME=" + directory.File("scratch/compile-0")));
  EXPECT_THAT(command->environment, Contains("CUDA_VISIBLE_DEVICES="));
  EXPECT_THAT(command->environment, Not(Contains(HasSubstr("hush"))));
}

TEST(WorkerCommandTest, DemandsAndLimitsReachTheWorker) {
  TemporaryDirectory directory;
  WorkerCommandOptions options;
  options.scratch_root = directory.File("scratch");
  options.sandbox = false;
  const auto arguments = [&options](WorkerRole role) {
    const absl::StatusOr<SubprocessOptions> command = MakeWorkerCommand(options, role, "host", "worker", "", 0);
    EXPECT_TRUE(command.ok()) << command.status();
    return command.ok() ? command->arguments : std::vector<std::string>();
  };
  EXPECT_THAT(arguments(WorkerRole::kCompile), Not(Contains(HasSubstr("isolation"))));
  EXPECT_THAT(arguments(WorkerRole::kCompile), Not(Contains(HasSubstr("seconds"))));
  options.required_isolation = "L1";
  options.compile_seconds = 130;
  EXPECT_THAT(arguments(WorkerRole::kCompile), Contains("--required-isolation=L1"));
  EXPECT_THAT(arguments(WorkerRole::kCompile), Contains("--compile-seconds=130"));
  EXPECT_THAT(arguments(WorkerRole::kRun), Not(Contains(HasSubstr("seconds"))));
}

TEST(WorkerCommandTest, WorkersGetTheLimitOfOpenFilesThatWasFound) {
  TemporaryDirectory directory;
  WorkerCommandOptions options;
  options.scratch_root = directory.File("scratch");
  options.sandbox = false;
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low = {200, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  RaiseDescriptorLimit();
  rlimit raised = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &raised), 0);
  EXPECT_EQ(raised.rlim_cur, before.rlim_max);
  EXPECT_EQ(raised.rlim_max, before.rlim_max);
  const absl::StatusOr<SubprocessOptions> command =
      MakeWorkerCommand(options, WorkerRole::kRun, "host", "worker", "", 0);
  setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_TRUE(command.ok()) << command.status();
  EXPECT_THAT(command->arguments, Contains("--descriptors=200"));
}

}  // namespace
}  // namespace tunefarm
