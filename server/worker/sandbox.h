#pragma once

// The first lines of every worker: from here on it cannot outlive the daemon, sees no other process, and can use only
// so much. What the machine does not allow is left out and said in the level; only what would let a process escape the
// daemon's death is an error.
//
//   stub (spawned by the daemon, in its pid namespace) ── init (pid 1 of the new one) ── worker (drops to its uid)
//
// The stub dies with the daemon's supervisor thread, init dies with the stub, and with init everything inside. Init
// reaps orphans; the stub ends as the worker did, by the same exit code or signal. Without a pid namespace there is no
// init.

#include <string>

#include "server/worker/worker_arguments.h"

namespace tunefarm {

struct SandboxResult {
  std::string level;    // "L1: ..." or "L0: ..."
  std::string scratch;  // where the scratch directory is, seen from inside
};

// Call before anything else, while the process has one thread. Returns in the worker process only, the stub and init
// never return; with arguments.sandbox == false only the parent-death signal and the limits are set, in this same
// process. Exits with kWorkerExitSandbox and a line on stderr when it cannot tie the process to the daemon or fork.
SandboxResult EnterSandbox(const WorkerArguments& arguments);

}  // namespace tunefarm
