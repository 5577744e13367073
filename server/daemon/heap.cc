#include "server/daemon/heap.h"

#include <malloc.h>

#include <algorithm>

#include "server/daemon/process_stats.h"

namespace tunefarm {
namespace {

// glibc's default is eight a core. With much fewer, threads that answer calls wait for one another.
constexpr int kArenas = 16;
// glibc's default, which by itself would grow up to 32 MiB with the blocks that are freed.
constexpr int kMapBytes = 128 << 10;

int64_t UnusedBytes() {
  const struct mallinfo2 heap = mallinfo2();
  return AnonymousBytes() - static_cast<int64_t>(heap.uordblks + heap.hblkhd);
}

}  // namespace

void LimitHeap() {
  (void)mallopt(M_ARENA_MAX, kArenas);
  (void)mallopt(M_MMAP_THRESHOLD, kMapBytes);
}

bool HeapTrimmer::Poll() {
  const int64_t unused = UnusedBytes();
  if (!least_) after_trim_ = unused;
  least_ = std::min(least_.value_or(unused), unused);
  ++polls_after_trim_;
  if (unused - *least_ < kTrimBytes) return false;
  if (unused - after_trim_ < kTrimBytes && polls_after_trim_ < kRetryPolls) return false;
  (void)malloc_trim(0);
  after_trim_ = UnusedBytes();
  least_ = std::min(*least_, after_trim_);
  polls_after_trim_ = 0;
  return true;
}

}  // namespace tunefarm
