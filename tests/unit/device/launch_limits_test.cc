#include <gtest/gtest.h>

#include <limits>
#include <ostream>

#include "server/device/device_class.h"
#include "server/device/occupancy.h"

namespace tunefarm {
namespace {

struct OccupancyCase {
  std::string_view device;
  int64_t threads;
  int64_t registers;
  int64_t shared_bytes;
  int blocks;
};
std::ostream& operator<<(std::ostream& out, const OccupancyCase& c) {
  return out << c.device << " threads " << c.threads << " registers " << c.registers << " shared " << c.shared_bytes;
}

class OccupancyTest : public testing::TestWithParam<OccupancyCase> {};

TEST_P(OccupancyTest, AgreesWithTheToolkit) {
  LaunchShape launch;
  launch.block = {GetParam().threads, 1, 1};
  launch.registers_per_thread = GetParam().registers;
  launch.shared_bytes = GetParam().shared_bytes;
  EXPECT_EQ(MaxActiveBlocks(FindKnownClass(GetParam().device).value(), launch), GetParam().blocks);
}

// The answers of the CUDA Toolkit's occupancy calculator (cuda_occupancy.h).
INSTANTIATE_TEST_SUITE_P(
    Toolkit, OccupancyTest,
    testing::Values(OccupancyCase{"T4", 256, 32, 0, 4}, OccupancyCase{"T4", 256, 64, 0, 4},
                    OccupancyCase{"T4", 128, 255, 0, 2}, OccupancyCase{"T4", 1024, 64, 0, 1},
                    OccupancyCase{"T4", 1000, 33, 0, 1}, OccupancyCase{"T4", 96, 40, 0, 10},
                    OccupancyCase{"T4", 384, 168, 0, 1}, OccupancyCase{"T4", 256, 128, 49152, 1},
                    OccupancyCase{"T4", 128, 96, 102400, 0}, OccupancyCase{"T4", 64, 24, 8192, 8},
                    OccupancyCase{"T4", 32, 16, 0, 16}, OccupancyCase{"T4", 33, 100, 1000, 8},
                    OccupancyCase{"T4", 160, 72, 5000, 5}, OccupancyCase{"T4", 512, 128, 65536, 1},
                    OccupancyCase{"T4", 256, 90, 33333, 1}, OccupancyCase{"A100", 256, 32, 0, 8},
                    OccupancyCase{"A100", 256, 64, 0, 4}, OccupancyCase{"A100", 128, 255, 0, 2},
                    OccupancyCase{"A100", 1024, 64, 0, 1}, OccupancyCase{"A100", 1000, 33, 0, 1},
                    OccupancyCase{"A100", 96, 40, 0, 16}, OccupancyCase{"A100", 384, 168, 0, 1},
                    OccupancyCase{"A100", 256, 128, 49152, 2}, OccupancyCase{"A100", 128, 96, 102400, 1},
                    OccupancyCase{"A100", 64, 24, 8192, 18}, OccupancyCase{"A100", 32, 16, 0, 32},
                    OccupancyCase{"A100", 33, 100, 1000, 8}, OccupancyCase{"A100", 160, 72, 5000, 5},
                    OccupancyCase{"A100", 512, 128, 65536, 1}, OccupancyCase{"A100", 256, 90, 33333, 2},
                    OccupancyCase{"L40S", 256, 32, 0, 6}, OccupancyCase{"L40S", 256, 64, 0, 4},
                    OccupancyCase{"L40S", 128, 255, 0, 2}, OccupancyCase{"L40S", 1024, 64, 0, 1},
                    OccupancyCase{"L40S", 1000, 33, 0, 1}, OccupancyCase{"L40S", 96, 40, 0, 16},
                    OccupancyCase{"L40S", 384, 168, 0, 1}, OccupancyCase{"L40S", 256, 128, 49152, 2},
                    OccupancyCase{"L40S", 128, 96, 102400, 0}, OccupancyCase{"L40S", 64, 24, 8192, 11},
                    OccupancyCase{"L40S", 32, 16, 0, 24}, OccupancyCase{"L40S", 33, 100, 1000, 8},
                    OccupancyCase{"L40S", 160, 72, 5000, 5}, OccupancyCase{"L40S", 512, 128, 65536, 1},
                    OccupancyCase{"L40S", 256, 90, 33333, 2}, OccupancyCase{"H100", 256, 32, 0, 8},
                    OccupancyCase{"H100", 256, 64, 0, 4}, OccupancyCase{"H100", 128, 255, 0, 2},
                    OccupancyCase{"H100", 1024, 64, 0, 1}, OccupancyCase{"H100", 1000, 33, 0, 1},
                    OccupancyCase{"H100", 96, 40, 0, 16}, OccupancyCase{"H100", 384, 168, 0, 1},
                    OccupancyCase{"H100", 256, 128, 49152, 2}, OccupancyCase{"H100", 128, 96, 102400, 2},
                    OccupancyCase{"H100", 64, 24, 8192, 25}, OccupancyCase{"H100", 32, 16, 0, 32},
                    OccupancyCase{"H100", 33, 100, 1000, 8}, OccupancyCase{"H100", 160, 72, 5000, 5},
                    OccupancyCase{"H100", 512, 128, 65536, 1}, OccupancyCase{"H100", 256, 90, 33333, 2},
                    OccupancyCase{"B200", 256, 32, 0, 8}, OccupancyCase{"B200", 256, 64, 0, 4},
                    OccupancyCase{"B200", 128, 255, 0, 2}, OccupancyCase{"B200", 1024, 64, 0, 1},
                    OccupancyCase{"B200", 1000, 33, 0, 1}, OccupancyCase{"B200", 96, 40, 0, 16},
                    OccupancyCase{"B200", 384, 168, 0, 1}, OccupancyCase{"B200", 256, 128, 49152, 2},
                    OccupancyCase{"B200", 128, 96, 102400, 2}, OccupancyCase{"B200", 64, 24, 8192, 25},
                    OccupancyCase{"B200", 32, 16, 0, 32}, OccupancyCase{"B200", 33, 100, 1000, 8},
                    OccupancyCase{"B200", 160, 72, 5000, 5}, OccupancyCase{"B200", 512, 128, 65536, 1},
                    OccupancyCase{"B200", 256, 90, 33333, 2}));

TEST(MaxActiveBlocksTest, NothingForWhatCannotRun) {
  const DeviceClass device = FindKnownClass("A100").value();
  LaunchShape launch;
  launch.block = {2048, 1, 1};
  EXPECT_EQ(MaxActiveBlocks(device, launch), 0);
  DeviceClass host;
  host.kind = DeviceKind::kHost;
  EXPECT_EQ(MaxActiveBlocks(host, LaunchShape()), 0);
}

TEST(MaxActiveBlocksTest, GridDoesNotCount) {
  LaunchShape launch;
  launch.block = {256, 1, 1};
  launch.grid = {1, 70000, 1};
  EXPECT_EQ(MaxActiveBlocks(FindKnownClass("A100").value(), launch), 8);
}

TEST(FirstBrokenLimitTest, NamesTheFirstLimitWithBothNumbers) {
  const DeviceClass device = FindKnownClass("H200").value();
  LaunchShape launch;
  launch.block = {1024, 1, 1};
  launch.shared_bytes = 232448;
  launch.registers_per_thread = 64;
  EXPECT_EQ(FirstBrokenLimit(device, launch), "");

  launch.shared_bytes = 240 * 1024;
  EXPECT_EQ(FirstBrokenLimit(device, launch), "shared memory per block: 240 KiB exceed the 227 KiB of NVIDIA H200");
  launch.shared_bytes = 232449;
  EXPECT_EQ(FirstBrokenLimit(device, launch),
            "shared memory per block: 232449 bytes exceed the 232448 bytes of NVIDIA H200");
  launch.shared_bytes = 0;

  launch.registers_per_thread = 65;
  EXPECT_EQ(FirstBrokenLimit(device, launch), "registers per block: 73728 exceed the 65536 of NVIDIA H200");
  launch.registers_per_thread = 256;
  EXPECT_EQ(FirstBrokenLimit(device, launch), "registers per thread: 256 exceed the 255 of NVIDIA H200");
  launch.registers_per_thread = 0;

  launch.block = {64, 32, 1};
  EXPECT_EQ(FirstBrokenLimit(device, launch), "threads per block: 2048 exceed the 1024 of NVIDIA H200");
  launch.block = {1, 1, 65};
  EXPECT_EQ(FirstBrokenLimit(device, launch), "block z: 65 exceed the 64 of NVIDIA H200");
  launch.block = {0, 1, 1};
  EXPECT_EQ(FirstBrokenLimit(device, launch), "block x: 0 is not at least 1");
  launch.block = {32, 1, 1};

  launch.grid = {2147483647, 65535, 65535};
  EXPECT_EQ(FirstBrokenLimit(device, launch), "");
  launch.grid = {1, 65536, 1};
  EXPECT_EQ(FirstBrokenLimit(device, launch), "grid y: 65536 exceed the 65535 of NVIDIA H200");
  launch.grid = {1, 1, 0};
  EXPECT_EQ(FirstBrokenLimit(device, launch), "grid z: 0 is not at least 1");
}

// Each bound where it is the least one; the numbers are those of the programming guide's table of compute capabilities.
TEST(OccupancyLimitTest, SaysWhatBoundsIt) {
  const auto occupancy = [](std::string_view device, int64_t threads, int64_t registers, int64_t shared_bytes) {
    LaunchShape launch;
    launch.block = {threads, 1, 1};
    launch.registers_per_thread = registers;
    launch.shared_bytes = shared_bytes;
    return ComputeOccupancy(FindKnownClass(device).value(), launch);
  };
  EXPECT_EQ(occupancy("H200", 32, 0, 0).limit, OccupancyLimit::kBlocks);
  EXPECT_DOUBLE_EQ(occupancy("H200", 32, 0, 0).share, 0.5);  // 32 blocks of one warp, of 64
  EXPECT_EQ(occupancy("H200", 256, 32, 0).limit, OccupancyLimit::kWarps);
  EXPECT_DOUBLE_EQ(occupancy("H200", 256, 32, 0).share, 1);
  EXPECT_EQ(occupancy("H200", 256, 64, 0).limit, OccupancyLimit::kRegisters);  // 16,384 of 65,536 for each block
  EXPECT_EQ(occupancy("H200", 256, 64, 0).blocks_per_sm, 4);
  EXPECT_EQ(occupancy("A100", 256, 0, 96 * 1024).limit, OccupancyLimit::kSharedMemory);  // 97 KiB of 164
  EXPECT_EQ(occupancy("A100", 256, 0, 96 * 1024).blocks_per_sm, 1);
  EXPECT_EQ(occupancy("L40S", 256, 0, 0).blocks_per_sm, 6);  // 1,536 threads
  EXPECT_EQ(occupancy("T4", 33, 0, 0).warps_per_block, 2);
  EXPECT_EQ(occupancy("H200", 256, 0, 228 * 1024).blocks_per_sm, 0);
  EXPECT_EQ(occupancy("H200", 256, 0, 228 * 1024).share, 0);
  EXPECT_EQ(NameOf(OccupancyLimit::kSharedMemory), "shared memory");
}

// A CPU has no such limits.
TEST(FirstBrokenLimitTest, NothingOnTheHost) {
  DeviceClass host;
  host.kind = DeviceKind::kHost;
  LaunchShape launch;
  launch.block = {std::numeric_limits<int64_t>::max(), 2, 3};
  EXPECT_EQ(FirstBrokenLimit(host, launch), "");
}

}  // namespace
}  // namespace tunefarm
