#include "server/worker/sandbox/seccomp_filter.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <string>

namespace tunefarm {
namespace {

// How a process ended that bound itself to the profile and did something: its exit code, or minus the signal.
int EndUnder(SeccompProfile profile, const std::function<int()>& body) {
  const absl::StatusOr<SeccompFilter> filter = SeccompFilter::Build(profile);
  EXPECT_TRUE(filter.ok()) << filter.status().ToString();
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGSYS, SIG_DFL);
    if (filter->Install() != 0) _exit(200);
    _exit(body());
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

// 0 for success, else errno.
int Error(long result) { return result >= 0 ? 0 : errno; }

int Fork() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  if (child < 0) return errno;
  int status = 0;
  return waitpid(child, &status, 0) == child ? status : 199;
}

int Socket(int family) { return Error(socket(family, SOCK_STREAM, 0)); }

void* Nothing(void*) { return nullptr; }
int Thread() {
  pthread_t thread;
  const int error = pthread_create(&thread, nullptr, Nothing, nullptr);
  return error != 0 ? error : pthread_join(thread, nullptr);
}

constexpr SeccompProfile kAll[] = {SeccompProfile::kCompileHost, SeccompProfile::kCompileCuda, SeccompProfile::kRunHost,
                                   SeccompProfile::kRunCuda,     SeccompProfile::kProbe,       SeccompProfile::kTrial,
                                   SeccompProfile::kPythonHost,  SeccompProfile::kPythonCuda};

TEST(SeccompFilterTest, ProgramsThatAreBoundStillWork) {
  for (const SeccompProfile profile : kAll) {
    SCOPED_TRACE(static_cast<int>(profile));
    EXPECT_EQ(EndUnder(profile, Thread), 0);
    // The CUDA driver does not start without it.
    EXPECT_EQ(EndUnder(profile, [] { return Error(memfd_create("x", 0)); }), 0);
    EXPECT_EQ(EndUnder(profile,
                       [] {
                         int ends[2];
                         return Error(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
                       }),
              0);
    EXPECT_EQ(EndUnder(profile,
                       [] {
                         raise(SIGTERM);
                         return 0;
                       }),
              -SIGTERM);
  }
}

TEST(SeccompFilterTest, NobodyReachesTheMachine) {
  const std::function<int()> attempts[] = {
      [] { return Error(mount("x", "/proc", "tmpfs", 0, nullptr)); },
      [] { return Error(unshare(CLONE_NEWUSER)); },
      [] { return Error(syscall(SYS_ptrace, 0, 0, 0, 0)); },
      [] { return Error(syscall(SYS_process_vm_readv, getpid(), nullptr, 0, nullptr, 0, 0)); },
      [] { return Error(syscall(SYS_bpf, 0, nullptr, 0)); },
      [] { return Error(syscall(SYS_perf_event_open, nullptr, 0, 0, 0, 0)); },
      [] { return Error(syscall(SYS_keyctl, 0, -3, 0)); },
      [] { return Error(syscall(SYS_userfaultfd, 0)); },
      [] { return Error(syscall(SYS_io_uring_setup, 0, nullptr)); },
      [] { return Error(syscall(SYS_init_module, nullptr, 0, "")); },
      [] { return Error(syscall(SYS_setns, -1, 0)); },
  };
  for (const SeccompProfile profile : kAll) {
    const bool fails_softly = profile == SeccompProfile::kRunCuda || profile == SeccompProfile::kProbe ||
                              profile == SeccompProfile::kPythonCuda;
    for (const auto& attempt : attempts) {
      EXPECT_EQ(EndUnder(profile, attempt), fails_softly ? EPERM : -SIGSYS) << static_cast<int>(profile);
    }
  }
}

TEST(SeccompFilterTest, NamespacesCannotBeMadeByCloneEither) {
  for (const SeccompProfile profile : {SeccompProfile::kCompileHost, SeccompProfile::kRunHost,
                                       SeccompProfile::kPythonHost, SeccompProfile::kPythonCuda}) {
    for (const int flag : {CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWNET}) {
      EXPECT_EQ(EndUnder(profile, [flag] { return Error(syscall(SYS_clone, flag | SIGCHLD, 0, 0, 0, 0)); }), EPERM);
    }
    EXPECT_EQ(EndUnder(profile, [] { return Error(syscall(SYS_clone3, nullptr, 0)); }), ENOSYS);
  }
}

TEST(SeccompFilterTest, OnlySomeRolesStartProcesses) {
  for (const SeccompProfile profile : {SeccompProfile::kCompileHost, SeccompProfile::kRunHost, SeccompProfile::kProbe,
                                       SeccompProfile::kPythonHost, SeccompProfile::kPythonCuda}) {
    EXPECT_EQ(EndUnder(profile, Fork), 0);
  }
  for (const SeccompProfile profile : {SeccompProfile::kCompileCuda, SeccompProfile::kRunCuda}) {
    EXPECT_EQ(EndUnder(profile, Fork), EPERM);
    EXPECT_EQ(EndUnder(profile, [] { return Error(execl("/bin/true", "true", nullptr)); }), EPERM);
  }
  EXPECT_EQ(EndUnder(SeccompProfile::kTrial, Fork), -SIGSYS);
  EXPECT_EQ(EndUnder(SeccompProfile::kTrial, [] { return Error(execl("/bin/true", "true", nullptr)); }), -SIGSYS);
}

TEST(SeccompFilterTest, Sockets) {
  for (const int family : {AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_VSOCK}) {
    for (const SeccompProfile profile : kAll) {
      EXPECT_EQ(EndUnder(profile, [family] { return Socket(family); }),
                profile == SeccompProfile::kTrial ? -SIGSYS : EAFNOSUPPORT);
    }
  }
  // Drivers ask services that may be there; without them they go on.
  EXPECT_EQ(EndUnder(SeccompProfile::kRunCuda, [] { return Socket(AF_UNIX); }), 0);
  EXPECT_EQ(EndUnder(SeccompProfile::kPythonCuda, [] { return Socket(AF_UNIX); }), 0);
  EXPECT_EQ(EndUnder(SeccompProfile::kPythonHost, [] { return Socket(AF_UNIX); }), EAFNOSUPPORT);
  EXPECT_EQ(EndUnder(SeccompProfile::kCompileHost, [] { return Socket(AF_UNIX); }), EAFNOSUPPORT);
  EXPECT_EQ(EndUnder(SeccompProfile::kTrial, [] { return Socket(AF_UNIX); }), -SIGSYS);
}

TEST(SeccompFilterTest, ATrialSignalsNobodyElse) {
  const pid_t parent = getpid();
  EXPECT_EQ(EndUnder(SeccompProfile::kTrial, [parent] { return Error(kill(parent, 0)); }), -SIGSYS);
  EXPECT_EQ(EndUnder(SeccompProfile::kTrial, [] { return Error(kill(0, 0)); }), -SIGSYS);
  EXPECT_EQ(EndUnder(SeccompProfile::kTrial, [] { return Error(kill(-1, 0)); }), -SIGSYS);
  EXPECT_EQ(EndUnder(SeccompProfile::kTrial, [parent] { return Error(syscall(SYS_tgkill, parent, parent, 0)); }),
            -SIGSYS);
  EXPECT_EQ(EndUnder(SeccompProfile::kTrial, [parent] { return Error(syscall(SYS_pidfd_open, parent, 0)); }), -SIGSYS);
  EXPECT_EQ(EndUnder(SeccompProfile::kTrial, [] { return Error(kill(getpid(), 0)); }), 0);
  EXPECT_EQ(EndUnder(SeccompProfile::kRunHost, [parent] { return Error(kill(parent, 0)); }), 0);
}

TEST(SeccompFilterTest, ATrialsProfileHoldsUnderItsRunners) {
  const absl::StatusOr<SeccompFilter> trial = SeccompFilter::Build(SeccompProfile::kTrial);
  ASSERT_TRUE(trial.ok());
  EXPECT_EQ(EndUnder(SeccompProfile::kRunHost,
                     [&trial] {
                       const pid_t child = fork();
                       if (child == 0) _exit(trial->Install() != 0 ? 200 : Socket(AF_INET));
                       int status = 0;
                       if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status)) return 201;
                       return WTERMSIG(status);
                     }),
            SIGSYS);
}

