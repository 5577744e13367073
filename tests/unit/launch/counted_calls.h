// Counts what a thread allocates and locks. Link this where a launch must do neither: the program's malloc and its
// functions of locks are then in front of the C library's.
#pragma once

#include <cstdint>

namespace tunefarm::launch {

struct CountedCalls {
  int64_t allocations = 0;  // malloc and its like, thus operator new
  int64_t locks = 0;        // mutexes, read-write locks and spin locks that were taken, waited for or tried
};

// Of the calling thread, since it began.
CountedCalls CallsOfThisThread();

// False in builds with sanitizers, which have a malloc of their own.
bool CallsAreCounted();

// From now on calls that come out of the loaded library with `name` in its path do not count, of any thread:
// "libcuda.so". There is one such library; call this before others are started. Returns whether it is loaded.
bool LeaveOutCallsOf(const char* name);

}  // namespace tunefarm::launch
