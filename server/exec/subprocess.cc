#include "server/exec/subprocess.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "server/base/check.h"
#include "server/base/failpoint.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/exec/frame_limits.h"

namespace tunefarm {
namespace {

// Frees what posix_spawn's attribute objects hold.
struct SpawnActions {
  SpawnActions() { TUNEFARM_CHECK(posix_spawn_file_actions_init(&value) == 0); }
  ~SpawnActions() { posix_spawn_file_actions_destroy(&value); }
  posix_spawn_file_actions_t value;
};
struct SpawnAttributes {
  SpawnAttributes() { TUNEFARM_CHECK(posix_spawnattr_init(&value) == 0); }
  ~SpawnAttributes() { posix_spawnattr_destroy(&value); }
  posix_spawnattr_t value;
};

// The descriptor under a number that no dup2 of the child's actions overwrites before it has been used.
absl::StatusOr<UniqueFd> MoveUp(UniqueFd fd) {
  constexpr int kLowest = 10;
  if (fd.get() >= kLowest) return fd;
  UniqueFd moved(fcntl(fd.get(), F_DUPFD_CLOEXEC, kLowest));
  if (!moved) return ErrnoStatus(errno, "cannot duplicate descriptor {}", fd.get());
  return moved;
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& string : strings) pointers.push_back(const_cast<char*>(string.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Subprocess>> Subprocess::Start(const SubprocessOptions& options, UniqueFd channel) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "cannot create a pipe for {}", options.executable);
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  // Only our end: O_NONBLOCK on the other would surprise the child's stdio.
  if (fcntl(read_end.get(), F_SETFL, O_NONBLOCK) != 0) return ErrnoStatus(errno, "cannot make a pipe non-blocking");
  ASSIGN_OR_RETURN(write_end, MoveUp(std::move(write_end)));

  SpawnActions actions;
  int failed = 0;
  failed |= posix_spawn_file_actions_addopen(&actions.value, 0, "/dev/null", O_RDONLY, 0);
  failed |= posix_spawn_file_actions_adddup2(&actions.value, write_end.get(), 1);
  failed |= posix_spawn_file_actions_adddup2(&actions.value, write_end.get(), 2);
  if (channel) {
    ASSIGN_OR_RETURN(channel, MoveUp(std::move(channel)));
    failed |= posix_spawn_file_actions_adddup2(&actions.value, channel.get(), kWorkerChannelFd);
  }
  const int first_closed = channel ? kWorkerChannelFd + 1 : kWorkerChannelFd;
  failed |= posix_spawn_file_actions_addclosefrom_np(&actions.value, first_closed);

  SpawnAttributes attributes;
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  failed |= posix_spawnattr_setsigmask(&attributes.value, &none);
  failed |= posix_spawnattr_setsigdefault(&attributes.value, &all);
  failed |= posix_spawnattr_setpgroup(&attributes.value, 0);
  // The leader of a session leads a process group as well.
  const int group = options.own_session ? POSIX_SPAWN_SETSID : POSIX_SPAWN_SETPGROUP;
  failed |= posix_spawnattr_setflags(&attributes.value,
                                     static_cast<short>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | group));
  if (failed != 0) return ResourceExhausted("no memory to start {}", options.executable);

  RETURN_IF_ERROR(Failpoint("exec.spawn.before"));
  std::vector<std::string> arguments = {options.executable};
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  pid_t pid = -1;
  const int error = posix_spawn(&pid, options.executable.c_str(), &actions.value, &attributes.value,
                                Pointers(arguments).data(), Pointers(options.environment).data());
  if (error != 0) return ErrnoStatus(error, "cannot start {}", options.executable);

  PassFailpoint("exec.spawn.after");
  absl::StatusOr<Pidfd> pidfd = Pidfd::Open(pid);
  if (!pidfd.ok()) {
    // Ours and not reaped, so the pid is still its own.
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return Annotate(pidfd.status(), "{}", options.executable);
  }
  return std::unique_ptr<Subprocess>(
      new Subprocess(pid, *std::move(pidfd), std::move(read_end), options.output_bytes_max));
}

Subprocess::~Subprocess() {
  if (reaped_) return;
  if (!let_go_) Kill();
  if (!Reap().ok()) LogDebug("exec", "process {} is left to be reaped later", pid_);
}

bool Subprocess::ReadOutput() {
  if (!output_fd_) return false;
  std::array<char, 64 << 10> buffer;
  for (int round = 0; round < 4; ++round) {
    const ssize_t got = read(output_fd_.get(), buffer.data(), buffer.size());
    if (got > 0) {
      output_.Append({buffer.data(), static_cast<size_t>(got)});
      continue;
    }
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    return false;
  }
  return true;
}

void Subprocess::Kill() {
  if (reaped_) return;
  // Not reaped, so the group's number is still ours. Members first: the leader's end must not look like the last one's.
  (void)kill(-pid_, SIGKILL);
  (void)pidfd_.Signal(SIGKILL);
}

absl::StatusOr<ExitStatus> Subprocess::Reap() {
  if (reaped_) return status_;
  ASSIGN_OR_RETURN(status_, pidfd_.Reap());
  reaped_ = true;
  return status_;
}

}  // namespace tunefarm
