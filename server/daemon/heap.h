// Heap: gives memory that was freed back to the kernel. glibc by itself keeps what lies below the last chunk in use of
// an arena, so that a burst of large calls would stay the process's size until its end.
#pragma once

#include <cstdint>
#include <optional>

namespace tunefarm {

// Bounds the arenas, whose free memory is not shared, and maps large blocks apart, so that freeing them returns them.
// To be called before any thread starts.
void LimitHeap();

// Of one thread.
class HeapTrimmer {
 public:
  // To be called every few seconds. Trims (malloc_trim(3)) once kTrimBytes more lie unused in pages than ever least,
  // and tries again after kRetryPolls calls where blocks in use kept that many pages. True if it trimmed. Takes the
  // lock of each arena for as long as that is trimmed, about 0.1 ms for each MiB.
  bool Poll();

  static constexpr int64_t kTrimBytes = int64_t{8} << 20;
  static constexpr int kRetryPolls = 6;

 private:
  // Bytes of anonymous pages that are not in use: stacks and what trimming leaves.
  std::optional<int64_t> least_;
  int64_t after_trim_ = 0;
  int polls_after_trim_ = 0;
};

}  // namespace tunefarm
