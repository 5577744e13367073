#include "server/worker/sandbox.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "server/exec/frame_limits.h"

// A sanitizer's shadow memory is address space by the terabyte.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TUNEFARM_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TUNEFARM_SANITIZED 1
#endif
#endif

namespace tunefarm {
namespace {

constexpr rlim_t kGiB = rlim_t{1} << 30;
constexpr rlim_t kMiB = rlim_t{1} << 20;

[[noreturn]] void Fail(const char* what) {
  fmt::print(stderr, "tunefarm-worker: {}: {}\n", what, strerrordesc_np(errno));
  std::fflush(stderr);
  _exit(kWorkerExitSandbox);
}

bool WriteText(const char* path, const std::string& text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int saved = errno;
  close(fd);
  errno = saved;
  return written;
}

// Bound to the thread that spawned us, the daemon's supervisor. It may have ended before the signal was set.
void DieWithParent(int parent_pid) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) Fail("cannot set the parent-death signal");
  if (parent_pid != 0 && getppid() != parent_pid) {
    errno = ESRCH;
    Fail("the daemon that started this worker is gone");
  }
}

// The same one level down, where the parent's pid cannot be seen: its end of the pipe closes when it dies. To be
// repeated after a change of uid, which clears the signal.
void DieWithPipe(int alive_fd) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) Fail("cannot set the parent-death signal");
  pollfd entry = {alive_fd, 0, 0};
  if (poll(&entry, 1, 0) > 0 && (entry.revents & POLLHUP) != 0) _exit(kWorkerExitSandbox);
}

// What could be had, and what could not with the reason.
struct Level {
  std::string had, lacked;
  bool pid_namespace = false;
  bool counts_alone = false;  // RLIMIT_NPROC counts this worker's processes and nobody else's

  bool Note(bool success, std::string_view name) {
    const int error = errno;
    std::string& list = success ? had : lacked;
    if (!list.empty()) list += ", ";
    list += name;
    if (!success) list += fmt::format(" ({})", strerrordesc_np(error));
    return success;
  }
  std::string Text() const {
    std::string text = pid_namespace ? "L1: " : "L0: ";
    text += had.empty() ? "no isolation" : had;
    if (!lacked.empty()) text += "; without " + lacked;
    return text;
  }
};

void Unshare(Level* level) {
  if (geteuid() != 0) {
    const uid_t uid = geteuid();
    const gid_t gid = getegid();
    if (!level->Note(unshare(CLONE_NEWUSER) == 0, "user namespace")) return;
    // One to one: the process keeps its name, and gains rights only over the namespaces it makes below.
    const bool mapped = WriteText("/proc/self/setgroups", "deny") &&
                        WriteText("/proc/self/uid_map", fmt::format("{} {} 1", uid, uid)) &&
                        WriteText("/proc/self/gid_map", fmt::format("{} {} 1", gid, gid));
    if (!mapped) level->Note(false, "identity in the user namespace");
    level->counts_alone = true;
  }
  level->pid_namespace = level->Note(unshare(CLONE_NEWPID) == 0, "pid namespace");
  if (level->Note(unshare(CLONE_NEWNS) == 0, "mount namespace")) {
    // Else our mounts would appear outside.
    if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) level->Note(false, "private mounts");
  }
  level->Note(unshare(CLONE_NEWIPC) == 0, "ipc namespace");
  level->Note(unshare(CLONE_NEWNET) == 0, "network namespace");
}

void Limit(__rlimit_resource resource, rlim_t value) {
  rlimit limit = {value, value};
  rlimit now;
  if (getrlimit(resource, &now) == 0 && now.rlim_max != RLIM_INFINITY && now.rlim_max < value) {
    limit.rlim_cur = limit.rlim_max = now.rlim_max;
  }
  (void)setrlimit(resource, &limit);
}

void SetLimits(const WorkerArguments& arguments, bool counts_alone) {
  Limit(RLIMIT_CORE, 0);
  Limit(RLIMIT_NOFILE, 512);
  Limit(RLIMIT_FSIZE, 256 * kMiB);
  // Counts threads too.
  if (counts_alone) Limit(RLIMIT_NPROC, arguments.backend == "cuda" ? 512 : 256);
#ifndef TUNEFARM_SANITIZED
  // CUDA maps more address space than any machine has memory.
  const bool uses_gpu = arguments.backend == "cuda" && arguments.role != "compile";
  if (!uses_gpu) Limit(RLIMIT_AS, 8 * kGiB);
#endif
}

// Whether the uid can work in the directory: it may lie under one that only root enters.
bool Reaches(const std::string& path, uid_t uid) {
  setfsuid(uid);
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  setfsuid(0);
  if (fd < 0) return false;
  close(fd);
  return true;
}

