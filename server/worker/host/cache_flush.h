// Makes caches cold before a sample, in the process that takes it: the data that a kernel is about to use is in no
// cache of the machine, so its first touch of each line goes to memory.
//
// Two ways. Eviction writes back and drops exactly those lines, one instruction each, from the caches of all cores. The
// walk reads and writes a buffer larger than the last level, which displaces them with everything else. The walk is for
// processors without the instruction and for memory so large that evicting it would cost more.
//
// Eviction leaves warm what nobody can list: the kernel's code, what it allocates for itself, its stack, the
// translations of addresses. After a walk code and heap are cold too as far as the caches' rules of replacement go,
// which nothing guarantees.
//
// One thread. The memory is not owned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tunefarm {

using MemorySpan = std::span<const std::byte>;

// What drops a single line, and how long a line is.
struct LineEviction {
  enum Kind { kNone, kClflush, kClflushopt };
  Kind kind = kNone;
  size_t line_bytes = 64;
};

// Of this processor. Unprivileged on x86-64 wherever it exists; kNone on others.
LineEviction DetectLineEviction();

enum class FlushWay { kNothing, kEvict, kWalk };

// The cheaper way to flush so many bytes, by what the ways cost for each. kNothing if `walk_bytes` is 0: no flush is
// wanted.
FlushWay ChooseFlushWay(size_t memory_bytes, size_t walk_bytes, LineEviction::Kind eviction);

// Calls `visit` once with an address in each line that holds a byte of `memory`, in their order.
template <typename Visit>
void ForEachLine(MemorySpan memory, size_t line_bytes, const Visit& visit) {
  if (memory.empty()) return;
  // From the first byte, not its line's start: what lies before may be nobody's.
  const std::byte* const begin = memory.data();
  const std::byte* const end = begin + memory.size();
  visit(begin);
  for (const std::byte* line = begin + line_bytes - reinterpret_cast<uintptr_t>(begin) % line_bytes; line < end;
       line += line_bytes) {
    visit(line);
  }
}

// What a loaded shared object (dlopen's handle) has of static data: its readable segments without code.
std::vector<MemorySpan> StaticDataOf(void* library);

class CacheFlush {
 public:
  // `walk_bytes`: how much memory a walk takes (FlushBytes), allocated at the first Run if that is the way.
  CacheFlush(std::vector<MemorySpan> memory, size_t walk_bytes, LineEviction eviction);
  ~CacheFlush();
  CacheFlush(const CacheFlush&) = delete;
  CacheFlush& operator=(const CacheFlush&) = delete;

  FlushWay way() const { return way_; }

  // When it returns no load of what follows can find the memory in a cache, unless it was touched since. Faults like a
  // read where the memory cannot be read; std::bad_alloc if there is none to walk.
  void Run();

 private:
  void Walk();

  const std::vector<MemorySpan> memory_;
  const size_t walk_bytes_;
  const LineEviction eviction_;
  const FlushWay way_;
  volatile unsigned char* walked_ = nullptr;
};

}  // namespace tunefarm
