#include "server/daemon/heap.h"

#include <malloc.h>

#include <algorithm>

#include "server/daemon/process_stats.h"

namespace tunefarm {
namespace {

// glibc's default is eight a core.
constexpr int kArenas = 4;
// glibc's default, which by itself would grow up to 32 MiB with the blocks that are freed.
constexpr int kMapBytes = 128 << 10;

int64_t ResidentUnusedBytes() {
  const struct mallinfo2 heap = mallinfo2();
  return ResidentBytes() - static_cast<int64_t>(heap.uordblks + heap.hblkhd);
}

}  // namespace

void LimitHeap() {
  (void)mallopt(M_ARENA_MAX, kArenas);
  (void)mallopt(M_MMAP_THRESHOLD, kMapBytes);
}

bool HeapTrimmer::Poll() {
  const int64_t unused = ResidentUnusedBytes();
  // Less than ever: pages were given back some other way.
  if (!kept_ || unused < *kept_) kept_ = unused;
  if (unused - *kept_ < kTrimBytes) return false;
  (void)malloc_trim(0);
  kept_ = ResidentUnusedBytes();
  return true;
}

}  // namespace tunefarm
