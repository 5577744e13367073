// What the Linux scheduler counts for threads: how long they had a processor, how long they waited for one, and how
// often they got one. The kernel keeps these numbers (/proc/PID/schedstat), so that no code of the thread can change
// them.
//
// Any thread. Since the thread's start, times in nanoseconds; 0 where the kernel does not count or the thread has
// ended.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace tunefarm {

struct ThreadTimes {
  // May lag by a scheduler tick (1 to 10 ms) while the thread runs.
  int64_t busy_ns = 0;
  // Could run, but had no processor. Exact while the thread runs.
  int64_t waited_ns = 0;
  // How often it was given a processor, after a sleep or after another thread had taken its place.
  int64_t runs = 0;
};

// Of the first thread of a process.
ThreadTimes FirstThreadTimes(pid_t pid);
ThreadTimes OwnThreadTimes();

// The number of the processor that the first thread of a process is on or was last; -1 where nobody knows.
int LastProcessor(pid_t pid);

}  // namespace tunefarm