// As EndUnder(kTrial, body), but in the child of a process that is bound to the first part.
int EndUnderBothParts(const std::function<int()>& body) {
  const absl::StatusOr<SeccompFilter> rest = SeccompFilter::Build(SeccompProfile::kTrialRest);
  EXPECT_TRUE(rest.ok());
  return EndUnder(SeccompProfile::kTrialTemplate, [&rest, &body] {
    const pid_t child = fork();
    if (child == 0) _exit(rest->Install() != 0 ? 200 : body());
    int status = 0;
    if (waitpid(child, &status, 0) != child) return 201;
    return WIFSIGNALED(status) ? 100 + WTERMSIG(status) : WEXITSTATUS(status);
  });
}

TEST(SeccompFilterTest, ATrialsProfileInTwoPartsForbidsTheSame) {
  const pid_t parent = getpid();
  const std::function<int()> attempts[] = {
      [] { return Fork(); },
      [] { return Error(vfork()); },
      [] { return Error(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)); },
      [] { return Error(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0)); },
      [] { return Error(execl("/bin/true", "true", nullptr)); },
      [] { return Socket(AF_UNIX); },
      [] { return Socket(AF_INET); },
      [parent] { return Error(kill(parent, 0)); },
      [] { return Error(kill(getppid(), 0)); },
      [] { return Error(kill(0, 0)); },
      [] { return Error(kill(-1, 0)); },
      [parent] { return Error(syscall(SYS_tgkill, parent, parent, 0)); },
      [parent] { return Error(syscall(SYS_rt_sigqueueinfo, parent, 0, nullptr)); },
      [parent] { return Error(syscall(SYS_rt_tgsigqueueinfo, parent, parent, 0, nullptr)); },
      [parent] { return Error(syscall(SYS_pidfd_open, parent, 0)); },
      [] { return Error(mount("x", "/proc", "tmpfs", 0, nullptr)); },
      [] { return Error(syscall(SYS_ptrace, 0, 0, 0, 0)); },
  };
  for (size_t i = 0; i < std::size(attempts); ++i) {
    EXPECT_EQ(EndUnder(SeccompProfile::kTrial, attempts[i]), -SIGSYS) << i;
    EXPECT_EQ(EndUnderBothParts(attempts[i]), 100 + SIGSYS) << i;
  }
  EXPECT_EQ(EndUnderBothParts(Thread), 0);
  EXPECT_EQ(EndUnderBothParts([] { return Error(kill(getpid(), 0)); }), 0);
  EXPECT_EQ(EndUnderBothParts([] { return Error(syscall(SYS_clone3, nullptr, 0)); }), ENOSYS);
  EXPECT_EQ(EndUnderBothParts([] {
              raise(SIGTERM);
              return 0;
            }),
            100 + SIGTERM);
  EXPECT_EQ(EndUnderBothParts([]() -> int { abort(); }), 100 + SIGABRT);
}

