#include "server/jobs/saturating.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tunefarm {
namespace {

constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();

TEST(Saturating, StaysAtTheLargestNumber) {
  EXPECT_EQ(SaturatingAdd<int64_t>(2, 3), 5);
  EXPECT_EQ(SaturatingAdd<int64_t>(kInt64Max - 3, 3), kInt64Max);
  EXPECT_EQ(SaturatingAdd<int64_t>(kInt64Max, 1), kInt64Max);
  EXPECT_EQ(SaturatingAdd<int64_t>(kInt64Max, kInt64Max), kInt64Max);
  EXPECT_EQ(SaturatingAdd<uint64_t>(UINT64_MAX, 1), UINT64_MAX);
}

TEST(Saturating, TakesAnyDouble) {
  EXPECT_EQ(SaturatingInt64(2.9), 2);
  EXPECT_EQ(SaturatingInt64(9.2e18), int64_t{9'200'000'000'000'000'000});
  EXPECT_EQ(SaturatingInt64(9223372036854775808.0), kInt64Max);
  EXPECT_EQ(SaturatingInt64(HUGE_VAL), kInt64Max);
  EXPECT_EQ(SaturatingInt64(-1), 0);
  EXPECT_EQ(SaturatingInt64(std::nan("")), 0);
}

}  // namespace
}  // namespace tunefarm
