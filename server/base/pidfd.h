#pragma once

// Child processes by pidfd: signalling and reaping cannot hit another process that got the same pid.

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/unique_fd.h"

namespace tunefarm {

// How a process ended.
struct ExitStatus {
  bool exited = false;  // True: by exit(); false: by a signal.
  int exit_code = 0;    // When exited.
  int signal = 0;       // When not exited.

  // "exit code 3" or "signal 11 (Segmentation fault)".
  std::string ToString() const;
  bool ok() const { return exited && exit_code == 0; }

  friend bool operator==(const ExitStatus&, const ExitStatus&) = default;
};

// Move-only. Not thread-safe, but Signal may race with the process ending.
class Pidfd {
 public:
  Pidfd() = default;

  // `pid` must be a child of this process that nobody has reaped (else the pid could already name another process).
  // NotFound when there is no such process.
  static absl::StatusOr<Pidfd> Open(pid_t pid);

  // NotFound once the process has been reaped; a zombie takes any signal silently.
  absl::Status Signal(int signal) const;

  // Collects the exit status of an ended child, without blocking. Unavailable while it runs; FailedPrecondition when it
  // is not (or no longer) a child of ours, e.g. when reaped before.
  absl::StatusOr<ExitStatus> Reap();

  // Polls as readable when the process has ended. -1 when empty.
  int fd() const { return fd_.get(); }
  bool valid() const { return fd_.valid(); }

 private:
  explicit Pidfd(UniqueFd fd) : fd_(static_cast<UniqueFd&&>(fd)) {}

  UniqueFd fd_;
};

}  // namespace tunefarm
