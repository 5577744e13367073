// What the emulation is trusted with: that mistakes in a pipeline show. Each kernel here is wrong in one way on
// purpose, or the right counterpart.
#include "tests/unit/grouped_gemm/emulated_block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

namespace tunefarm::emulated {
namespace {

constexpr Schedule kSchedules[] = {{true, false}, {false, true}, {true, true}, {false, false}};
constexpr int kThreads = 64;

// Every thread copies 16 bytes and reads its neighbour's; returns whether all saw the data under every schedule.
bool ReadsNeighbour(bool waits, bool synchronizes) {
  std::vector<uint32_t> data(kThreads * 4);
  std::iota(data.begin(), data.end(), 1U);
  bool right = true;
  AllowReads(data.data(), data.size() * sizeof(uint32_t));
  for (const Schedule& schedule : kSchedules) {
    RunGrid({1}, {kThreads}, kThreads * 16, schedule, [&] {
      const unsigned thread = ThreadIndex().x;
      Copy(thread * 16, &data[thread * 4], true);
      Commit();
      if (waits) Wait(0);
      if (synchronizes) Barrier();
      const unsigned other = (thread + 33) % kThreads;
      uint32_t seen = 0;
      std::memcpy(&seen, SharedBytes() + other * 16, sizeof(seen));
      right = right && seen == data[other * 4];
    });
  }
  ForgetReads();
  return right;
}

TEST(EmulatedBlock, AMissingWaitOrBarrierShows) {
  EXPECT_TRUE(ReadsNeighbour(true, true));
  EXPECT_FALSE(ReadsNeighbour(false, true));
  EXPECT_FALSE(ReadsNeighbour(true, false));
  EXPECT_THAT(TakeFaults(), testing::IsEmpty());
}

// A tile is read by all and then overwritten by the next one: without a barrier between, somebody reads too late.
bool OverwritesAfterReading(bool synchronizes) {
  std::vector<uint32_t> data(8);
  std::iota(data.begin(), data.end(), 1U);
  bool right = true;
  AllowReads(data.data(), data.size() * sizeof(uint32_t));
  for (const Schedule& schedule : kSchedules) {
    RunGrid({1}, {kThreads}, 16, schedule, [&] {
      for (uint32_t step = 0; step < 2; ++step) {
        if (ThreadIndex().x == 0) Copy(0, &data[step * 4], true);
        Commit();
        Wait(0);
        Barrier();
        uint32_t seen = 0;
        std::memcpy(&seen, SharedBytes(), sizeof(seen));
        right = right && seen == data[step * 4];
        if (synchronizes) Barrier();
      }
    });
  }
  ForgetReads();
  return right;
}

TEST(EmulatedBlock, OverwritingWhatIsStillReadShows) {
  EXPECT_TRUE(OverwritesAfterReading(true));
  EXPECT_FALSE(OverwritesAfterReading(false));
}

TEST(EmulatedBlock, ReadingElsewhereAndBadTargetsAreFaults) {
  std::vector<uint32_t> data(8, 7);
  AllowReads(data.data(), 16);
  RunGrid({1}, {1}, 32, {}, [&] {
    Copy(0, &data[0], true);
    Copy(16, &data[4], true);   // not among what may be read
    Copy(16, &data[4], false);  // not read at all
    Commit();
    Wait(0);
  });
  EXPECT_EQ(TakeFaults().size(), 1U);
  RunGrid({1}, {1}, 32, {false, false}, [&] {
    Copy(8, &data[0], true);
    Copy(32, &data[0], true);
  });
  EXPECT_EQ(TakeFaults().size(), 2U);
  ForgetReads();
}

TEST(EmulatedBlock, OnlyTheOldestCopiesHaveArrived) {
  std::vector<uint32_t> data(8);
  std::iota(data.begin(), data.end(), 1U);
  AllowReads(data.data(), data.size() * sizeof(uint32_t));
  uint32_t first = 0, second = 0;
  RunGrid({1}, {1}, 32, {true, false}, [&] {
    Copy(0, &data[0], true);
    Commit();
    Copy(16, &data[4], true);
    Commit();
    Wait(1);
    std::memcpy(&first, SharedBytes(), sizeof(first));
    std::memcpy(&second, SharedBytes() + 16, sizeof(second));
  });
  ForgetReads();
  EXPECT_EQ(first, 1U);
  EXPECT_EQ(second, 0xffffffffU) << "still what the block began with";
}

TEST(EmulatedBlock, ThreadsThatEndedHoldNobodyUp) {
  int arrived = 0;
  RunGrid({3, 2}, {kThreads}, 16, {}, [&] {
    if (ThreadIndex().x >= 40) return;
    Barrier();
    ++arrived;
  });
  EXPECT_EQ(arrived, 6 * 40);
}

TEST(EmulatedBlock, LanesExchangeWords) {
  bool right = true;
  RunGrid({1}, {kThreads}, 16, {}, [&] {
    for (unsigned round = 0; round < 5; ++round) {
      const unsigned thread = ThreadIndex().x;
      const Words* const lanes = Exchange({{thread * 10 + round}});
      for (unsigned lane = 0; lane < 32; ++lane) {
        right = right && lanes[lane].word[0] == (thread / 32 * 32 + lane) * 10 + round;
      }
    }
  });
  EXPECT_TRUE(right);
  EXPECT_THAT(TakeFaults(), testing::IsEmpty());
}

}  // namespace
}  // namespace tunefarm::emulated
