// How much memory this process may still use. Reads /proc and the limits; any thread.
#pragma once

#include <cstdint>

namespace tunefarm {

// The machine's memory in bytes.
uint64_t PhysicalMemoryBytes();
// What the kernel believes can be had without swapping, further bounded by RLIMIT_AS and RLIMIT_DATA.
uint64_t AvailableMemoryBytes();

}  // namespace tunefarm
