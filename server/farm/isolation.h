// How well workers are isolated here, and what a job may demand. The levels are "L0" (whatever the machine allows) and
// "L1" (all that server/worker/sandbox/sandbox_level.h lists).
#pragma once

#include <string>

#include "absl/status/status.h"

namespace tunefarm {

struct Isolation {
  std::string reached;   // as workers tell it: "L1: ..." or "L0: ...; without ..."; empty: none could be asked
  std::string required;  // by the daemon's configuration; empty: nothing
};

// Whether a job that demands `level` (empty: nothing) may run. The stricter of the job's and the daemon's demands
// counts. InvalidArgument JOB_INVALID for a level that does not exist, FailedPrecondition ISOLATION_NOT_REACHED, which
// says what is missing.
absl::Status CheckIsolation(const Isolation& isolation, const std::string& level);

}  // namespace tunefarm
