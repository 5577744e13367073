// Holds the clock of a GPU's multiprocessors for a daemon, in a process of its own: what NVML holds stays when the
// process that asked for it ends, so somebody must outlive the daemon to free it, however the daemon dies. Workers may
// not do it: they are sandboxed and run foreign code.
//
// The process answers with one frame, Prepared: ok, the clock is held; else a message of one sentence. It then waits
// until its channel closes, which is the daemon's wish or its death, frees the clock and exits. If it is killed itself,
// its marker tells the next one (clock_marker.h).
#pragma once

#include <string>

#include "server/base/unique_fd.h"

namespace tunefarm::cuda {

struct ClockLock {
  std::string device_uuid;
  int mhz = 0;  // 0: frees a clock that an earlier process has left held, without an answer
  std::string marker;
};

// Returns the exit code of the process: kWorkerExitOk where the clock is free again, or was never held.
int HoldClock(const ClockLock& lock, UniqueFd channel);

}  // namespace tunefarm::cuda
