#include "server/worker/host/runner_state.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

namespace tunefarm {
namespace {

// What a process finds different of itself after it changed something; "?" if it cannot change it here.
std::string Difference(const std::function<bool()>& change) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    const RunnerState before = RunnerState::Now();
    const bool changed = change();
    const std::string found = changed ? std::string(before.FirstDifference(RunnerState::Now())) : "?";
    (void)!write(ends[1], found.data(), found.size());
    _exit(0);
  }
  close(ends[1]);
  std::string found(100, '\0');
  const ssize_t bytes = read(ends[0], found.data(), found.size());
  close(ends[0]);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  return bytes < 0 ? "no answer" : found.substr(0, static_cast<size_t>(bytes));
}

bool Lower(int resource, rlim_t value) {
  rlimit limit = {};
  getrlimit(static_cast<__rlimit_resource>(resource), &limit);
  limit.rlim_cur = value;
  return setrlimit(static_cast<__rlimit_resource>(resource), &limit) == 0;
}

TEST(RunnerStateTest, FindsWhatOthersCouldHaveChanged) {
  EXPECT_EQ(Difference([] { return true; }), "");
  EXPECT_EQ(Difference([] { return Lower(RLIMIT_CPU, 1000); }), "limit on processor time");
  EXPECT_EQ(Difference([] { return Lower(RLIMIT_NPROC, 1); }), "limit on processes");
  EXPECT_EQ(Difference([] { return Lower(RLIMIT_NOFILE, 4); }), "limit on descriptors");
  EXPECT_EQ(Difference([] { return Lower(RLIMIT_FSIZE, 1 << 20); }), "limit on files");
  EXPECT_EQ(Difference([] { return Lower(RLIMIT_STACK, 1 << 20); }), "limit on memory");
  EXPECT_EQ(Difference([] { return Lower(RLIMIT_SIGPENDING, 1); }), "resource limit");
  EXPECT_EQ(Difference([] { return setpriority(PRIO_PROCESS, 0, 19) == 0; }), "scheduling policy or priority");
  EXPECT_EQ(Difference([] {
              const sched_param parameter = {};
              return sched_setscheduler(0, SCHED_BATCH, &parameter) == 0;
            }),
            "scheduling policy or priority");
  EXPECT_EQ(Difference([] { return syscall(SYS_ioprio_set, 1, 0, (2 << 13) | 7) == 0; }), "I/O priority");
  EXPECT_EQ(Difference([] { return prctl(PR_SET_TIMERSLACK, 1'000'000, 0, 0, 0) == 0; }), "timer slack");
  EXPECT_EQ(Difference([] { return prctl(PR_SET_DUMPABLE, prctl(PR_GET_DUMPABLE) == 1 ? 0 : 1) == 0; }),
            "protection against inspection");
}

TEST(RunnerStateTest, FindsAnotherModeOfStandardError) {
  // The open file is shared with everybody who writes to it: here, with nobody.
  const int own = dup(STDERR_FILENO);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_GE(dup2(ends[1], STDERR_FILENO), 0);
  const std::string found = Difference([] { return fcntl(STDERR_FILENO, F_SETFL, O_NONBLOCK) == 0; });
  dup2(own, STDERR_FILENO);
  for (const int fd : {own, ends[0], ends[1]}) close(fd);
  EXPECT_EQ(found, "mode of standard error");
}

TEST(RunnerStateTest, FindsAnotherSetOfCores) {
  cpu_set_t cores;
  ASSERT_EQ(sched_getaffinity(0, sizeof(cores), &cores), 0);
  if (CPU_COUNT(&cores) < 2) GTEST_SKIP() << "this machine has one core";
  EXPECT_EQ(Difference([&cores] {
              int core = 0;
              while (!CPU_ISSET(core, &cores)) ++core;
              CPU_CLR(core, &cores);
              return sched_setaffinity(0, sizeof(cores), &cores) == 0;
            }),
            "processor affinity");
}

}  // namespace
}  // namespace tunefarm
