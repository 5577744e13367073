// What this process uses, from /proc. Any thread; 0 where it cannot be read.
#pragma once

#include <cstdint>
#include <string>

namespace tunefarm {

int64_t ResidentBytes();
// Resident and of no file: heaps and stacks.
int64_t AnonymousBytes();
int OpenFiles();
// Direct children: the workers' stubs.
int CountChildren();
std::string HostName();

}  // namespace tunefarm
