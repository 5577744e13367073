#include "server/worker/sandbox/seccomp_filter.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <pthread.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <string>
#include <vector>

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

constexpr SeccompProfile kAll[] = {
    SeccompProfile::kCompileHost, SeccompProfile::kCompileCuda,   SeccompProfile::kRunHost,
    SeccompProfile::kRunCuda,     SeccompProfile::kProbe,         SeccompProfile::kTrial,
    SeccompProfile::kPythonHost,  SeccompProfile::kPythonCompile, SeccompProfile::kPythonCuda};

TEST(SeccompFilterTest, ProgramsThatAreBoundStillWork) {
  for (const SeccompProfile profile : kAll) {
    SCOPED_TRACE(static_cast<int>(profile));
    EXPECT_EQ(EndUnder(profile, Thread), 0);
    if (profile != SeccompProfile::kTrial && profile != SeccompProfile::kPythonHost) {
      // The CUDA driver does not start without it, and compile workers hand over binaries in one.
      EXPECT_EQ(EndUnder(profile, [] { return Error(memfd_create("x", 0)); }), 0);
    }
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

TEST(SeccompFilterTest, KernelsInPythonOnTheHostHaveOnlyMemoryThatIsCounted) {
  const SeccompProfile profile = SeccompProfile::kPythonHost;
  EXPECT_EQ(EndUnder(profile, [] { return Error(memfd_create("x", 0)); }), EPERM);
  EXPECT_EQ(EndUnder(profile, [] { return Error(syscall(SYS_memfd_secret, 0)); }), EPERM);
  EXPECT_EQ(EndUnder(profile, [] { return Error(vmsplice(1, nullptr, 0, 0)); }), EPERM);
}

// The driver, and the handing over of binaries, need memfd_create and nothing else of that kind.
TEST(SeccompFilterTest, KernelsInPythonHaveOneKindOfMemoryThatIsNotCounted) {
  for (const SeccompProfile profile : {SeccompProfile::kPythonCompile, SeccompProfile::kPythonCuda}) {
    EXPECT_EQ(EndUnder(profile, [] { return Error(memfd_create("x", 0)); }), 0);
    EXPECT_EQ(EndUnder(profile, [] { return Error(syscall(SYS_memfd_secret, 0)); }), EPERM);
    EXPECT_EQ(EndUnder(profile, [] { return Error(vmsplice(1, nullptr, 0, 0)); }), EPERM);
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
      [] { return Error(syscall(SYS_process_mrelease, -1, 0)); },
      [] { return Error(syscall(SYS_shmget, 0, 4096, 01600)); },
      [] { return Error(syscall(SYS_msgget, 0, 01600)); },
      [] { return Error(syscall(SYS_semget, 0, 1, 01600)); },
      [] { return Error(syscall(SYS_mq_open, "x", O_RDWR | O_CREAT, 0600, nullptr)); },
      [] { return Error(syscall(SYS_mq_unlink, "x")); },
  };
  for (const SeccompProfile profile : kAll) {
    const bool fails_softly = profile == SeccompProfile::kRunCuda || profile == SeccompProfile::kProbe ||
                              profile == SeccompProfile::kPythonCuda;
    for (const auto& attempt : attempts) {
      EXPECT_EQ(EndUnder(profile, attempt), fails_softly ? EPERM : -SIGSYS) << static_cast<int>(profile);
    }
  }
}

// What a program may ask for only if the kernel has it; of those that nobody has judged it has none.
TEST(SeccompFilterTest, CallsNewerThanTheListsDoNotExist) {
  for (const SeccompProfile profile : kAll) {
    for (const long number : {463L, 467L, 600L, 0x40000001L}) {
      EXPECT_EQ(EndUnder(profile, [number] { return Error(syscall(number, 0, 0, 0, 0, 0, 0)); }), ENOSYS) << number;
    }
  }
}

TEST(SeccompFilterTest, NamespacesCannotBeMadeByCloneEither) {
  for (const SeccompProfile profile :
       {SeccompProfile::kCompileHost, SeccompProfile::kRunHost, SeccompProfile::kPythonHost,
        SeccompProfile::kPythonCompile, SeccompProfile::kPythonCuda}) {
    for (const int flag : {CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWNET}) {
      EXPECT_EQ(EndUnder(profile, [flag] { return Error(syscall(SYS_clone, flag | SIGCHLD, 0, 0, 0, 0)); }), EPERM);
    }
    EXPECT_EQ(EndUnder(profile, [] { return Error(syscall(SYS_clone3, nullptr, 0)); }), ENOSYS);
  }
}

TEST(SeccompFilterTest, OnlySomeRolesStartProcesses) {
  for (const SeccompProfile profile :
       {SeccompProfile::kCompileHost, SeccompProfile::kRunHost, SeccompProfile::kProbe, SeccompProfile::kPythonHost,
        SeccompProfile::kPythonCompile, SeccompProfile::kPythonCuda}) {
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

// Each changes the process with the number, or a thread of it; 0 is the caller.
std::vector<std::function<long(pid_t)>> Changes() {
  return {
      [](pid_t target) {
        const rlimit limit = {100, 100};
        return syscall(SYS_prlimit64, target, RLIMIT_NOFILE, &limit, nullptr);
      },
      [](pid_t target) {
        cpu_set_t cores;
        if (sched_getaffinity(0, sizeof(cores), &cores) != 0) return -1L;
        return syscall(SYS_sched_setaffinity, target, sizeof(cores), &cores);
      },
      [](pid_t target) {
        const sched_param parameter = {};
        return syscall(SYS_sched_setscheduler, target, SCHED_BATCH, &parameter);
      },
      [](pid_t target) {
        const sched_param parameter = {};
        return syscall(SYS_sched_setparam, target, &parameter);
      },
      [](pid_t target) {
        unsigned attributes[12] = {sizeof(attributes), SCHED_BATCH};
        return syscall(SYS_sched_setattr, target, attributes, 0);
      },
      [](pid_t target) { return syscall(SYS_setpriority, PRIO_PROCESS, target, 1); },
      [](pid_t target) { return syscall(SYS_ioprio_set, 1, target, (2 << 13) | 7); },
  };
}

TEST(SeccompFilterTest, ProcessesChangeOnlyThemselves) {
  const pid_t parent = getpid();
  for (const SeccompProfile profile : kAll) {
    // Only the driver and our own code run there.
    if (profile == SeccompProfile::kRunCuda || profile == SeccompProfile::kProbe) continue;
    const bool is_trial = profile == SeccompProfile::kTrial || profile == SeccompProfile::kRunHost;
    const int refused = is_trial ? -SIGSYS : EPERM;
    const auto changes = Changes();
    for (size_t i = 0; i < changes.size(); ++i) {
      SCOPED_TRACE(std::to_string(static_cast<int>(profile)) + ", change " + std::to_string(i));
      EXPECT_EQ(EndUnder(profile, [&change = changes[i]] { return Error(change(0)); }), 0);
      EXPECT_EQ(EndUnder(profile, [&change = changes[i], parent] { return Error(change(parent)); }), refused);
      EXPECT_EQ(EndUnder(profile, [&change = changes[i]] { return Error(change(-1)); }), refused);
    }
    const std::function<int()> attempts[] = {
        [] { return Error(syscall(SYS_setpriority, PRIO_PGRP, 0, 1)); },
        [] { return Error(syscall(SYS_setpriority, PRIO_USER, 0, 1)); },
        [] { return Error(syscall(SYS_ioprio_set, 3, 0, (2 << 13) | 7)); },
        [parent] { return Error(syscall(SYS_migrate_pages, parent, 0, nullptr, nullptr)); },
        [parent] { return Error(syscall(SYS_move_pages, parent, 0, nullptr, nullptr, nullptr, 0)); },
        [parent] { return Error(syscall(SYS_get_robust_list, parent, nullptr, nullptr)); },
        [parent] { return Error(syscall(SYS_fcntl, 0, F_SETOWN, parent)); },
        // The kernel looks at the lower half.
        [parent] { return Error(syscall(SYS_fcntl, 0, 0x100000000 | F_SETOWN, parent)); },
        [] { return Error(syscall(SYS_fcntl, 0, F_SETOWN_EX, nullptr)); },
        [] { return Error(syscall(SYS_fcntl, 0, F_SETSIG, SIGKILL)); },
        [] { return Error(syscall(SYS_fcntl, 0, F_SETLEASE, F_RDLCK)); },
        [parent] { return Error(syscall(SYS_ioctl, 0, FIOSETOWN, &parent)); },
        [parent] { return Error(syscall(SYS_ioctl, 0, 0x100000000 | SIOCSPGRP, &parent)); },
    };
    for (size_t i = 0; i < std::size(attempts); ++i) {
      EXPECT_EQ(EndUnder(profile, attempts[i]), refused) << static_cast<int>(profile) << ", attempt " << i;
    }
  }
}

void RepeatOrEnd(int signal_number, siginfo_t* info, void* context) {
  if (!RepeatForCaller(*info, context)) _exit(100 + signal_number);
}

// As the C library does it for its functions on threads.
TEST(SeccompFilterTest, AThreadMayNameItself) {
  const pid_t parent = getpid();
  const auto with_handler = [](const std::function<int()>& body) {
    return [&body] {
      struct sigaction action = {};
      action.sa_sigaction = RepeatOrEnd;
      action.sa_flags = SA_SIGINFO;
      sigaction(SIGSYS, &action, nullptr);
      return body();
    };
  };
  for (const auto& change : Changes()) {
    const std::function<int()> own = [&change] { return Error(change(gettid())); };
    const std::function<int()> others = [&change, parent] { return Error(change(parent)); };
    EXPECT_EQ(EndUnder(SeccompProfile::kTrial, with_handler(own)), 0);
    EXPECT_EQ(EndUnder(SeccompProfile::kTrial, with_handler(others)), 100 + SIGSYS);
  }
  // Results and errors arrive as if the call had been allowed.
  const std::function<int()> pins = [] {
    cpu_set_t all, one, now;
    if (sched_getaffinity(0, sizeof(all), &all) != 0) return 1;
    int core = 0;
    while (!CPU_ISSET(core, &all)) ++core;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    if (pthread_setaffinity_np(pthread_self(), sizeof(one), &one) != 0) return 2;
    if (pthread_getaffinity_np(pthread_self(), sizeof(now), &now) != 0 || !CPU_EQUAL(&one, &now)) return 3;
    CPU_ZERO(&one);
    return pthread_setaffinity_np(pthread_self(), sizeof(one), &one) == EINVAL ? 0 : 4;
  };
  EXPECT_EQ(EndUnder(SeccompProfile::kTrial, with_handler(pins)), 0);
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
      [] { return Error(setpgid(0, getppid())); },
      [] { return Error(memfd_create("x", 0)); },
      [] { return Error(syscall(SYS_memfd_secret, 0)); },
      [] { return Error(vmsplice(1, nullptr, 0, 0)); },
      [] { return Error(syscall(SYS_io_setup, 1, nullptr)); },
      [] { return Error(syscall(SYS_sync)); },
      [] { return Error(syscall(SYS_syncfs, -1)); },
      [] { return Error(madvise(nullptr, 0, MADV_REMOVE)); },
      [] { return Error(fchmod(STDERR_FILENO, 0600)); },
      [] { return Error(futimens(STDERR_FILENO, nullptr)); },
      [] { return Error(syscall(SYS_fsetxattr, STDERR_FILENO, "user.x", "", 0, 0)); },
      [] { return Error(flock(STDERR_FILENO, LOCK_SH)); },
      [] { return Error(fcntl(STDERR_FILENO, F_SET_RW_HINT, nullptr)); },
      [] { return Error(syscall(SYS_fcntl, STDERR_FILENO, 0x100000000 | F_SET_RW_HINT, nullptr)); },
      [] { return Error(fcntl(STDERR_FILENO, F_SET_FILE_RW_HINT, nullptr)); },
      // FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR and FS_IOC_SETVERSION; linux/fs.h cannot stand beside sys/mount.h
      // everywhere.
      [] { return Error(ioctl(STDERR_FILENO, _IOW('f', 2, long), nullptr)); },
      [] { return Error(ioctl(STDERR_FILENO, _IOW('f', 2, int), nullptr)); },
      [] { return Error(syscall(SYS_ioctl, STDERR_FILENO, 0x100000000 | _IOW('f', 2, long), nullptr)); },
      [] { return Error(ioctl(STDERR_FILENO, _IOW('X', 32, char[28]), nullptr)); },
      [] { return Error(ioctl(STDERR_FILENO, _IOW('v', 2, long), nullptr)); },
      [] { return Error(ioctl(STDERR_FILENO, _IOW('v', 2, int), nullptr)); },
      [] { return Error(syscall(SYS_fcntl, STDERR_FILENO, F_OFD_SETLK, nullptr)); },
      [] { return Error(fcntl(STDERR_FILENO, F_SETPIPE_SZ, 4096)); },
      [] { return Error(ioctl(STDERR_FILENO, TIOCSTI, "x")); },
      [] { return Error(prctl(PR_SET_PTRACER, getppid(), 0, 0, 0)); },
      [] { return Error(prctl(PR_SCHED_CORE, PR_SCHED_CORE_SHARE_TO, getppid(), 0, 0)); },
      [] { return Error(prctl(PR_SET_PDEATHSIG, 0)); },
      [] { return Error(syscall(SYS_prctl, 0x100000000 | PR_SET_PDEATHSIG, 0)); },
      [] { return Error(prctl(PR_SET_DUMPABLE, 1)); },
      [parent] { return Error(Changes()[0](parent)); },
      [parent] { return Error(Changes()[1](parent)); },
      [parent] { return Error(syscall(SYS_fcntl, 0, F_SETOWN, parent)); },
      [] { return Error(syscall(SYS_shmget, 0, 4096, 01600)); },
  };
  for (size_t i = 0; i < std::size(attempts); ++i) {
    EXPECT_EQ(EndUnder(SeccompProfile::kTrial, attempts[i]), -SIGSYS) << i;
    EXPECT_EQ(EndUnderBothParts(attempts[i]), 100 + SIGSYS) << i;
  }
  EXPECT_EQ(EndUnderBothParts(Thread), 0);
  EXPECT_EQ(EndUnderBothParts([] { return Error(kill(getpid(), 0)); }), 0);
  EXPECT_EQ(EndUnderBothParts([] { return Error(prctl(PR_SET_PDEATHSIG, SIGKILL)); }), 0);
  EXPECT_EQ(EndUnderBothParts([] { return Error(Changes()[1](0)); }), 0);
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
  EXPECT_EQ(ForbiddenSyscallName(SYS_prlimit64), "prlimit64");
  EXPECT_EQ(ForbiddenSyscallName(SYS_setpriority), "setpriority");
  EXPECT_EQ(ForbiddenSyscallName(SYS_fcntl), "fcntl");
  EXPECT_EQ(ForbiddenSyscallName(SYS_shmget), "shmget");
  EXPECT_EQ(ForbiddenSyscallName(SYS_memfd_create), "memfd_create");
  EXPECT_EQ(ForbiddenSyscallName(SYS_io_setup), "io_setup");
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
