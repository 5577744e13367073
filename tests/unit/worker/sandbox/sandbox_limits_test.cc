#include "server/worker/sandbox/sandbox_limits.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/exec/frame_limits.h"

namespace tunefarm {
namespace {

// The limit of a process of the role, in bytes.
rlim_t FileLimitOf(const char* role) {
  int ends[2];
  if (pipe(ends) != 0) return 0;
  const pid_t child = fork();
  if (child == 0) {
    WorkerArguments arguments;
    arguments.role = role;
    arguments.backend = "cuda";
    SetLimits(arguments, false);
    rlimit limit = {};
    getrlimit(RLIMIT_FSIZE, &limit);
    (void)!write(ends[1], &limit.rlim_cur, sizeof(limit.rlim_cur));
    _exit(0);
  }
  rlim_t limit = 0;
  close(ends[1]);
  if (read(ends[0], &limit, sizeof(limit)) != sizeof(limit)) limit = 0;
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return limit;
}

TEST(SandboxLimits, TheSoftLimitOfOpenFilesIsLoweredAlone) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  LowerDescriptorLimit(200);
  rlimit now = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &now), 0);
  EXPECT_EQ(now.rlim_cur, 200u);
  EXPECT_EQ(now.rlim_max, before.rlim_max);
  LowerDescriptorLimit(300);
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &now), 0);
  EXPECT_EQ(now.rlim_cur, 200u) << "a lower limit stays";
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST(SandboxLimits, ARunnerCanHandOnAllThatTheDaemonTakes) {
  EXPECT_GT(FileLimitOf("run"), kExpectedOutputsBytesMax);
  EXPECT_LT(FileLimitOf("compile"), kExpectedOutputsBytesMax);
  EXPECT_GT(FileLimitOf("compile"), kArtifactBytesMax);
}

}  // namespace
}  // namespace tunefarm
