// The file that tells of a held clock. A daemon makes it, empty, before it starts a process to hold the clock; that
// process has its lock, and writes it to disk before it holds the clock. The file goes after the clock is free: one
// that is left behind says that the clock may still be held. The lock keeps the processes of two daemons apart, of
// which the first is dead.
//
// One thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/unique_fd.h"

namespace tunefarm::cuda {

class ClockMarker {
 public:
  // Takes the file's lock, which ends with the process; waits for the process that has it. Makes the file if it is
  // missing.
  static absl::StatusOr<ClockMarker> Take(const std::string& path);

  // A process ended without freeing the clock that it held, since the machine was started: what a driver holds ends
  // with the machine.
  bool was_left() const { return was_left_; }

  // On disk when it returns.
  absl::Status Write(const std::string& device_uuid, int mhz);
  absl::Status Remove();

 private:
  ClockMarker(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  UniqueFd fd_;
  bool was_left_ = false;
};

}  // namespace tunefarm::cuda