TEST(SeccompFilterTest, NamesWhatItForbids) {
  EXPECT_EQ(ForbiddenSyscallName(SYS_mount), "mount");
  EXPECT_EQ(ForbiddenSyscallName(SYS_socket), "socket");
  EXPECT_EQ(ForbiddenSyscallName(SYS_clone), "clone");
  EXPECT_EQ(ForbiddenSyscallName(SYS_execve), "execve");
  EXPECT_EQ(ForbiddenSyscallName(SYS_kill), "kill");
  EXPECT_EQ(ForbiddenSyscallName(SYS_read), "");
  EXPECT_EQ(ForbiddenSyscallName(-1), "");
}

TEST(SeccompFilterTest, SaysOnStandardErrorWhatWasForbidden) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(EndUnder(SeccompProfile::kCompileHost,
                     [&ends] {
                       dup2(ends[1], STDERR_FILENO);
                       ReportForbiddenSyscalls();
                       return Error(unshare(CLONE_NEWNS));
                     }),
            -SIGSYS);
  close(ends[1]);
  char text[128] = {};
  EXPECT_GT(read(ends[0], text, sizeof(text) - 1), 0);
  EXPECT_STREQ(text, "forbidden system call: unshare\n");
  close(ends[0]);
}

}  // namespace
}  // namespace tunefarm
