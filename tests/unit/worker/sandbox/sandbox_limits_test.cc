#include "server/worker/sandbox/sandbox_limits.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

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
    (void)SetLimits(arguments, false);
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

// What SetLimits says of the processes of a worker that inherits this limit, and the limit that it has then.
std::pair<bool, rlim_t> ProcessesOf(bool counts_alone, rlim_t inherited) {
  struct {
    bool is_ours = false;
    rlim_t limit = 0;
  } said;
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    rlimit limit = {inherited, inherited};
    setrlimit(RLIMIT_NPROC, &limit);
    WorkerArguments arguments;
    arguments.role = "run";
    arguments.backend = "cuda";
    said.is_ours = SetLimits(arguments, counts_alone);
    getrlimit(RLIMIT_NPROC, &limit);
    said.limit = limit.rlim_cur;
    (void)!write(ends[1], &said, sizeof(said));
    _exit(0);
  }
  close(ends[1]);
  EXPECT_EQ(read(ends[0], &said, sizeof(said)), static_cast<ssize_t>(sizeof(said)));
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return {said.is_ours, said.limit};
}

TEST(SandboxLimits, TellsItsLimitOfProcessesFromTheUsers) {
  rlimit inherited = {};
  ASSERT_EQ(getrlimit(RLIMIT_NPROC, &inherited), 0);
  if (inherited.rlim_max < 1000) GTEST_SKIP() << "the limit of processes here is " << inherited.rlim_max;
  constexpr rlim_t kOurs = kProcessesMax;
  EXPECT_EQ(ProcessesOf(true, 1000), std::make_pair(true, kOurs));
  EXPECT_EQ(ProcessesOf(true, 20), std::make_pair(false, rlim_t{20}));
  EXPECT_EQ(ProcessesOf(false, 1000), std::make_pair(false, rlim_t{1000}));
  EXPECT_EQ(ProcessesOf(false, kOurs), std::make_pair(false, kOurs));
}

}  // namespace
}  // namespace tunefarm
