#include "server/exec/subprocess.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/status/status.h"
#include "server/base/check.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;

SubprocessOptions Shell(const std::string& script) {
  SubprocessOptions options;
  options.executable = "/bin/sh";
  options.arguments = {"-c", script};
  options.environment = {"PATH=/usr/bin:/bin", "ONLY=this"};
  return options;
}

std::unique_ptr<Subprocess> Start(const SubprocessOptions& options, UniqueFd channel = UniqueFd()) {
  absl::StatusOr<std::unique_ptr<Subprocess>> process = Subprocess::Start(options, std::move(channel));
  TUNEFARM_CHECK_OK(process);
  return *std::move(process);
}

// Reads to the end of the output, then reaps.
ExitStatus Finish(Subprocess* process) {
  do {
    pollfd output = {process->output_fd(), POLLIN, 0};
    EXPECT_EQ(poll(&output, 1, 60'000), 1);
  } while (process->ReadOutput());
  process->CloseOutput();
  EXPECT_EQ(process->output_fd(), -1);
  EXPECT_FALSE(process->ReadOutput());
  pollfd entry = {process->pidfd(), POLLIN, 0};
  EXPECT_EQ(poll(&entry, 1, 60'000), 1);
  const absl::StatusOr<ExitStatus> status = process->Reap();
  TUNEFARM_CHECK_OK(status);
  return *status;
}

TEST(Subprocess, CapturesOutputAndExitCode) {
  const auto process = Start(Shell("echo out; echo err >&2; exit 7"));
  const ExitStatus status = Finish(process.get());
  EXPECT_TRUE(status.exited);
  EXPECT_EQ(status.exit_code, 7);
  EXPECT_EQ(process->output().Text(), "out\nerr\n");
}

TEST(Subprocess, TellsTheSignal) {
  const auto process = Start(Shell("kill -SEGV $$"));
  const ExitStatus status = Finish(process.get());
  EXPECT_FALSE(status.exited);
  EXPECT_EQ(status.signal, SIGSEGV);
}

TEST(Subprocess, ExecFails) {
  SubprocessOptions options;
  options.executable = "/nonexistent/worker";
  const auto process = Subprocess::Start(options, UniqueFd());
  EXPECT_TRUE(absl::IsNotFound(process.status()));
  options.executable = "/etc/passwd";
  EXPECT_TRUE(absl::IsPermissionDenied(Subprocess::Start(options, UniqueFd()).status()));
}

TEST(Subprocess, ClosesFileDescriptors) {
  // Deliberately inheritable.
  UniqueFd leak(open("/dev/null", O_RDONLY));
  ASSERT_TRUE(leak.valid());
  const auto process = Start(Shell("ls /proc/self/fd | wc -l"));
  Finish(process.get());
  // 0, 1, 2 and the directory that ls reads.
  EXPECT_EQ(process->output().Text(), "4\n");
}

TEST(Subprocess, FdLeak) {
  const auto count = [] {
    const auto process = Start(Shell("exit 0"));
    Finish(process.get());
    UniqueFd next(dup(0));
    return next.get();
  };
  const int first = count();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(count(), first);
}

TEST(Subprocess, ChannelIsDescriptorThree) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  UniqueFd ours(ends[0]);
  const auto process = Start(Shell("echo hello >&3"), UniqueFd(ends[1]));
  char text[16] = {};
  EXPECT_EQ(recv(ours.get(), text, sizeof(text), 0), 6);
  EXPECT_STREQ(text, "hello\n");
  Finish(process.get());
  EXPECT_EQ(recv(ours.get(), text, sizeof(text), 0), 0) << "somebody keeps the child's end open";
}

TEST(Subprocess, StdinIsEmptyAndTheEnvironmentComplete) {
  const auto process = Start(Shell("cat; env | grep -v -e ^PWD= -e ^_= -e ^OLDPWD= -e ^SHLVL= | sort"));
  Finish(process.get());
  EXPECT_EQ(process->output().Text(), "ONLY=this\nPATH=/usr/bin:/bin\n");
}

TEST(Subprocess, SignalsAreUnblockedAndAtTheirDefaults) {
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &blocked, &before), 0);
  signal(SIGUSR1, SIG_IGN);
  const auto process = Start(Shell("kill -USR1 $$; echo survived"));
  const auto terminated = Start(Shell("kill -TERM $$; echo survived"));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  signal(SIGUSR1, SIG_DFL);
  EXPECT_EQ(Finish(process.get()).signal, SIGUSR1);
  EXPECT_EQ(Finish(terminated.get()).signal, SIGTERM);
}

TEST(Subprocess, ChattyChildDoesNotBlockAndIsCut) {
  SubprocessOptions options = Shell("echo first; yes 0123456789 | head -c 5000000; echo last");
  options.output_bytes_max = 4096;
  const auto process = Start(options);
  EXPECT_TRUE(Finish(process.get()).ok());
  const std::string text = process->output().Text();
  EXPECT_LT(text.size(), 4200u);
  EXPECT_THAT(text, testing::StartsWith("first\n"));
  EXPECT_THAT(text, testing::EndsWith("last\n"));
  EXPECT_THAT(text, HasSubstr("bytes cut"));
}

TEST(Subprocess, KillEndsTheWholeGroup) {
  // The pipe reaches its end only when the grandchild is gone too.
  const auto process = Start(Shell("sleep 1000 & echo started; wait"));
  pollfd entry = {process->output_fd(), POLLIN, 0};
  ASSERT_EQ(poll(&entry, 1, 60'000), 1);
  process->Kill();
  EXPECT_EQ(Finish(process.get()).signal, SIGKILL);
}

TEST(Subprocess, TerminateAfterProcessExit) {
  const auto process = Start(Shell("exit 3"));
  pollfd entry = {process->pidfd(), POLLIN, 0};
  ASSERT_EQ(poll(&entry, 1, 60'000), 1);
  process->Kill();  // A zombie takes it silently.
  EXPECT_EQ(Finish(process.get()).exit_code, 3);
  process->Kill();
  EXPECT_EQ(process->Reap()->exit_code, 3);
}

TEST(Subprocess, RunningProcessCannotBeReaped) {
  const auto process = Start(Shell("sleep 1000"));
  EXPECT_TRUE(absl::IsUnavailable(process->Reap().status()));
  process->Kill();
  Finish(process.get());
}

}  // namespace
}  // namespace tunefarm
