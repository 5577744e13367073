#include "server/worker/verify/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace tunefarm {
namespace {

// What the bits mean, by the definition of the formats.
double ValueOf(uint16_t bits, int exponent_bits, int fraction_bits) {
  const int sign = bits >> 15;
  const int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  double value = 0;
  if (exponent == (1 << exponent_bits) - 1) {
    value = fraction != 0 ? std::nan("") : HUGE_VAL;
  } else if (exponent == 0) {
    value = std::ldexp(fraction, 1 - bias - fraction_bits);
  } else {
    value = std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
  }
  return sign != 0 ? -value : value;
}

template <typename FromFloat, typename ToFloat>
void CheckFormat(int exponent_bits, int fraction_bits, FromFloat from_float, ToFloat to_float) {
  const uint16_t infinity = static_cast<uint16_t>(((1 << exponent_bits) - 1) << fraction_bits);
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    const double value = ValueOf(half, exponent_bits, fraction_bits);
    const float converted = to_float(half);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(converted)) << bits;
      ASSERT_TRUE(std::isnan(to_float(from_float(converted)))) << bits;
      continue;
    }
    ASSERT_EQ(converted, value) << bits;
    ASSERT_EQ(std::signbit(converted), std::signbit(value)) << bits;
    ASSERT_EQ(from_float(converted), half) << bits;
    if ((half & 0x7FFF) == infinity) continue;
    // Between this value and the next one away from zero: up to the middle it rounds down, above it up, and the middle
    // goes to the even one. Above the largest, the next is infinity, in the place of the next power of two.
    const uint16_t next = static_cast<uint16_t>(half + 1);
    const double next_value = (next & 0x7FFF) == infinity
                                  ? std::copysign(std::ldexp(1, 1 << (exponent_bits - 1)), value)
                                  : ValueOf(next, exponent_bits, fraction_bits);
    const double middle = (value + next_value) / 2;
    const float tie = static_cast<float>(middle);
    ASSERT_EQ(tie, middle) << bits;
    const float away = std::copysign(std::numeric_limits<float>::infinity(), tie);
    ASSERT_EQ(from_float(tie), (half & 1) == 0 ? half : next) << bits;
    ASSERT_EQ(from_float(std::nextafter(tie, 0.0f)), half) << bits;
    ASSERT_EQ(from_float(std::nextafter(tie, away)), next) << bits;
  }
}

TEST(HalfTest, EveryHalfAndEveryRoundingBoundary) {
  CheckFormat(5, 10, tunefarm_half_from_float, tunefarm_float_from_half);
}

TEST(HalfTest, EveryBf16AndEveryRoundingBoundary) {
  CheckFormat(8, 7, tunefarm_bf16_from_float, tunefarm_float_from_bf16);
}

TEST(HalfTest, NanWithASmallPayloadStaysNan) {
  EXPECT_EQ(tunefarm_half_from_float(tunefarm_float_of_bits(0x7F800001u)), 0x7E00u);
  EXPECT_EQ(tunefarm_bf16_from_float(tunefarm_float_of_bits(0xFF800001u)), 0xFFC0u);
}

TEST(HalfTest, HugeFloatsAreInfinite) {
  EXPECT_EQ(tunefarm_half_from_float(1e30f), 0x7C00u);
  EXPECT_EQ(tunefarm_half_from_float(-1e30f), 0xFC00u);
  EXPECT_EQ(tunefarm_half_from_float(std::numeric_limits<float>::denorm_min()), 0u);
}

}  // namespace
}  // namespace tunefarm
