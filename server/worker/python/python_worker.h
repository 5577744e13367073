#pragma once

// Kernels in Python are compiled and run by an interpreter that takes the place of this process, inside of the sandbox
// that it has entered. What then speaks with the daemon is the harness, the package tunefarm_worker of this folder,
// whose files are part of the program and written into the scratch directory.

#include <string>

#include "server/worker/worker_arguments.h"

namespace tunefarm {

// For the main thread of a process that does nothing else any more. Returns only an exit code (kWorkerExitBackend),
// with a line on stderr, when the harness cannot be written or the interpreter cannot be started.
int BecomePythonWorker(const WorkerArguments& arguments, const std::string& sandbox_level, const std::string& scratch);

}  // namespace tunefarm
