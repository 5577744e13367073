#pragma once

// Which system calls a process of a worker may make: one profile per role. Everything is allowed but what is listed in
// the .cc file: calls that reach into other processes or the machine (mount, ptrace, bpf, ...) in every profile;
// starting processes and opening sockets where the role has no business doing so. Calls that change a process or thread
// by its number are allowed for the caller itself (0). Calls newer than the lists fail with ENOSYS.
//
// What a profile forbids ends in SIGSYS, and OUTCOME_SANDBOX_VIOLATION, where foreign code may run. Where only drivers
// and our own code do, it fails with an error that such code knows how to handle: libraries ask for much that they do
// not need.
//
// Build allocates and is for the start of a process; Install may be called between fork and the first foreign code.

#include <linux/filter.h>
#include <signal.h>

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace tunefarm {

enum class SeccompProfile {
  kCompileHost,    // starts compilers; no sockets
  kCompileCuda,    // no processes, no sockets
  kRunHost,        // starts trials, which narrow their rights by kTrial; no sockets
  kRunCuda,        // no processes; local sockets only
  kPythonHost,     // starts processes and programs; no sockets but pairs, no memory that its limits do not count
  kPythonCompile,  // the same, and memfd_create: a binary is handed over in such a file
  // The same, and local sockets. cuInit fails without memfd_create (CUDA_ERROR_OPERATING_SYSTEM): the worker forbids it
  // afterwards (tunefarm_worker/memfd_filter.py).
  kPythonCuda,
  kProbe,  // asks compilers for their version; local sockets only
  // The code of a host kernel: no processes, no programs, no sockets, no signals to others, no memory that its limits
  // do not count.
  kTrial,
  // kTrial in two parts, for trials that are forked from one process: the first may still start processes and signal
  // others, and costs each of its children nothing; the second is what is missing, as small as can be.
  kTrialTemplate,
  kTrialRest,
};

class SeccompFilter {
 public:
  // Internal when libseccomp cannot make it.
  static absl::StatusOr<SeccompFilter> Build(SeccompProfile profile);

  // Binds the calling thread and all that it starts from now on, for good. Sets no_new_privs. Returns 0 or errno
  // (EINVAL: the kernel has no seccomp filters). Async-signal-safe.
  int Install() const;

 private:
  std::vector<sock_filter> program_;
};

// "mount"; "system call 500" has no name here: then empty. Of what the profiles forbid. Async-signal-safe.
std::string_view ForbiddenSyscallName(int number);

// For a handler of SIGSYS. If the call was forbidden only because the calling thread named itself by its own number, as
// the C library does in pthread_setaffinity_np and pthread_setschedparam: makes it with 0 instead, puts the result
// where the interrupted code expects it, and returns true. The handler then returns. Async-signal-safe.
bool RepeatForCaller(const siginfo_t& info, void* context);

// Makes SIGSYS say on standard error which system call was forbidden before it ends the process.
void ReportForbiddenSyscalls();

}  // namespace tunefarm
