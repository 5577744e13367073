#include "server/measure/roofline.h"

#include <gtest/gtest.h>

namespace tunefarm {
namespace {

TEST(Roofline, LargerOfTheTwoFloorsBinds) {
  RooflineInput input{.flops = 2e9, .bytes = 1e6, .flops_per_second = 1e12, .bytes_per_second = 1e12};
  Roofline roofline = ComputeRoofline(input);
  EXPECT_DOUBLE_EQ(roofline.floor_ns, 2e6);
  EXPECT_EQ(roofline.bound, RooflineBound::kCompute);
  input.bytes = 4e9;
  roofline = ComputeRoofline(input);
  EXPECT_DOUBLE_EQ(roofline.floor_ns, 4e6);
  EXPECT_EQ(roofline.bound, RooflineBound::kMemory);
  EXPECT_DOUBLE_EQ(RooflineFraction(roofline, 8e6), 0.5);
}

TEST(Roofline, UnknownInputsGiveNoFloor) {
  EXPECT_EQ(ComputeRoofline({}).bound, RooflineBound::kUnknown);
  EXPECT_EQ(ComputeRoofline({.flops = 1e9}).floor_ns, 0);
  EXPECT_EQ(ComputeRoofline({.flops = 1e9, .bytes = 1e3, .bytes_per_second = 1e9}).bound, RooflineBound::kMemory);
  EXPECT_EQ(RooflineFraction({}, 0), 0);
}

TEST(Roofline, Rates) {
  EXPECT_DOUBLE_EQ(TeraflopsPerSecond(1e12, 1e9), 1);
  EXPECT_DOUBLE_EQ(GigabytesPerSecond(3e9, 1e9), 3);
  EXPECT_EQ(TeraflopsPerSecond(0, 1), 0);
}

}  // namespace
}  // namespace tunefarm
