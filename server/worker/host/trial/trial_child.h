// What runs in the forked child of a trial: see trial_process.h, the only user.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "server/worker/host/trial/sample_batches.h"

namespace tunefarm {

class SeccompFilter;
struct TrialProgram;

// Shared between parent and child; the child may write anything into it at any time.
struct TrialPage {
  std::atomic<int64_t> nanoseconds{0};
  std::array<std::atomic<int64_t>, kSamplesPerBatchMax> sample_nanoseconds{};
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

// The child's ends of the conversation.
struct TrialEnds {
  int command_fd = -1;
  int reply_fd = -1;
  TrialPage* page = nullptr;
};

// Loads the program's binary, replies, then serves commands until the pipe closes. Memory beyond what the process has
// now and the program's flush may take is limited to 1 GiB, files to 64 MiB, processor time to an hour. Descriptors
// other than its own, and standard output and error (both: the worker's error), are closed. From the first foreign
// instruction on `filter` says which system calls there are; the page tells which one was forbidden.
[[noreturn]] void RunTrialChild(const TrialProgram& program, const SeccompFilter& filter, pid_t parent,
                                const TrialEnds& ends);

// The same in two parts, for a process whose children become trials. What the first does holds for the children too:
// signals, descriptors (`keep` and the program's binary stay open), limits, what a failed allocation does.
void EnterTrialSurroundings(const TrialProgram& program, pid_t parent, std::array<int, 2> keep, TrialPage* page);
// Leaves the heap so that the next allocations lie together: few pages for children to copy. May take a millisecond.
void GatherHeap();
// In the child, whose parent is `parent`.
[[noreturn]] void BecomeTrial(const TrialProgram& program, const SeccompFilter& filter, pid_t parent,
                              const TrialEnds& ends);

}  // namespace tunefarm
