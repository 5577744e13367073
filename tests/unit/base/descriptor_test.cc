#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "server/base/memfd.h"
#include "server/base/pidfd.h"
#include "server/base/status.h"
#include "server/base/unique_fd.h"
#include "tests/unit/base/file_size_limit.h"
#include "tests/unit/base/open_files.h"

namespace tunefarm {
namespace {

int NewFd() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }
bool IsOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }

TEST(UniqueFdTest, ClosesOnce) {
  const size_t open_before = CountOpenFiles();
  int number;
  {
    UniqueFd fd(NewFd());
    number = fd.get();
    EXPECT_TRUE(fd.valid());
    UniqueFd moved = std::move(fd);
    EXPECT_FALSE(fd.valid());  // NOLINT(bugprone-use-after-move): that is the point.
    EXPECT_EQ(moved.get(), number);
    EXPECT_TRUE(IsOpen(number));
    moved = UniqueFd(NewFd());
    EXPECT_FALSE(IsOpen(number));
    number = moved.get();
  }
  EXPECT_FALSE(IsOpen(number));
  UniqueFd released(NewFd());
  number = released.Release();
  released.Reset();
  EXPECT_TRUE(IsOpen(number));
  EXPECT_EQ(close(number), 0);
  EXPECT_EQ(CountOpenFiles(), open_before);
}

TEST(UniqueFdTest, ResetKeepsErrno) {
  UniqueFd fd(NewFd());
  close(fd.get());
  errno = ENOSPC;
  fd.Reset();  // Its close fails with EBADF.
  EXPECT_EQ(errno, ENOSPC);
}

TEST(MemfdTest, RoundTripWithoutLeaks) {
  const size_t open_before = CountOpenFiles();
  for (const std::string& bytes : {std::string(), std::string("a\0b", 3), std::string(1 << 20, 'x')}) {
    absl::StatusOr<UniqueFd> fd = CreateSealedMemfd("payload", bytes);
    ASSERT_TRUE(fd.ok()) << fd.status();
    EXPECT_EQ(fcntl(fd->get(), F_GETFD), FD_CLOEXEC);
    EXPECT_EQ(*ReadSealedMemfd(fd->get(), bytes.size()), bytes);
    EXPECT_EQ(*ReadSealedMemfd(fd->get(), bytes.size()), bytes);  // The file offset plays no part.
  }
  EXPECT_EQ(CountOpenFiles(), open_before);
}

TEST(MemfdTest, ContentCannotChange) {
  const absl::StatusOr<UniqueFd> fd = CreateSealedMemfd("payload", "content");
  ASSERT_TRUE(fd.ok());
  EXPECT_EQ(pwrite(fd->get(), "X", 1, 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(ftruncate(fd->get(), 1), -1);
  EXPECT_EQ(ftruncate(fd->get(), 100), -1);
  EXPECT_EQ(mmap(nullptr, 7, PROT_READ | PROT_WRITE, MAP_SHARED, fd->get(), 0), MAP_FAILED);
  EXPECT_EQ(*ReadSealedMemfd(fd->get(), 7), "content");
}

TEST(MemfdTest, RefusesOversized) {
  const absl::StatusOr<UniqueFd> fd = CreateSealedMemfd("payload", "content");
  ASSERT_TRUE(fd.ok());
  EXPECT_EQ(fmt::format("{}", ReadSealedMemfd(fd->get(), 6).status()),
            "RESOURCE_EXHAUSTED: memory file has 7 bytes, the limit is 6");
}

TEST(MemfdTest, RefusesEveryMissingSeal) {
  for (const int missing : {F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE}) {
    const UniqueFd fd(memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    const int all = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    ASSERT_EQ(fcntl(fd.get(), F_ADD_SEALS, all & ~missing), 0);
    EXPECT_EQ(ReadSealedMemfd(fd.get(), 100).status().code(), absl::StatusCode::kInvalidArgument) << missing;
  }
}

TEST(MemfdTest, RefusesOtherDescriptors) {
  const UniqueFd fd(NewFd());
  EXPECT_EQ(ReadSealedMemfd(fd.get(), 100).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(ReadSealedMemfd(-1, 100).ok());
}

TEST(MemfdTest, FailedWriteLeaksNothing) {
  const size_t open_before = CountOpenFiles();
  {
    FileSizeLimit limit(10);
    EXPECT_EQ(CreateSealedMemfd("payload", std::string(100, 'x')).status().code(),
              absl::StatusCode::kResourceExhausted);
  }
  EXPECT_EQ(CountOpenFiles(), open_before);
}

TEST(MemfdTest, LongNamesAreCut) { EXPECT_TRUE(CreateSealedMemfd(std::string(1000, 'n'), "x").ok()); }

// Forks a child that runs `body` and exits with its value.
pid_t Fork(const std::function<int()>& body) {
  const pid_t pid = fork();
  if (pid == 0) _exit(body());
  return pid;
}

void WaitForEnd(const Pidfd& process) {
  pollfd poll_fd = {process.fd(), POLLIN, 0};
  ASSERT_EQ(poll(&poll_fd, 1, -1), 1);
}

TEST(PidfdTest, ExitCodeWithoutLeaks) {
  const size_t open_before = CountOpenFiles();
  {
    absl::StatusOr<Pidfd> process = Pidfd::Open(Fork([] { return 3; }));
    ASSERT_TRUE(process.ok()) << process.status();
    EXPECT_EQ(fcntl(process->fd(), F_GETFD), FD_CLOEXEC);
    WaitForEnd(*process);
    const absl::StatusOr<ExitStatus> status = process->Reap();
    ASSERT_TRUE(status.ok()) << status.status();
    EXPECT_EQ(*status, (ExitStatus{.exited = true, .exit_code = 3}));
    EXPECT_EQ(status->ToString(), "exit code 3");
    EXPECT_FALSE(status->ok());
    EXPECT_EQ(process->Reap().status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(process->Signal(SIGTERM).code(), absl::StatusCode::kNotFound);
  }
  EXPECT_EQ(CountOpenFiles(), open_before);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);  // No zombie is left.
}

TEST(PidfdTest, RunningUntilSignalled) {
  absl::StatusOr<Pidfd> process = Pidfd::Open(Fork([] {
    while (true) pause();
    return 0;
  }));
  ASSERT_TRUE(process.ok());
  EXPECT_EQ(process->Reap().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(process->Signal(SIGKILL).ok());
  WaitForEnd(*process);
  EXPECT_TRUE(process->Signal(SIGTERM).ok());  // A zombie takes it silently.
  const absl::StatusOr<ExitStatus> status = process->Reap();
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(*status, (ExitStatus{.exited = false, .signal = SIGKILL}));
  EXPECT_EQ(status->ToString(), "signal 9 (Killed)");
}

TEST(PidfdTest, NoSuchProcess) {
  const pid_t pid = Fork([] { return 0; });
  ASSERT_EQ(waitpid(pid, nullptr, 0), pid);
  EXPECT_EQ(Pidfd::Open(pid).status().code(), absl::StatusCode::kNotFound);
  Pidfd empty;
  EXPECT_FALSE(empty.valid());
  EXPECT_FALSE(empty.Signal(0).ok());
  EXPECT_FALSE(empty.Reap().ok());
}

}  // namespace
}  // namespace tunefarm
