#include "server/worker/verify/fill.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "server/base/status.h"
#include "server/definition/kernel_plan.h"
#include "server/worker/verify/compare.h"

namespace tunefarm {
namespace {

using v1::DataType;

v1::Fill Uniform(double low, double high) {
  v1::Fill fill;
  fill.mutable_uniform()->set_low(low);
  fill.mutable_uniform()->set_high(high);
  return fill;
}

uint64_t ElementAt(const v1::Fill& fill, DataType type, uint64_t index, std::string_view buffer = "a",
                   uint64_t seed = 7) {
  const absl::StatusOr<TunefarmFill> planned = PlanFill(fill, type, buffer, seed);
  EXPECT_TRUE(planned.ok()) << planned.status();
  uint64_t bits = 0;
  FillElements(*planned, index, std::span(reinterpret_cast<std::byte*>(&bits), SizeOf(type)));
  return bits;
}

std::vector<double> Values(const v1::Fill& fill, DataType type, size_t count, uint64_t seed = 7) {
  const absl::StatusOr<TunefarmFill> planned = PlanFill(fill, type, "a", seed);
  EXPECT_TRUE(planned.ok()) << planned.status();
  std::vector<std::byte> bytes(count * SizeOf(type));
  FillElements(*planned, 0, bytes);
  std::vector<double> values;
  for (size_t i = 0; i < bytes.size(); i += SizeOf(type)) values.push_back(ElementToDouble(type, &bytes[i]));
  return values;
}

constexpr uint64_t kIndexes[] = {0, 1, 2, 3, 5, 10'000'000'001};

// The golden values come from an independent implementation of the text in fill_element.h.
TEST(FillTest, StreamIsFnv1a) {
  EXPECT_EQ(FillStream("a"), 0xAF63DC4C8601EC8Cu);
  EXPECT_EQ(FillStream("weights"), 0xB1494B6EF08A411Eu);
}

TEST(FillTest, UniformFloatGolden) {
  constexpr uint32_t kF32[] = {0x3F6F5913, 0xBF0552DF, 0x3E5F907B, 0x3F7F1C28, 0x3C68E926, 0xBD4FCD08};
  constexpr uint64_t kF64[] = {0x3FEDEB2261682F68, 0xBFE0AA5BD8D47E46, 0x3FCBF20F60842980,
                               0x3FEFE384F4B8701E, 0x3F8D1D24B6B44E00, 0xBFA9F9A0FF333180};
  for (size_t i = 0; i < std::size(kIndexes); ++i) {
    EXPECT_EQ(ElementAt(Uniform(-1, 1), v1::DATA_TYPE_F32, kIndexes[i]), kF32[i]) << i;
    EXPECT_EQ(ElementAt(Uniform(-1, 1), v1::DATA_TYPE_F64, kIndexes[i]), kF64[i]) << i;
  }
}

TEST(FillTest, UniformIntegerGolden) {
  constexpr int32_t kI32[] = {10, -5, 2, 10, 0, -1};
  for (size_t i = 0; i < std::size(kIndexes); ++i) {
    EXPECT_EQ(static_cast<int32_t>(ElementAt(Uniform(-10, 10), v1::DATA_TYPE_I32, kIndexes[i])), kI32[i]) << i;
  }
  constexpr uint64_t kU64[] = {0xA8C2B61857F99D88, 0xE6EED8D8637BE61A, 0xC633D1A72655E47D,
                               0x4629D6084F2E2C79, 0x7F53A027430A24C9, 0x49B98FF50DE185A0};
  for (size_t i = 0; i < std::size(kIndexes); ++i) {
    EXPECT_EQ(
        ElementAt(Uniform(0, 18446744073709551615.0), v1::DATA_TYPE_U64, kIndexes[i], "weights", 0x123456789ABCDEF0),
        kU64[i])
        << i;
  }
}

TEST(FillTest, NormalGolden) {
  constexpr double kNormal[] = {0.9446891661655077, 0.0573596943661736,  -0.8898676015232021,
                                0.50144950468689,   -1.3176515060208487, -1.7713651800416914};
  v1::Fill fill;
  fill.mutable_normal();
  for (size_t i = 0; i < std::size(kIndexes); ++i) {
    const uint64_t bits = ElementAt(fill, v1::DATA_TYPE_F32, kIndexes[i]);
    EXPECT_NEAR(tunefarm_float_of_bits(static_cast<uint32_t>(bits)), kNormal[i], 1e-5) << i;
  }
}

TEST(FillTest, NormalHasItsMeanAndDeviation) {
  v1::Fill fill;
  fill.mutable_normal()->set_mean(3);
  fill.mutable_normal()->set_deviation(2);
  for (const DataType type :
       {v1::DATA_TYPE_F8E4M3, v1::DATA_TYPE_F16, v1::DATA_TYPE_BF16, v1::DATA_TYPE_F32, v1::DATA_TYPE_F64}) {
    const std::vector<double> values = Values(fill, type, 40'000);
    double sum = 0, squares = 0, beyond_two = 0;
    for (const double value : values) {
      sum += value;
      squares += (value - 3) * (value - 3);
      beyond_two += std::fabs(value - 3) > 4 ? 1 : 0;
    }
    const double count = static_cast<double>(values.size());
    EXPECT_NEAR(sum / count, 3, 0.05) << type;
    EXPECT_NEAR(std::sqrt(squares / count), 2, 0.05) << type;
    // 7 and 7.5 are neighbours in e4m3, so that too few are above 7.
    EXPECT_NEAR(beyond_two / count, 0.0455, type == v1::DATA_TYPE_F8E4M3 ? 0.012 : 0.006) << type;
  }
}

TEST(FillTest, UniformStaysInItsInterval) {
  for (const DataType type :
       {v1::DATA_TYPE_F8E4M3, v1::DATA_TYPE_F16, v1::DATA_TYPE_BF16, v1::DATA_TYPE_F32, v1::DATA_TYPE_F64}) {
    double sum = 0;
    const std::vector<double> values = Values(Uniform(-1, 0), type, 20'000);
    for (const double value : values) {
      ASSERT_GE(value, -1) << type;
      ASSERT_LT(value, 0) << type;
      sum += value;
    }
    EXPECT_NEAR(sum / static_cast<double>(values.size()), -0.5, 0.01) << type;
  }
}

TEST(FillTest, UniformIntegersReachBothEnds) {
  std::vector<int> counts(4);
  for (const double value : Values(Uniform(-1, 2), v1::DATA_TYPE_I8, 4000)) ++counts.at(static_cast<size_t>(value + 1));
  for (const int count : counts) EXPECT_NEAR(count, 1000, 120);
}

TEST(FillTest, DefaultIsNormalAndBytes) {
  const std::vector<double> integers = Values(v1::Fill(), v1::DATA_TYPE_I32, 4000);
  for (const double value : integers) {
    ASSERT_GE(value, 0);
    ASSERT_LE(value, 255);
  }
  v1::Fill normal;
  normal.mutable_normal();
  EXPECT_EQ(Values(v1::Fill(), v1::DATA_TYPE_F32, 100), Values(normal, v1::DATA_TYPE_F32, 100));
}

TEST(FillTest, SeedsBuffersAndTypesAreIndependent) {
  EXPECT_NE(Values(Uniform(0, 1), v1::DATA_TYPE_F32, 8, 1), Values(Uniform(0, 1), v1::DATA_TYPE_F32, 8, 2));
  EXPECT_NE(ElementAt(Uniform(0, 1), v1::DATA_TYPE_F32, 0, "a"), ElementAt(Uniform(0, 1), v1::DATA_TYPE_F32, 0, "b"));
}

TEST(FillTest, AnyPieceIsThePieceOfTheWhole) {
  const absl::StatusOr<TunefarmFill> fill = PlanFill(Uniform(0, 1), v1::DATA_TYPE_F32, "a", 7);
  ASSERT_TRUE(fill.ok());
  std::vector<std::byte> whole(4 * 101), piece(4 * 50);
  FillElements(*fill, 0, whole);
  FillElements(*fill, 33, piece);
  EXPECT_EQ(std::memcmp(piece.data(), whole.data() + 4 * 33, piece.size()), 0);
}

TEST(FillTest, IotaAndConstantsConvert) {
  v1::Fill iota;
  iota.mutable_iota()->set_start(250);
  EXPECT_EQ(Values(iota, v1::DATA_TYPE_U8, 8), (std::vector<double>{250, 251, 252, 253, 254, 255, 0, 1}));
  iota.mutable_iota()->set_start(-1);
  iota.mutable_iota()->set_step(0.5);
  EXPECT_EQ(Values(iota, v1::DATA_TYPE_F16, 4), (std::vector<double>{-1, -0.5, 0, 0.5}));
  EXPECT_EQ(Values(iota, v1::DATA_TYPE_I16, 4), (std::vector<double>{-1, 0, 0, 0}));
  v1::Fill constant;
  constant.mutable_constant()->set_value(1e30);
  EXPECT_EQ(ElementAt(constant, v1::DATA_TYPE_I64, 5), 0x7FFFFFFFFFFFFFFFu);
  EXPECT_EQ(ElementAt(constant, v1::DATA_TYPE_U64, 5), 0xFFFFFFFFFFFFFFFFu);
  EXPECT_EQ(ElementAt(constant, v1::DATA_TYPE_F16, 5), 0x7C00u);
  v1::Fill zeros;
  zeros.mutable_zeros();
  EXPECT_EQ(ElementAt(zeros, v1::DATA_TYPE_F64, 5), 0u);
}

// The values of UniformFloatGolden, rounded; what would be 1 is the value below.
TEST(FillTest, F8E4M3Golden) {
  constexpr uint64_t kUniform[] = {0x37, 0xB0, 0x26, 0x37, 0x07, 0x95};
  for (size_t i = 0; i < std::size(kIndexes); ++i) {
    EXPECT_EQ(ElementAt(Uniform(-1, 1), v1::DATA_TYPE_F8E4M3, kIndexes[i]), kUniform[i]) << i;
  }
}

TEST(FillTest, F8E4M3Saturates) {
  v1::Fill iota;
  iota.mutable_iota()->set_start(416);
  iota.mutable_iota()->set_step(16);
  EXPECT_EQ(Values(iota, v1::DATA_TYPE_F8E4M3, 5), (std::vector<double>{416, 448, 448, 448, 448})) << "432 is a tie";
  v1::Fill wide;
  wide.mutable_normal()->set_deviation(1000);
  bool saturates = false;
  for (const double value : Values(wide, v1::DATA_TYPE_F8E4M3, 1000)) {
    ASSERT_LE(std::fabs(value), 448);
    saturates = saturates || std::fabs(value) == 448;
  }
  EXPECT_TRUE(saturates);
}

// Of values so small that one below zero is the smallest negative one.
TEST(FillTest, F8E4M3StepsBelowZero) {
  for (const double value : Values(Uniform(-0.0015, -0.0001), v1::DATA_TYPE_F8E4M3, 100)) {
    EXPECT_EQ(value, -0x1p-9);
  }
}

TEST(FillTest, WhatNoFormulaMakesIsRefused) {
  v1::Fill step, file, normal;
  step.set_prepare_step("layout");
  file.mutable_file()->set_path("x.npy");
  normal.mutable_normal();
  EXPECT_EQ(PlanFill(step, v1::DATA_TYPE_F32, "a", 1).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(PlanFill(file, v1::DATA_TYPE_F32, "a", 1).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(PlanFill(normal, v1::DATA_TYPE_I32, "a", 1).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(PlanFill(Uniform(1, 1), v1::DATA_TYPE_F32, "a", 1).status().code(), absl::StatusCode::kInvalidArgument);
  // 1 + 2^-30 is 1 as a float: no value is at least 1 and below it... but 1 itself.
  EXPECT_TRUE(PlanFill(Uniform(1, 1 + 1e-9), v1::DATA_TYPE_F32, "a", 1).ok());
  EXPECT_FALSE(PlanFill(Uniform(1 - 1e-9, 1), v1::DATA_TYPE_F32, "a", 1).ok());
}

}  // namespace
}  // namespace tunefarm
