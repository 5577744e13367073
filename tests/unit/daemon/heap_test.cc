#include "server/daemon/heap.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/daemon/process_stats.h"
#include "server/sanitizers.h"

namespace tunefarm {
namespace {

// What the sanitizers put in place of malloc has no trim.
#if TUNEFARM_ADDRESS_SANITIZER || TUNEFARM_THREAD_SANITIZER
#define SKIP_WITHOUT_GLIBC_HEAP() GTEST_SKIP() << "a sanitizer's heap"
#else
#define SKIP_WITHOUT_GLIBC_HEAP()
#endif

TEST(HeapTrimmer, GivesBackWhatLiesBelowChunksInUse) {
  SKIP_WITHOUT_GLIBC_HEAP();
  constexpr int kBlocks = 40'000;
  constexpr size_t kBlockBytes = 4000;
  HeapTrimmer trimmer;
  EXPECT_FALSE(trimmer.Poll());
  const int64_t before = ResidentBytes();
  std::vector<std::unique_ptr<std::string>> pins;
  // On a thread of its own, whose arena is not the one that shrinks by brk(2).
  std::thread([&] {
    std::vector<std::string> blocks;
    for (int number = 0; number < kBlocks; ++number) {
      blocks.emplace_back(kBlockBytes, 'x');
      if (number % 1000 == 999) pins.push_back(std::make_unique<std::string>(100, 'p'));
    }
    EXPECT_GT(ResidentBytes() - before, kBlocks * kBlockBytes / 2);
    EXPECT_FALSE(trimmer.Poll()) << "all of it is in use";
  }).join();
  ASSERT_GT(ResidentBytes() - before, 2 * HeapTrimmer::kTrimBytes) << "glibc kept nothing, so nothing is shown";
  EXPECT_TRUE(trimmer.Poll());
  EXPECT_LT(ResidentBytes() - before, HeapTrimmer::kTrimBytes);
  EXPECT_FALSE(trimmer.Poll()) << "there is nothing more to give back";
}

// A small block in each page keeps the page; once they are freed too, the page can go, although little became unused.
TEST(HeapTrimmer, TriesAgainWhereBlocksInUseKeptThePages) {
  SKIP_WITHOUT_GLIBC_HEAP();
  constexpr int kBlocks = 10'000;
  HeapTrimmer trimmer;
  EXPECT_FALSE(trimmer.Poll());
  const int64_t before = AnonymousBytes();
  std::vector<std::unique_ptr<std::string>> pins;
  std::thread([&] {
    std::vector<std::string> blocks;
    for (int number = 0; number < kBlocks; ++number) {
      blocks.emplace_back(3900, 'x');
      pins.push_back(std::make_unique<std::string>(100, 'p'));
    }
  }).join();
  EXPECT_TRUE(trimmer.Poll());
  ASSERT_GT(AnonymousBytes() - before, 2 * HeapTrimmer::kTrimBytes) << "the pages were not kept, so nothing is shown";
  pins.clear();
  for (int poll = 1; poll < HeapTrimmer::kRetryPolls; ++poll) ASSERT_FALSE(trimmer.Poll()) << poll;
  EXPECT_TRUE(trimmer.Poll());
  EXPECT_LT(AnonymousBytes() - before, HeapTrimmer::kTrimBytes);
}

}  // namespace
}  // namespace tunefarm
