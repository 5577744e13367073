#pragma once

// The conversation of one worker with the daemon: reads what to do, lets the backend do it, and answers. One thread.

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/base/unique_fd.h"
#include "server/worker/backend.h"
#include "server/worker/sandbox/sandbox.h"
#include "server/worker/worker_arguments.h"

namespace tunefarm {

// Makers of the backends; tests put misbehaving ones in place of the real ones.
struct WorkerBackends {
  std::function<absl::StatusOr<std::unique_ptr<CompileBackend>>(const WorkerOptions&)> compile;
  std::function<absl::StatusOr<std::unique_ptr<RunBackend>>(const WorkerOptions&)> run;
  std::function<std::unique_ptr<ProbeBackend>(const WorkerOptions&)> probe;
  // Instead of all these: becomes another program, which finds the channel where this one did. Returns the exit code if
  // it cannot. Empty: the worker serves itself.
  std::function<int(const WorkerArguments&, const std::string& sandbox_level, const std::string& scratch)> become;
};

// Serves until the daemon asks to end or closes the channel. Returns the exit code of the process.
int ServeWorker(const WorkerArguments& arguments, const SandboxResult& sandbox, const WorkerBackends& backends,
                UniqueFd channel);

// What every worker process does with its arguments: sandbox, signals, out-of-memory handler, ServeWorker.
int WorkerMain(int argc, char** argv, const std::function<WorkerBackends(const WorkerArguments&)>& backends);

}  // namespace tunefarm
