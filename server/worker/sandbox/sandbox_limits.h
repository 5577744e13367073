#pragma once

// What a worker process may use, and giving up what it may do. For a process with one thread.

#include <sys/types.h>

#include <cstdint>

#include "server/worker/sandbox/sandbox_level.h"
#include "server/worker/worker_arguments.h"

namespace tunefarm {

// Lowers the soft limit of open files to `limit`; a lower one stays, and so does the hard limit.
void LowerDescriptorLimit(int limit);

// Processes and threads of a worker whose uid is its own.
inline constexpr int64_t kProcessesMax = 512;

// Limits of the process and of all that it starts: no core files, 512 descriptors, files of 256 MiB, 8 GiB of
// addresses unless it uses a GPU. `counts_alone`: nobody else runs under this uid, so that its processes can be
// counted. Returns whether they are limited to kProcessesMax: false also where a lower limit was inherited, which
// stays.
bool SetLimits(const WorkerArguments& arguments, bool counts_alone);

// Becomes `uid` (0: stays what it is) for good, with no capability and no way to gain one. Exits with
// kWorkerExitSandbox when the uid cannot be taken on.
void DropPrivileges(uid_t uid, SandboxLevel* level);

// Whether a process may look into this one by /proc. The CUDA driver needs its own entries there; beside a host
// kernel's process, which has the same uid, nothing may be readable.
void SetInspectable(bool inspectable);

}  // namespace tunefarm
