#include "server/base/pidfd.h"

#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>

// glibc's header lacks it.
extern "C" {
#include <sys/pidfd.h>
}

#include "server/base/status.h"

namespace tunefarm {

std::string ExitStatus::ToString() const {
  if (exited) return fmt::format("exit code {}", exit_code);
  const char* description = sigdescr_np(signal);
  return fmt::format("signal {} ({})", signal, description != nullptr ? description : "unknown");
}

absl::StatusOr<Pidfd> Pidfd::Open(pid_t pid) {
  UniqueFd fd(pidfd_open(pid, 0));
  if (!fd) return ErrnoStatus(errno, "cannot open process {}", pid);
  return Pidfd(std::move(fd));
}

absl::Status Pidfd::Signal(int signal) const {
  if (pidfd_send_signal(fd_.get(), signal, nullptr, 0) != 0) return ErrnoStatus(errno, "cannot send signal {}", signal);
  return absl::OkStatus();
}

absl::StatusOr<ExitStatus> Pidfd::Reap() {
  siginfo_t info = {};
  while (waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(fd_.get()), &info, WEXITED | WNOHANG) != 0) {
    if (errno != EINTR) return ErrnoStatus(errno, "cannot reap a process");
  }
  if (info.si_pid == 0) return Unavailable("the process is still running");
  ExitStatus status;
  status.exited = info.si_code == CLD_EXITED;
  (status.exited ? status.exit_code : status.signal) = info.si_status;
  return status;
}

}  // namespace tunefarm