// The scratch directory by a path that the uid can walk. Where there is none, as for a root that may not mount, the
// worker keeps its uid: one that cannot enter its scratch directory could do nothing.
std::string PlaceScratch(WorkerArguments* arguments, Level* level) {
  const std::string& scratch = arguments->scratch;
  if (scratch.empty() || arguments->uid == 0 || Reaches(scratch, arguments->uid)) return scratch;
  if (level->Note(mount(scratch.c_str(), "/tmp", nullptr, MS_BIND, nullptr) == 0, "scratch bound to /tmp")) {
    setenv("TMPDIR", "/tmp", 1);
    setenv("HOME", "/tmp", 1);
    return "/tmp";
  }
  // A root without CAP_DAC_OVERRIDE enters only its own. If that fails too, entering it does, and says so.
  (void)!chown(scratch.c_str(), 0, 0);
  arguments->uid = 0;
  errno = EACCES;
  level->Note(false, "own uid");
  return scratch;
}

void DropPrivileges(const WorkerArguments& arguments, Level* level) {
  if (arguments.uid != 0) {
    if (setgroups(0, nullptr) != 0 || setresgid(arguments.uid, arguments.uid, arguments.uid) != 0 ||
        setresuid(arguments.uid, arguments.uid, arguments.uid) != 0) {
      Fail("cannot drop to the worker's uid");
    }
    level->Note(true, fmt::format("uid {}", arguments.uid));
    // A change of uid makes /proc/self root's; the CUDA driver writes there. RLIMIT_CORE is 0.
    (void)prctl(PR_SET_DUMPABLE, 1);
  }
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) Fail("cannot set no_new_privs");
}

// Reaps until `child` ends; returns its wait status.
int WaitFor(pid_t child) {
  while (true) {
    int status = 0;
    const pid_t ended = waitpid(-1, &status, 0);
    if (ended == child) return status;
    if (ended < 0 && errno != EINTR) Fail("waiting for the worker failed");
  }
}

// Ends this process as another one ended.
[[noreturn]] void EndAs(int status) {
  if (WIFEXITED(status)) _exit(WEXITSTATUS(status));
  const int signal_number = WTERMSIG(status);
  Limit(RLIMIT_CORE, 0);  // The core, if any, was the worker's.
  signal(signal_number, SIG_DFL);
  kill(getpid(), signal_number);
  _exit(128 + signal_number);
}

// Stub and init keep none of the worker's descriptors: their closing must tell of the worker's end alone.
void CloseAllBut(int keep_a, int keep_b) {
  const auto a = static_cast<unsigned>(std::min(keep_a, keep_b)), b = static_cast<unsigned>(std::max(keep_a, keep_b));
  if (a > 0) close_range(0, a - 1, 0);
  if (b > a + 1) close_range(a + 1, b - 1, 0);
  close_range(b + 1, ~0u, 0);
}

struct Pipe {
  int read_end = -1, write_end = -1;
};
Pipe MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) Fail("cannot create a pipe");
  return {ends[0], ends[1]};
}

// Init: returns in the worker only.
void ForkFromInit(int stub_alive_fd, int status_fd) {
  DieWithPipe(stub_alive_fd);
  const pid_t worker = fork();
  if (worker < 0) Fail("cannot fork the worker");
  if (worker == 0) {
    close(status_fd);
    return;
  }
  CloseAllBut(stub_alive_fd, status_fd);
  const int status = WaitFor(worker);
  (void)!write(status_fd, &status, sizeof(status));
  _exit(0);  // Whatever is left in the namespace dies now.
}

// Stub: returns in init and, without a pid namespace, in the worker.
bool ForkFromStub(const Level& level, int* stub_alive_fd, int* status_fd) {
  const Pipe alive = MakePipe(), status = MakePipe();
  const pid_t child = fork();
  if (child < 0) Fail("cannot fork");
  if (child == 0) {
    close(alive.write_end);
    close(status.read_end);
    *stub_alive_fd = alive.read_end;
    *status_fd = status.write_end;
    return true;
  }
  CloseAllBut(alive.write_end, status.read_end);
  const int child_status = WaitFor(child);
  if (!level.pid_namespace) EndAs(child_status);
  int worker_status = 0;
  const bool told = read(status.read_end, &worker_status, sizeof(worker_status)) == sizeof(worker_status);
  EndAs(told ? worker_status : child_status);
}

}  // namespace

SandboxResult EnterSandbox(const WorkerArguments& arguments) {
  DieWithParent(arguments.parent_pid);
  Level level;
  if (!arguments.sandbox) {
    SetLimits(arguments, false);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) Fail("cannot set no_new_privs");
    return {"L0: switched off by the configuration", arguments.scratch};
  }
  Unshare(&level);
  int alive_fd = -1, status_fd = -1;
  ForkFromStub(level, &alive_fd, &status_fd);
  if (level.pid_namespace) {
    ForkFromInit(alive_fd, status_fd);
    level.Note(mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0, "fresh /proc");
  } else {
    close(status_fd);
  }
  DieWithPipe(alive_fd);
  SandboxResult result;
  WorkerArguments allowed = arguments;
  result.scratch = PlaceScratch(&allowed, &level);
  SetLimits(allowed, level.counts_alone || allowed.uid != 0);
  DropPrivileges(allowed, &level);
  DieWithPipe(alive_fd);
  close(alive_fd);
  result.level = level.Text();
  return result;
}

}  // namespace tunefarm
