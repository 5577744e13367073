#pragma once

// The first lines of every worker: from here on it cannot outlive the daemon, sees no other process and only the part
// of the machine that its role needs, and can use only so much. What the machine does not allow is left out and said in
// the level (sandbox_level.h says what makes L1); what would let a process escape the daemon's death is an error, and
// so is a level below the one that is required.
//
// The parts: sandbox_namespaces (processes), sandbox_root and sandbox_view (files and devices), sandbox_limits
// (resources, rights), seccomp_filter (system calls).

#include <string>

#include "server/worker/worker_arguments.h"

namespace tunefarm {

struct SandboxResult {
  std::string level;              // "L1: ..." or "L0: ..."
  std::string scratch;            // where the scratch directory is, seen from inside
  bool limits_processes = false;  // to kProcessesMax, of this worker alone (sandbox_limits.h)
};

// Call before anything else, while the process has one thread. Returns in the worker process only; with
// arguments.sandbox == false only the parent-death signal and the limits are set, in this same process. Exits with
// kWorkerExitSandbox and a line on stderr when it cannot tie the process to the daemon, cannot fork, or does not reach
// arguments.required_isolation.
SandboxResult EnterSandbox(const WorkerArguments& arguments);

}  // namespace tunefarm
