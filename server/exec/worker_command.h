#pragma once

// The command line of tunefarm-worker as the daemon builds it, and the scratch directory it gets.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/exec/outcome_table.h"
#include "server/exec/subprocess.h"

namespace tunefarm {

struct WorkerCommandOptions {
  std::string worker_binary;
  std::string scratch_root;  // a private directory of the daemon
  std::string cuda_path;
  std::string host_compiler;
  std::string python_interpreter;
  bool sandbox = true;
  std::string required_isolation;  // "L1": a worker that reaches less ends at once; empty: whatever can be had
  int compile_seconds = 0;         // of processor time for one compile; 0: no limit
  std::vector<std::string> extra_arguments;
};

// Raises this process's soft limit of open files to the hard limit. Workers get the limit that it found: programs that
// use select(2) need numbers below 1,024, and others close every number that they may have. Once in a process, before
// it starts threads; where the limit cannot be raised, it stays.
void RaiseDescriptorLimit();

// Makes the scratch directory "<scratch_root>/<name>" fresh and empty, and returns the command. When the daemon is
// root, the worker drops to `uid` and the directory is its own. What a hostile worker left behind and cannot be removed
// is left aside and a new directory taken.
absl::StatusOr<SubprocessOptions> MakeWorkerCommand(const WorkerCommandOptions& options, WorkerRole role,
                                                    const std::string& backend, const std::string& name,
                                                    const std::string& device_uuid, uint32_t uid);

// The command of the process that holds the clock of a device at `mhz` (0: frees it) and says so in the file `marker`;
// see server/worker/nvml/clock_lock.h.
SubprocessOptions MakeClockCommand(const std::string& worker_binary, const std::string& device_uuid, int mhz,
                                   const std::string& marker);

}  // namespace tunefarm
