#include "server/driver_step/e4m3.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

namespace tunefarm {
namespace {

constexpr int kE4m3Largest = 0x7E, kE4m3Nan = 0x7F, kE4m3Sign = 0x80;
constexpr float kFloatInfinity = std::numeric_limits<float>::infinity();

// What the code without its sign means, by the definition of the format, in units of 2^-9: every value is a whole
// number of them.
int UnitsOfE4m3(int code) {
  const int exponent = code >> 3, fraction = code & 7;
  return exponent == 0 ? fraction : (8 + fraction) << (exponent - 1);
}

double ValueOfE4m3(int code) { return UnitsOfE4m3(code) / 512.0; }

TEST(E4m3Test, HasTheRangeOfTheFormat) {
  EXPECT_EQ(tunefarm_float_from_e4m3(0x01), 0x1p-9f);
  EXPECT_EQ(tunefarm_float_from_e4m3(0x07), 7 * 0x1p-9f);
  EXPECT_EQ(tunefarm_float_from_e4m3(0x08), 0x1p-6f);
  EXPECT_EQ(tunefarm_float_from_e4m3(0x38), 1.0f);
  EXPECT_EQ(tunefarm_float_from_e4m3(0xC0), -2.0f);
  EXPECT_EQ(tunefarm_float_from_e4m3(kE4m3Largest), 448.0f);
}

TEST(E4m3Test, EveryCodeAndEveryRoundingBoundary) {
  for (int code = 0; code < kE4m3Nan; ++code) {
    for (const int sign : {0, kE4m3Sign}) {
      const auto encoded = static_cast<unsigned char>(code | sign);
      const float value = tunefarm_float_from_e4m3(encoded);
      const double expected = sign != 0 ? -ValueOfE4m3(code) : ValueOfE4m3(code);
      ASSERT_EQ(value, expected) << code;
      ASSERT_EQ(std::signbit(value), sign != 0) << code;
      ASSERT_EQ(tunefarm_e4m3_from_float(value), encoded);
      ASSERT_EQ(tunefarm_e4m3_from_double(expected), encoded);
      if (code == kE4m3Largest) continue;
      // Between this value and the next one away from zero: up to the middle it rounds down, above it up, and the
      // middle goes to the even one.
      const auto next = static_cast<unsigned char>(encoded + 1);
      const double middle = std::copysign((ValueOfE4m3(code) + ValueOfE4m3(code + 1)) / 2, expected);
      const float tie = static_cast<float>(middle);
      ASSERT_EQ(tie, middle) << code;
      ASSERT_EQ(tunefarm_e4m3_from_float(tie), (code & 1) == 0 ? encoded : next) << code;
      ASSERT_EQ(tunefarm_e4m3_from_float(std::nextafter(tie, 0.0f)), encoded) << code;
      ASSERT_EQ(tunefarm_e4m3_from_float(std::nextafter(tie, std::copysign(kFloatInfinity, tie))), next) << code;
      // A float of these would be the tie: doubles are rounded once.
      ASSERT_EQ(tunefarm_e4m3_from_double(std::nextafter(middle, 0.0)), encoded) << code;
      ASSERT_EQ(tunefarm_e4m3_from_double(std::nextafter(middle, std::copysign(HUGE_VAL, middle))), next) << code;
    }
  }
}

// Every multiple of 2^-13, a sixteenth of the smallest value, against the nearest code by exact integers.
TEST(E4m3Test, IsTheNearestCodeOfAll) {
  int code = 0;
  for (int number = 0; number <= 460 * 8192; ++number) {
    const auto distance = [number](int of) { return std::abs(number - 16 * UnitsOfE4m3(of)); };
    while (code < kE4m3Largest &&
           (distance(code + 1) < distance(code) || (distance(code + 1) == distance(code) && (code & 1) != 0))) {
      ++code;
    }
    const float value = static_cast<float>(number) / 8192;
    ASSERT_EQ(tunefarm_e4m3_from_float(value), code) << value;
    ASSERT_EQ(tunefarm_e4m3_from_float(-value), code | kE4m3Sign) << value;
  }
  EXPECT_EQ(code, kE4m3Largest);
}

TEST(E4m3Test, WhatIsTooLargeSaturates) {
  for (const double value : {448.0001, 464.0, 480.0, 1e30, 1e300, HUGE_VAL}) {
    EXPECT_EQ(tunefarm_e4m3_from_double(value), kE4m3Largest) << value;
    EXPECT_EQ(tunefarm_e4m3_from_double(-value), kE4m3Largest | kE4m3Sign) << value;
  }
  EXPECT_EQ(tunefarm_e4m3_from_float(kFloatInfinity), kE4m3Largest);
  EXPECT_EQ(tunefarm_e4m3_from_float(std::numeric_limits<float>::max()), kE4m3Largest);
}

TEST(E4m3Test, WhatIsTooSmallIsZero) {
  for (const double value : {0x1p-10, 0x1p-11, 1e-30, std::numeric_limits<double>::denorm_min()}) {
    EXPECT_EQ(tunefarm_e4m3_from_double(value), 0) << value;
    EXPECT_EQ(tunefarm_e4m3_from_double(-value), kE4m3Sign) << value;
  }
}

TEST(E4m3Test, NanStaysNan) {
  EXPECT_EQ(tunefarm_e4m3_from_double(std::nan("")), kE4m3Nan);
  EXPECT_EQ(tunefarm_e4m3_from_double(-std::nan("")), kE4m3Nan | kE4m3Sign);
  for (const int code : {kE4m3Nan, kE4m3Nan | kE4m3Sign}) {
    const float value = tunefarm_float_from_e4m3(static_cast<unsigned char>(code));
    EXPECT_TRUE(std::isnan(value));
    EXPECT_EQ(std::signbit(value), code > kE4m3Nan);
    EXPECT_EQ(tunefarm_e4m3_from_float(value), code);
  }
}

}  // namespace
}  // namespace tunefarm
