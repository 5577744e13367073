#pragma once

// A child process, entirely passive: its owner watches the descriptors, tells it when they are ready, and reaps it.
// Start it only on the supervisor's thread: a child's parent-death signal fires when the thread that spawned it ends.

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/pidfd.h"
#include "server/base/unique_fd.h"
#include "server/exec/captured_output.h"

namespace tunefarm {

struct SubprocessOptions {
  std::string executable;                // a path; PATH is not searched
  std::vector<std::string> arguments;    // without argv[0]
  std::vector<std::string> environment;  // "NAME=value", complete: nothing is inherited
  size_t output_bytes_max = 64 << 10;    // of stdout and stderr together
  bool own_session = false;              // it leads a session too: signals to the daemon's terminal do not reach it
};

// Not thread-safe.
class Subprocess {
 public:
  // Spawns with stdin from /dev/null, stdout and stderr into one captured pipe, `channel` as descriptor 3 and nothing
  // else open, every signal at its default and unblocked, as the leader of a new process group. The status of execve's
  // failure (NotFound, PermissionDenied, ...) names the executable. `channel` may be empty.
  static absl::StatusOr<std::unique_ptr<Subprocess>> Start(const SubprocessOptions& options, UniqueFd channel);

  // A child that still runs is killed unless it was let go; it is reaped if it ends at once, else left to init.
  ~Subprocess();
  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;

  pid_t pid() const { return pid_; }
  // Readable once the process has ended.
  int pidfd() const { return pidfd_.fd(); }

  // The read end of the pipe, non-blocking; -1 after CloseOutput.
  int output_fd() const { return output_fd_.get(); }
  // Reads what is there, at most 256 KiB. False at the end of the pipe, and after an error.
  bool ReadOutput();
  // Stop watching output_fd first: its number may be another file's at once.
  void CloseOutput() { output_fd_.Reset(); }
  CapturedOutput& output() { return output_; }

  // SIGKILL to the process and its group. Nothing after it was reaped.
  void Kill();

  // A child that still runs is left to itself by the destructor, and to init by this process's end.
  void LetGo() { let_go_ = true; }

  // Collects the exit status without blocking. Unavailable while it runs; the same status again once reaped.
  absl::StatusOr<ExitStatus> Reap();
  bool reaped() const { return reaped_; }

 private:
  Subprocess(pid_t pid, Pidfd pidfd, UniqueFd output, size_t output_bytes_max)
      : pid_(pid), pidfd_(std::move(pidfd)), output_fd_(std::move(output)), output_(output_bytes_max) {}

  const pid_t pid_;
  Pidfd pidfd_;
  UniqueFd output_fd_;
  CapturedOutput output_;
  bool reaped_ = false;
  bool let_go_ = false;
  ExitStatus status_;
};

}  // namespace tunefarm
