#include "server/measure/roofline.h"

#include <gtest/gtest.h>

namespace tunefarm {
namespace {

TEST(Roofline, LargerOfTheTwoFloorsBinds) {
  RooflineInput input{.flops = 2e9, .bytes = 1e6, .flops_per_second = 1e12, .bytes_per_second = 1e12};
  EXPECT_DOUBLE_EQ(RooflineFloorNs(input), 2e6);
  input.bytes = 4e9;
  EXPECT_DOUBLE_EQ(RooflineFloorNs(input), 4e6);
}

TEST(Roofline, UnknownInputsGiveNoFloor) {
  EXPECT_EQ(RooflineFloorNs({}), 0);
  EXPECT_EQ(RooflineFloorNs({.flops = 1e9}), 0);
  EXPECT_DOUBLE_EQ(RooflineFloorNs({.flops = 1e9, .bytes = 1e3, .bytes_per_second = 1e9}), 1e3);
}

}  // namespace
}  // namespace tunefarm
