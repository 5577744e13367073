// What runs in the forked child of a trial: see trial_process.h, the only user.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

namespace tunefarm {

class SeccompFilter;
struct TrialProgram;

// Shared between parent and child; the child may write anything into it at any time.
struct TrialPage {
  std::atomic<int64_t> nanoseconds{0};
  std::atomic<uint32_t> out_of_memory{0};  // operator new has failed
  std::atomic<uint32_t> faulted{0};
  std::atomic<uint64_t> fault_address{0};
  std::atomic<int32_t> forbidden_syscall{-1};
  char text[1024] = {};
};

// One byte per reply.
inline constexpr char kTrialDone = 'D';
inline constexpr char kTrialLoadError = 'L';
inline constexpr char kTrialThrew = 'T';
inline constexpr char kTrialOutOfMemory = 'M';

// Loads the program's binary, replies, then serves commands until the pipe closes. Memory beyond what the process has
// now and the program's flush takes is limited to 1 GiB, files to 64 MiB, processor time to an hour. Descriptors other
// than its own, and standard output and error (both: the worker's error), are closed. From the first foreign
// instruction on `filter` says which system calls there are; the page tells which one was forbidden.
[[noreturn]] void RunTrialChild(const TrialProgram& program, const SeccompFilter& filter, pid_t parent, int command_fd,
                                int reply_fd, TrialPage* page);

}  // namespace tunefarm
