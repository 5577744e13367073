#include <gtest/gtest.h>

#include <limits>

#include "server/device/device_class.h"

namespace tunefarm {
namespace {

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
