#include "server/worker/verify/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace tunefarm {
namespace {

using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <typename T>
std::vector<std::byte> BytesOf(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <typename T>
constexpr v1::DataType kTypeOf = v1::DATA_TYPE_F64;
template <>
constexpr v1::DataType kTypeOf<float> = v1::DATA_TYPE_F32;
template <>
constexpr v1::DataType kTypeOf<uint8_t> = v1::DATA_TYPE_U8;
template <>
constexpr v1::DataType kTypeOf<int32_t> = v1::DATA_TYPE_I32;
template <>
constexpr v1::DataType kTypeOf<int64_t> = v1::DATA_TYPE_I64;
template <>
constexpr v1::DataType kTypeOf<uint64_t> = v1::DATA_TYPE_U64;

template <typename T>
Verdict Check(const std::vector<T>& actual, const std::vector<T>& expected, const TolerancePlan& tolerance = {},
              std::optional<PoisonPattern> poison = std::nullopt) {
  return Judge({Compare("c", kTypeOf<T>, BytesOf(actual), BytesOf(expected), poison, tolerance)}, tolerance);
}

float PoisonedFloat(PoisonPattern pattern = PoisonPattern::kFirst) {
  const uint64_t bits = PoisonBits(v1::DATA_TYPE_F32, pattern);
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

TolerancePlan Tolerance(double atol, double rtol) {
  TolerancePlan tolerance;
  tolerance.atol = atol;
  tolerance.rtol = rtol;
  return tolerance;
}

TEST(CompareTest, ToleranceTable) {
  struct Case {
    double actual, expected, atol, rtol;
    bool passes;
  };
  const Case cases[] = {
      {1, 1, 0, 0, true},
      {0.0, -0.0, 0, 0, true},
      {1.5, 1, 0.5, 0, true},
      {1.5000001, 1, 0.5, 0, false},
      {-1.5, -1, 0.5, 0, true},
      {110, 100, 0, 0.1, true},
      {111, 100, 0, 0.1, false},
      {-110, -100, 0, 0.1, true},
      {100, 110, 0, 0.1, true},
      // Relative to the reference, not to the output.
      {0, 1, 0, 0.99, false},
      {1.9, 1, 0, 0.99, true},
      {1e-6, 0, 1e-5, 1e-5, true},
      {kInfinity, kInfinity, 0, 0, true},
      {-kInfinity, kInfinity, 1, 1, false},
      {1, kInfinity, 1, 1, false},
      {kInfinity, 1, 1, 1, false},
      {kNan, 1, 1, 1, false},
      {1, kNan, 1, 1, false},
      {kNan, kNan, 1, 1, false},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(Check<double>({c.actual}, {c.expected}, Tolerance(c.atol, c.rtol)).passed, c.passes)
        << c.actual << " against " << c.expected << " atol " << c.atol << " rtol " << c.rtol;
  }
}

TEST(CompareTest, IntegersAreExactAndIgnoreTheRelativeTolerance) {
  EXPECT_TRUE(Check<int32_t>({-5, 7}, {-5, 7}).passed);
  EXPECT_FALSE(Check<int32_t>({1'000'001}, {1'000'000}, Tolerance(0, 0.5)).passed);
  EXPECT_TRUE(Check<int32_t>({-1}, {0}, Tolerance(1, 0)).passed);
  EXPECT_FALSE(Check<int32_t>({-2}, {0}, Tolerance(1, 0)).passed);
  // Equal as doubles.
  const int64_t large = (int64_t{1} << 60) + 1;
  EXPECT_FALSE(Check<int64_t>({large + 1}, {large}).passed);
  EXPECT_TRUE(Check<int64_t>({large + 1}, {large}, Tolerance(1, 0)).passed);
  EXPECT_FALSE(Check<int64_t>({std::numeric_limits<int64_t>::max()}, {std::numeric_limits<int64_t>::min()}).passed);
  EXPECT_FALSE(Check<uint64_t>({0}, {~uint64_t{0}}).passed);
}

TEST(CompareTest, ReportsTheFirstEightAndTheLargestErrors) {
  std::vector<float> expected(100, 4), actual(100, 4);
  for (int i = 10; i < 30; ++i) actual[static_cast<size_t>(i)] = 5;
  actual[29] = 8;
  const Verdict verdict = Check(actual, expected);
  EXPECT_FALSE(verdict.passed);
  EXPECT_EQ(verdict.message, "c[10] is 5, but the reference has 4 (20 of 100 elements differ, by at most 4).");
  EXPECT_EQ(verdict.verification.elements(), 100u);
  EXPECT_EQ(verdict.verification.mismatches(), 20u);
  EXPECT_EQ(verdict.verification.max_absolute_error(), 4);
  EXPECT_EQ(verdict.verification.max_relative_error(), 1);
  ASSERT_EQ(verdict.verification.first_mismatches_size(), 8);
  EXPECT_EQ(verdict.verification.first_mismatches(0).index(), 10u);
  EXPECT_EQ(verdict.verification.first_mismatches(7).index(), 17u);
  EXPECT_EQ(verdict.verification.first_mismatches(7).buffer(), "c");
  EXPECT_EQ(verdict.verification.first_mismatches(7).actual(), 5);
  EXPECT_EQ(verdict.verification.first_mismatches(7).expected(), 4);
}

TEST(CompareTest, AFractionMayMiss) {
  TolerancePlan tolerance = Tolerance(0, 0);
  tolerance.max_mismatch_fraction = 0.02;
  std::vector<float> expected(100, 4), actual(100, 4);
  actual[3] = actual[50] = 5;
  const Verdict verdict = Check(actual, expected, tolerance);
  EXPECT_TRUE(verdict.passed);
  EXPECT_TRUE(verdict.message.empty());
  EXPECT_EQ(verdict.verification.mismatches(), 2u);
  actual[60] = 5;
  EXPECT_FALSE(Check(actual, expected, tolerance).passed);
}

TEST(CompareTest, NothingExcusesNanUnwrittenOrCatastrophicElements) {
  TolerancePlan tolerance = Tolerance(0, 0);
  tolerance.max_mismatch_fraction = 0.5;
  std::vector<float> expected(100, 4), actual(100, 4);
  actual[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(Check(actual, expected, tolerance).passed);
  actual[3] = PoisonedFloat();
  EXPECT_THAT(Check(actual, expected, tolerance, PoisonPattern::kFirst).message, HasSubstr("c[3] was never written"));
  actual[3] = 12;
  EXPECT_TRUE(Check(actual, expected, tolerance).passed);
  tolerance.catastrophic_bound = 1.5;
  EXPECT_FALSE(Check(actual, expected, tolerance).passed);
  tolerance.catastrophic_bound = 2;
  EXPECT_TRUE(Check(actual, expected, tolerance).passed);
}

TEST(CompareTest, CatastrophicBoundIgnoresPoisonAndInfinity) {
  TolerancePlan tolerance = Tolerance(100, 0);
  tolerance.catastrophic_bound = 1;
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(Check<float>({infinity, 3}, {infinity, 1}, tolerance).passed);
  EXPECT_TRUE(Check<float>({infinity, 2}, {infinity, 1}, tolerance).passed);
}

TEST(CompareTest, WhatTheReferenceLeavesMustStay) {
  for (const PoisonPattern pattern : {PoisonPattern::kFirst, PoisonPattern::kSecond}) {
    const float poison = PoisonedFloat(pattern);
    EXPECT_TRUE(Check<float>({poison, 1}, {poison, 1}, {}, pattern).passed);
    EXPECT_THAT(Check<float>({7, 1}, {poison, 1}, {}, pattern).message,
                HasSubstr("c[0] was written (7), but the reference leaves it untouched"));
    // Another NaN is a write, too.
    EXPECT_FALSE(Check<float>({std::numeric_limits<float>::quiet_NaN(), 1}, {poison, 1}, {}, pattern).passed);
  }
  // What was poison under the other pattern is an ordinary NaN.
  EXPECT_FALSE(Check<float>({PoisonedFloat(PoisonPattern::kFirst)}, {PoisonedFloat(PoisonPattern::kFirst)}, {},
                            PoisonPattern::kSecond)
                   .passed);
}

TEST(CompareTest, AnIntegerMayHaveThePoisonsValue) {
  EXPECT_TRUE(Check<uint8_t>({0xA5, 1}, {0xA5, 1}, {}, PoisonPattern::kFirst).passed);
  EXPECT_THAT(Check<uint8_t>({0xA5, 1}, {3, 1}, {}, PoisonPattern::kFirst).message, HasSubstr("was never written"));
  EXPECT_FALSE(Check<uint8_t>({3, 1}, {0xA5, 1}, {}, PoisonPattern::kFirst).passed);
}

TEST(CompareTest, WhatNoRunLeftHoldsNoPoison) {
  const auto check = [](const std::vector<uint8_t>& actual, const std::vector<uint8_t>& expected, double atol,
                        PoisonPattern poison) {
    const TolerancePlan tolerance = Tolerance(atol, 0);
    return Judge({Compare("c", v1::DATA_TYPE_U8, BytesOf(actual), BytesOf(expected), poison, tolerance, true)},
                 tolerance);
  };
  EXPECT_TRUE(check({0xA4, 1}, {0xA5, 1}, 1, PoisonPattern::kFirst).passed) << "a value like others";
  EXPECT_FALSE(check({0xA3, 1}, {0xA5, 1}, 1, PoisonPattern::kFirst).passed);
  // Unwritten where that is right by chance: the other pattern tells.
  EXPECT_TRUE(check({0xA5, 1}, {0xA5, 1}, 0, PoisonPattern::kFirst).passed);
  EXPECT_THAT(check({0x5A, 1}, {0xA5, 1}, 0, PoisonPattern::kSecond).message, HasSubstr("was never written"));
  TolerancePlan bounded = Tolerance(0x80, 0);
  bounded.catastrophic_bound = 0.5;
  EXPECT_TRUE(Judge({Compare("c", v1::DATA_TYPE_U8, BytesOf<uint8_t>({0xA5, 9}), BytesOf<uint8_t>({0xA5, 1}),
                             PoisonPattern::kFirst, bounded, true)},
                    bounded)
                  .passed)
      << "the largest magnitude counts";
}

TEST(CompareTest, RowNorms) {
  TolerancePlan tolerance = Tolerance(100, 0);
  tolerance.row_norm_bound = 0.1;
  tolerance.row_length = 2;
  EXPECT_TRUE(Check<double>({3, 4, 30, 40.1}, {3, 4, 30, 40}, tolerance).passed);
  const Verdict verdict = Check<double>({3, 4, 3, 5}, {3, 4, 3, 4}, tolerance);
  EXPECT_EQ(verdict.message, "row 1 of c is off by 0.2 of its norm, more than the allowed 0.1.");
  // A short last row counts; a row of zeros must be zeros.
  EXPECT_FALSE(Check<double>({3, 4, 2}, {3, 4, 1}, tolerance).passed);
  EXPECT_FALSE(Check<double>({0, 1e-9}, {0, 0}, tolerance).passed);
  EXPECT_TRUE(Check<double>({0, 0}, {0, 0}, tolerance).passed);
  // Without a row length the buffer is one row.
  tolerance.row_length = 0;
  EXPECT_FALSE(Check<double>({3, 4, 3, 5}, {3, 4, 3, 4}, tolerance).passed);
  EXPECT_TRUE(Check<double>({300, 400, 3, 5}, {300, 400, 3, 4}, tolerance).passed);
}

TEST(CompareTest, TheFirstFailingBufferIsNamed) {
  const TolerancePlan tolerance;
  const std::vector<std::byte> one = BytesOf<float>({1}), two = BytesOf<float>({2});
  const Verdict verdict = Judge({Compare("good", v1::DATA_TYPE_F32, one, one, std::nullopt, tolerance),
                                 Compare("bad", v1::DATA_TYPE_F32, one, two, std::nullopt, tolerance),
                                 Compare("worse", v1::DATA_TYPE_F32, two, one, std::nullopt, tolerance)},
                                tolerance);
  EXPECT_FALSE(verdict.passed);
  EXPECT_THAT(verdict.message, HasSubstr("bad[0] is 1, but the reference has 2"));
  EXPECT_EQ(verdict.verification.elements(), 3u);
  EXPECT_EQ(verdict.verification.mismatches(), 2u);
}

TEST(PassingConstantTest, IsFoundWhereTheReferenceVariesByNoMoreThanTheTolerance) {
  std::vector<float> reference;
  for (int i = 0; i < 100; ++i) reference.push_back(10 + 0.01f * static_cast<float>(i));
  const auto found = [&](double atol, double rtol) {
    return PassingConstant(v1::DATA_TYPE_F32, BytesOf(reference), std::nullopt, Tolerance(atol, rtol));
  };
  EXPECT_FALSE(found(0.49, 0).has_value());
  ASSERT_TRUE(found(0.5, 0).has_value());
  EXPECT_NEAR(*found(0.5, 0), 10.495, 0.01);
  EXPECT_FALSE(found(0, 0.04).has_value());
  EXPECT_TRUE(found(0, 0.05).has_value());
  // It passes indeed.
  const std::vector<float> constant(100, static_cast<float>(*found(0.5, 0)));
  EXPECT_TRUE(Check(constant, reference, Tolerance(0.5, 0)).passed);
  // What was never written does not count, nor do few elements or norms of rows.
  reference[3] = PoisonedFloat();
  EXPECT_FALSE(found(0.5, 0).has_value()) << "a NaN never passes";
  EXPECT_TRUE(
      PassingConstant(v1::DATA_TYPE_F32, BytesOf(reference), PoisonPattern::kFirst, Tolerance(0.5, 0)).has_value());
  const std::vector<float> few(15, 1.0f);
  EXPECT_FALSE(PassingConstant(v1::DATA_TYPE_F32, BytesOf(few), std::nullopt, Tolerance(1, 0)).has_value());
  TolerancePlan by_rows = Tolerance(1, 0);
  by_rows.row_norm_bound = 0.1;
  EXPECT_FALSE(PassingConstant(v1::DATA_TYPE_F32, BytesOf(constant), std::nullopt, by_rows).has_value());
  const std::vector<int32_t> counts(20, 7);
  EXPECT_EQ(PassingConstant(v1::DATA_TYPE_I32, BytesOf(counts), std::nullopt, Tolerance(0, 0)), 7);
}

// 0x38 is 1, 0x39 is 1.125, 0x7F and 0xFF are NaN and poison.
Verdict CheckF8E4M3(const std::vector<uint8_t>& actual, const std::vector<uint8_t>& expected,
                    const TolerancePlan& tolerance, std::optional<PoisonPattern> poison = std::nullopt) {
  return Judge({Compare("c", v1::DATA_TYPE_F8E4M3, BytesOf(actual), BytesOf(expected), poison, tolerance)}, tolerance);
}

TEST(CompareTest, F8E4M3IsComparedByItsValues) {
  EXPECT_TRUE(CheckF8E4M3({0x39}, {0x38}, Tolerance(0, 0.125)).passed);
  EXPECT_FALSE(CheckF8E4M3({0x3A}, {0x38}, Tolerance(0, 0.125)).passed);
  EXPECT_TRUE(CheckF8E4M3({0x80}, {0x00}, Tolerance(0, 0)).passed) << "-0 is 0";
  EXPECT_FALSE(CheckF8E4M3({0x7F}, {0x7F}, Tolerance(1, 1)).passed) << "NaN never passes";
  EXPECT_FALSE(CheckF8E4M3({0xFF}, {0x7E}, Tolerance(1000, 0)).passed);
  const Verdict verdict = CheckF8E4M3({0x38, 0xB8}, {0x38, 0x38}, Tolerance(0.5, 0));
  EXPECT_EQ(verdict.message, "c[1] is -1, but the reference has 1 (1 of 2 elements differ, by at most 2).");
  TolerancePlan rows = Tolerance(1, 0);
  rows.row_norm_bound = 0.1;
  rows.row_length = 2;
  EXPECT_THAT(CheckF8E4M3({0x38, 0x38, 0x40, 0x38}, {0x38, 0x38, 0x38, 0x38}, rows).message,
              HasSubstr("row 1 of c is off by"));
  EXPECT_TRUE(CheckF8E4M3({0x38, 0x38}, {0x38, 0x38}, rows).passed);
}

TEST(CompareTest, F8E4M3ThatWasNotWrittenMayBeNan) {
  const auto first = PoisonPattern::kFirst;
  EXPECT_TRUE(CheckF8E4M3({0x7F, 0x38}, {0x7F, 0x38}, Tolerance(0, 0), first).passed) << "left alone by both";
  EXPECT_THAT(CheckF8E4M3({0x38}, {0x7F}, Tolerance(9, 9), first).message,
              HasSubstr("but the reference leaves it untouched"));
  EXPECT_THAT(CheckF8E4M3({0x7F}, {0x38}, Tolerance(9, 9), first).message,
              HasSubstr("c[0] was never written or is NaN; the reference has 1"));
  EXPECT_THAT(CheckF8E4M3({0xFF}, {0x38}, Tolerance(9, 9), first).message, HasSubstr("nan, but the reference has 1"));
  // A NaN that the reference writes is no poison in one of the two checks.
  EXPECT_FALSE(CheckF8E4M3({0x7F}, {0x7F}, Tolerance(9, 9), PoisonPattern::kSecond).passed);
}

TEST(SecondPoisonTest, UnwrittenFloatsMoveToTheOtherPattern) {
  bool ambiguous = false;
  const std::vector<std::byte> second = ExpectedUnderSecondPoison(
      v1::DATA_TYPE_F32, BytesOf<float>({1, PoisonedFloat(PoisonPattern::kFirst)}), &ambiguous);
  EXPECT_EQ(second, BytesOf<float>({1, PoisonedFloat(PoisonPattern::kSecond)}));
  EXPECT_FALSE(ambiguous);
}

TEST(SecondPoisonTest, F8E4M3IsAmbiguous) {
  bool ambiguous = false;
  (void)ExpectedUnderSecondPoison(v1::DATA_TYPE_F8E4M3, BytesOf<uint8_t>({0x38, 0xFF}), &ambiguous);
  EXPECT_FALSE(ambiguous);
  const std::vector<std::byte> second =
      ExpectedUnderSecondPoison(v1::DATA_TYPE_F8E4M3, BytesOf<uint8_t>({0x38, 0x7F}), &ambiguous);
  EXPECT_EQ(second, BytesOf<uint8_t>({0x38, 0xFF}));
  EXPECT_TRUE(ambiguous);
}

TEST(SecondPoisonTest, IntegersAreAmbiguous) {
  bool ambiguous = false;
  (void)ExpectedUnderSecondPoison(v1::DATA_TYPE_U8, BytesOf<uint8_t>({1, 2}), &ambiguous);
  EXPECT_FALSE(ambiguous);
  (void)ExpectedUnderSecondPoison(v1::DATA_TYPE_U8, BytesOf<uint8_t>({1, 0xA5}), &ambiguous);
  EXPECT_TRUE(ambiguous);
}

}  // namespace
}  // namespace tunefarm
