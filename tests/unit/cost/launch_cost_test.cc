#include "server/cost/launch_cost.h"

#include <gtest/gtest.h>

#include "server/base/random.h"

namespace tunefarm {
namespace {

DeviceClass Class(std::string_view name) { return FindKnownClass(name).value(); }

KnownLaunch Launch(int64_t blocks, int64_t threads, int64_t shared_bytes = 0, int64_t registers = 0) {
  KnownLaunch launch;
  launch.shape.grid = {blocks, 1, 1};
  launch.shape.block = {threads, 1, 1};
  launch.shape.shared_bytes = shared_bytes;
  launch.shape.registers_per_thread = registers;
  return launch;
}

TEST(HidingTest, GrowsWithTheWarpsUntilItSaturates) {
  EXPECT_DOUBLE_EQ(HidingOf(1), 1.0 / kSaturatingWarps);
  EXPECT_DOUBLE_EQ(HidingOf(kSaturatingWarps / 2), 0.5);
  EXPECT_DOUBLE_EQ(HidingOf(kSaturatingWarps), 1);
  EXPECT_DOUBLE_EQ(HidingOf(64), 1);
}

TEST(WaveLossTest, FullRoundsLoseNothing) {
  EXPECT_DOUBLE_EQ(WaveLoss(132, 132, 1, 8), 1);
  EXPECT_DOUBLE_EQ(WaveLoss(132 * 2 * 7, 132, 2, 8), 1);
  // Also few warps, where every block waits: that is what hiding says.
  EXPECT_DOUBLE_EQ(WaveLoss(132 * 4, 132, 4, 1), 1);
}

// With all latency hidden it is the classic number: blocks of the busiest multiprocessor over the mean.
TEST(WaveLossTest, OneBlockMoreIsOneBlockMoreOnTheBusiest) {
  EXPECT_DOUBLE_EQ(WaveLoss(133, 132, 1, 8), 2 / (133.0 / 132));
  EXPECT_DOUBLE_EQ(WaveLoss(133, 132, 2, 8), 2 / (133.0 / 132));
  EXPECT_DOUBLE_EQ(WaveLoss(1, 132, 2, 8), 132);
  EXPECT_DOUBLE_EQ(WaveLoss(132 * 10 + 1, 132, 2, 16), 11 / ((132 * 10 + 1) / 132.0));
}

// A rest of few warps also hides less: one block of 4 warps where two hide all, so half the speed.
TEST(WaveLossTest, ARestOfFewWarpsIsSlower) {
  const double mean = (132 * 2 + 132) / 132.0;
  EXPECT_DOUBLE_EQ(WaveLoss(132 * 2 + 132, 132, 2, 4), (2 + 1 / 0.5) / mean);
}

TEST(LaunchCostTest, PartsOfAnOrdinaryLaunch) {
  // 256 threads and 48 KiB on an H200: 4 blocks by shared memory (49 KiB each of 228), 32 of 64 warps.
  const auto cost = CostOfLaunch(Class("H200"), Launch(1056, 256, 48 * 1024));
  ASSERT_TRUE(cost.has_value());
  EXPECT_EQ(cost->blocks, 1056);
  EXPECT_EQ(cost->threads_per_block, 256);
  EXPECT_EQ(cost->occupancy.blocks_per_sm, 4);
  EXPECT_EQ(cost->occupancy.limit, OccupancyLimit::kSharedMemory);
  EXPECT_DOUBLE_EQ(cost->occupancy.share, 0.5);
  EXPECT_DOUBLE_EQ(cost->waves, 2);
  EXPECT_DOUBLE_EQ(cost->efficiency(), 1);
}

TEST(LaunchCostTest, LanesThatIdleCount) {
  EXPECT_DOUBLE_EQ(CostOfLaunch(Class("A100"), Launch(108 * 32, 17))->lanes, 17.0 / 32);
  EXPECT_DOUBLE_EQ(CostOfLaunch(Class("A100"), Launch(108 * 32, 48))->lanes, 0.75);
  EXPECT_DOUBLE_EQ(CostOfLaunch(Class("A100"), Launch(108 * 32, 64))->lanes, 1);
}

// A persistent kernel: one block on each multiprocessor. There is no rest, whatever the occupancy would allow.
TEST(LaunchCostTest, AGridOfTheDeviceHasNoTail) {
  const auto cost = CostOfLaunch(Class("H200"), Launch(132, 256));
  EXPECT_DOUBLE_EQ(cost->waves_share, 1);
  EXPECT_LT(cost->waves, 1);
  EXPECT_DOUBLE_EQ(CostOfLaunch(Class("H200"), Launch(66, 256))->waves_share, 0.5) << "half of it idles";
}

TEST(LaunchCostTest, AGridKnownOnlyAfterCompilingFillsTheDevice) {
  KnownLaunch launch = Launch(1, 64);
  launch.is_grid_known = false;
  const auto cost = CostOfLaunch(Class("H200"), launch);
  EXPECT_EQ(cost->blocks, 0);
  EXPECT_DOUBLE_EQ(cost->waves, 0);
  EXPECT_DOUBLE_EQ(cost->efficiency(), 1);
}

TEST(LaunchCostTest, WhatDoesNotFitHasNoCost) {
  EXPECT_FALSE(CostOfLaunch(Class("H200"), Launch(1, 2048)).has_value());
  EXPECT_FALSE(CostOfLaunch(Class("H200"), Launch(1, 32, 228 * 1024)).has_value());
  DeviceClass host;
  host.kind = DeviceKind::kHost;
  EXPECT_FALSE(CostOfLaunch(host, Launch(1, 32)).has_value());
}

// What must hold of any launch, over many random ones.
TEST(LaunchCostTest, SharesAreSharesAndMoreSharedMemoryNeverRaisesOccupancy) {
  PhiloxStream random(7);
  for (const KnownClass& known : KnownClasses()) {
    const DeviceClass& device = known.device_class;
    for (int i = 0; i < 2000; ++i) {
      const auto below = [&](int64_t bound) {
        return static_cast<int64_t>(random.UniformInt(static_cast<uint64_t>(bound)));
      };
      const int64_t blocks = 1 + below(1 << (1 + below(20))), threads = 1 + below(1024), registers = below(256);
      const int64_t shared = below(device.shared_bytes_per_block_optin), more = shared + below(8192);
      const auto cost = CostOfLaunch(device, Launch(blocks, threads, shared, registers));
      const Occupancy occupancy = ComputeOccupancy(device, Launch(1, threads, shared, registers).shape);
      const Occupancy with_more = ComputeOccupancy(device, Launch(1, threads, more, registers).shape);
      const Occupancy with_registers = ComputeOccupancy(device, Launch(1, threads, shared, registers + 8).shape);
      ASSERT_LE(with_more.blocks_per_sm, occupancy.blocks_per_sm) << threads << " threads, " << shared << " bytes";
      if (registers > 0) {
        ASSERT_LE(with_registers.blocks_per_sm, occupancy.blocks_per_sm) << threads << " threads, " << registers;
      }
      ASSERT_EQ(cost.has_value(), occupancy.blocks_per_sm > 0);
      if (!cost.has_value()) continue;
      ASSERT_LE(occupancy.share, 1);
      for (const double share : {cost->lanes, cost->tiles, cost->hiding, cost->waves_share}) {
        ASSERT_GT(share, 0) << blocks << " blocks of " << threads << " threads on " << known.short_name;
        ASSERT_LE(share, 1) << blocks << " blocks of " << threads << " threads on " << known.short_name;
      }
      // Whole rounds more make a rest matter less.
      const int64_t round = int64_t{device.sm_count} * cost->occupancy.blocks_per_sm;
      const auto longer = CostOfLaunch(device, Launch(blocks + round, threads, shared, registers));
      ASSERT_GE(longer->waves_share, cost->waves_share - 1e-12) << blocks << " blocks of " << threads;
    }
  }
}

}  // namespace
}  // namespace tunefarm
