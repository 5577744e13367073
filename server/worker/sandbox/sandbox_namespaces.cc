#include "server/worker/sandbox/sandbox_namespaces.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "server/exec/frame_limits.h"

namespace tunefarm {
namespace {

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
  const rlimit none = {0, 0};
  (void)setrlimit(RLIMIT_CORE, &none);  // The core, if any, was the worker's.
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
  DieWithStub(stub_alive_fd);
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
void ForkFromStub(bool has_init, int* stub_alive_fd, int* status_fd) {
  const Pipe alive = MakePipe(), status = MakePipe();
  const pid_t child = fork();
  if (child < 0) Fail("cannot fork");
  if (child == 0) {
    close(alive.write_end);
    close(status.read_end);
    *stub_alive_fd = alive.read_end;
    *status_fd = status.write_end;
    return;
  }
  CloseAllBut(alive.write_end, status.read_end);
  const int child_status = WaitFor(child);
  if (!has_init) EndAs(child_status);
  int worker_status = 0;
  const bool told = read(status.read_end, &worker_status, sizeof(worker_status)) == sizeof(worker_status);
  EndAs(told ? worker_status : child_status);
}

}  // namespace

void DieWithParent(int parent_pid) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) Fail("cannot set the parent-death signal");
  // It may have ended before the signal was set.
  if (parent_pid != 0 && getppid() != parent_pid) {
    errno = ESRCH;
    Fail("the daemon that started this worker is gone");
  }
}

// One level down the parent's pid cannot be seen: its end of the pipe closes when it dies.
void DieWithStub(int alive_fd) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) Fail("cannot set the parent-death signal");
  pollfd entry = {alive_fd, 0, 0};
  if (poll(&entry, 1, 0) > 0 && (entry.revents & POLLHUP) != 0) _exit(kWorkerExitSandbox);
}

Namespaces UnshareNamespaces(SandboxLevel* level) {
  Namespaces namespaces;
  if (geteuid() != 0) {
    const uid_t uid = geteuid();
    const gid_t gid = getegid();
    if (!level->Note(unshare(CLONE_NEWUSER) == 0, "user namespace")) return namespaces;
    // One to one: the process keeps its name, and gains rights only over the namespaces it makes below.
    const bool mapped = WriteText("/proc/self/setgroups", "deny") &&
                        WriteText("/proc/self/uid_map", fmt::format("{} {} 1", uid, uid)) &&
                        WriteText("/proc/self/gid_map", fmt::format("{} {} 1", gid, gid));
    if (!mapped) level->Note(false, "identity in the user namespace");
    namespaces.user = true;
  }
  namespaces.pid = level->Note(unshare(CLONE_NEWPID) == 0, "pid namespace");
  // Private: else our mounts would appear outside.
  namespaces.mount = level->Note(
      unshare(CLONE_NEWNS) == 0 && mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "mount namespace");
  level->Note(unshare(CLONE_NEWIPC) == 0, "ipc namespace");
  level->Note(unshare(CLONE_NEWUTS) == 0, "host name namespace");
  level->Note(unshare(CLONE_NEWNET) == 0, "network namespace");
  return namespaces;
}

int ForkWorker(const Namespaces& namespaces) {
  int alive_fd = -1, status_fd = -1;
  ForkFromStub(namespaces.pid, &alive_fd, &status_fd);
  if (namespaces.pid) {
    ForkFromInit(alive_fd, status_fd);
  } else {
    close(status_fd);
  }
  DieWithStub(alive_fd);
  return alive_fd;
}

}  // namespace tunefarm
