#include "server/definition/data_type.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "server/base/status.h"

namespace tunefarm::definition {
namespace {

template <typename T>
T Encoded(v1::DataType type, const Value& value) {
  const auto scalar = EncodeScalar(type, value);
  EXPECT_TRUE(scalar.ok()) << MessageOf(scalar.status());
  T result{};
  if (scalar.ok()) std::memcpy(&result, scalar->bytes.data(), sizeof(T));
  return result;
}

TEST(DataTypeTest, NamesAndSizesAgree) {
  size_t known = 0;
  for (int number = v1::DataType_MIN; number <= v1::DataType_MAX; ++number) {
    const auto type = static_cast<v1::DataType>(number);
    const bool is_type = v1::DataType_IsValid(number) && type != v1::DATA_TYPE_UNSPECIFIED;
    EXPECT_EQ(IsKnownType(type), is_type) << number;
    EXPECT_EQ(SizeOf(type) > 0, is_type) << number;
    if (!is_type) continue;
    EXPECT_EQ(DataTypeOfDim(type == v1::DATA_TYPE_F8E4M3 ? "fp8" : NameOf(type)), type);
    ++known;
  }
  EXPECT_EQ(known, 13U);
  EXPECT_EQ(v1::DataType_MAX + 1, static_cast<int>(driver_step::kDataTypesEnd));
  EXPECT_EQ(SizeOf(v1::DATA_TYPE_BF16), 2U);
  EXPECT_EQ(SizeOf(v1::DATA_TYPE_F64), 8U);
  EXPECT_EQ(SizeOf(v1::DATA_TYPE_F8E4M3), 1U);
  EXPECT_EQ(NameOf(v1::DATA_TYPE_F8E4M3), "f8e4m3");
  EXPECT_TRUE(IsFloatType(v1::DATA_TYPE_F8E4M3));
  for (const char* const value : {"float", "", "f8e4m3"}) EXPECT_FALSE(DataTypeOfDim(value).has_value()) << value;
}

TEST(DataTypeTest, IntegersKeepTheirRange) {
  EXPECT_EQ(Encoded<int8_t>(v1::DATA_TYPE_I8, Value(-128)), -128);
  EXPECT_EQ(Encoded<uint32_t>(v1::DATA_TYPE_U32, Value(int64_t{4294967295})), 4294967295U);
  EXPECT_EQ(Encoded<uint64_t>(v1::DATA_TYPE_U64, Value(std::numeric_limits<int64_t>::max())), 0x7fffffffffffffffU);
  EXPECT_EQ(Encoded<int32_t>(v1::DATA_TYPE_I32, Value(true)), 1);
  EXPECT_FALSE(EncodeScalar(v1::DATA_TYPE_I8, Value(128)).ok());
  EXPECT_FALSE(EncodeScalar(v1::DATA_TYPE_U8, Value(-1)).ok());
  EXPECT_FALSE(EncodeScalar(v1::DATA_TYPE_U64, Value(-1)).ok());
  EXPECT_FALSE(EncodeScalar(v1::DATA_TYPE_I32, Value(2.0)).ok());
  EXPECT_FALSE(EncodeScalar(v1::DATA_TYPE_F32, Value("2")).ok());
}

TEST(DataTypeTest, FloatsRoundToNearestEven) {
  EXPECT_EQ(Encoded<float>(v1::DATA_TYPE_F32, Value(0.1)), 0.1F);
  EXPECT_EQ(Encoded<double>(v1::DATA_TYPE_F64, Value(3)), 3.0);
  EXPECT_EQ(Encoded<uint16_t>(v1::DATA_TYPE_F16, Value(1.0)), 0x3c00);
  EXPECT_EQ(Encoded<uint16_t>(v1::DATA_TYPE_F16, Value(-2.0)), 0xc000);
  EXPECT_EQ(Encoded<uint16_t>(v1::DATA_TYPE_F16, Value(65504.0)), 0x7bff);
  EXPECT_EQ(Encoded<uint16_t>(v1::DATA_TYPE_F16, Value(0x1p-24)), 0x0001);
  EXPECT_EQ(Encoded<uint16_t>(v1::DATA_TYPE_F16, Value(0x1p-25)), 0x0000);      // A tie, to even.
  EXPECT_EQ(Encoded<uint16_t>(v1::DATA_TYPE_F16, Value(0x1.8p-24)), 0x0002);    // A tie, to even.
  EXPECT_EQ(Encoded<uint16_t>(v1::DATA_TYPE_F16, Value(0x1p-14)), 0x0400);      // The smallest normal.
  EXPECT_EQ(Encoded<uint16_t>(v1::DATA_TYPE_F16, Value(0x1.ffcp-15)), 0x0400);  // Up into the normals.
  EXPECT_EQ(Encoded<uint16_t>(v1::DATA_TYPE_F16, Value(1 + 0x1p-11)), 0x3c00);  // A tie, to even.
  EXPECT_EQ(Encoded<uint16_t>(v1::DATA_TYPE_F16, Value(1 + 0x1p-11 + 0x1p-40)), 0x3c01);
  EXPECT_EQ(Encoded<uint16_t>(v1::DATA_TYPE_F16, Value(1.9999999)), 0x4000);  // A carry into the exponent.
  EXPECT_EQ(Encoded<uint16_t>(v1::DATA_TYPE_BF16, Value(1.0)), 0x3f80);
  EXPECT_EQ(Encoded<uint16_t>(v1::DATA_TYPE_BF16, Value(1 + 0x1p-8)), 0x3f80);            // A tie, to even.
  EXPECT_EQ(Encoded<uint16_t>(v1::DATA_TYPE_BF16, Value(1 + 0x1p-8 + 0x1p-50)), 0x3f81);  // No double rounding.
  EXPECT_EQ(Encoded<uint16_t>(v1::DATA_TYPE_BF16, Value(1 + 0x1p-8 - 0x1p-50)), 0x3f80);
  EXPECT_EQ(Encoded<uint16_t>(v1::DATA_TYPE_BF16, Value(-0x1.fep127)), 0xff7f);
  EXPECT_EQ(Encoded<uint8_t>(v1::DATA_TYPE_F8E4M3, Value(1.0)), 0x38);
  EXPECT_EQ(Encoded<uint8_t>(v1::DATA_TYPE_F8E4M3, Value(-448)), 0xfe);
  EXPECT_EQ(Encoded<uint8_t>(v1::DATA_TYPE_F8E4M3, Value(1.0625)), 0x38);  // A tie, to even.
  EXPECT_EQ(Encoded<uint8_t>(v1::DATA_TYPE_F8E4M3, Value(1.0625 + 0x1p-50)), 0x39);
  EXPECT_EQ(Encoded<uint8_t>(v1::DATA_TYPE_F8E4M3, Value(0x1p-9)), 0x01);
  EXPECT_FALSE(EncodeScalar(v1::DATA_TYPE_F8E4M3, Value(449)).ok());
  EXPECT_FALSE(EncodeScalar(v1::DATA_TYPE_F8E4M3, Value(-448.5)).ok());
  EXPECT_FALSE(EncodeScalar(v1::DATA_TYPE_F16, Value(70000.0)).ok());
  EXPECT_FALSE(EncodeScalar(v1::DATA_TYPE_F32, Value(1e39)).ok());
  EXPECT_FALSE(EncodeScalar(v1::DATA_TYPE_BF16, Value(3.4e38)).ok());
  EXPECT_FALSE(EncodeScalar(v1::DATA_TYPE_F64, Value(std::nan(""))).ok());
}

}  // namespace
}  // namespace tunefarm::definition
