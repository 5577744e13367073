#include "server/definition/data_type.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "server/base/status.h"

static_assert(std::endian::native == std::endian::little, "scalar arguments are passed in the device's byte order");

namespace tunefarm {
namespace {

struct TypeRow {
  v1::DataType type;
  std::string_view name;
  size_t size;
};
constexpr TypeRow kTypes[] = {
    {v1::DATA_TYPE_I8, "i8", 1},     {v1::DATA_TYPE_U8, "u8", 1},   {v1::DATA_TYPE_I16, "i16", 2},
    {v1::DATA_TYPE_U16, "u16", 2},   {v1::DATA_TYPE_I32, "i32", 4}, {v1::DATA_TYPE_U32, "u32", 4},
    {v1::DATA_TYPE_I64, "i64", 8},   {v1::DATA_TYPE_U64, "u64", 8}, {v1::DATA_TYPE_F16, "f16", 2},
    {v1::DATA_TYPE_BF16, "bf16", 2}, {v1::DATA_TYPE_F32, "f32", 4}, {v1::DATA_TYPE_F64, "f64", 8},
};

const TypeRow* FindType(v1::DataType type) {
  for (const TypeRow& row : kTypes) {
    if (row.type == type) return &row;
  }
  return nullptr;
}

template <typename T>
ScalarPlan Pack(v1::DataType type, T value) {
  ScalarPlan scalar;
  scalar.type = type;
  std::memcpy(scalar.bytes.data(), &value, sizeof(value));
  return scalar;
}

// IEEE binary16, rounded to nearest even directly from the double, so that nothing is rounded twice.
uint16_t ToHalf(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude = f * 2^exponent, 0.5 <= f < 1
  // The weight of the last of 11 significant bits; subnormals all have 2^-24.
  const int last_bit = std::max(exponent - 11, -24);
  const auto units = static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, -last_bit)));
  // A carry into the next binade comes out right by itself: the exponent field is what the addition makes of it.
  if (last_bit == -24) return static_cast<uint16_t>(sign | units);
  return static_cast<uint16_t>(sign | ((static_cast<uint32_t>(last_bit + 24) << 10) + units));
}

// The high half of the float, rounded to nearest even. The float is rounded to odd first, against double rounding.
uint16_t ToBfloat(double value) {
  auto as_float = static_cast<float>(value);
  auto bits = std::bit_cast<uint32_t>(as_float);
  if (static_cast<double>(as_float) != value) {
    if (std::fabs(static_cast<double>(as_float)) > std::fabs(value)) --bits;  // Toward zero ...
    bits |= 1;                                                                // ... and sticky.
  }
  bits += 0x7fff + ((bits >> 16) & 1);
  return static_cast<uint16_t>(bits >> 16);
}

}  // namespace

size_t SizeOf(v1::DataType type) {
  const TypeRow* row = FindType(type);
  return row == nullptr ? 0 : row->size;
}

std::string_view NameOf(v1::DataType type) {
  const TypeRow* row = FindType(type);
  return row == nullptr ? "unknown" : row->name;
}

std::optional<v1::DataType> DataTypeNamed(std::string_view name) {
  for (const TypeRow& row : kTypes) {
    if (row.name == name) return row.type;
  }
  return std::nullopt;
}

namespace definition {

bool IsKnownType(v1::DataType type) { return FindType(type) != nullptr; }

IntegerRange RangeOf(v1::DataType type) {
  const int bits = static_cast<int>(SizeOf(type)) * 8;
  const bool is_signed =
      type == v1::DATA_TYPE_I8 || type == v1::DATA_TYPE_I16 || type == v1::DATA_TYPE_I32 || type == v1::DATA_TYPE_I64;
  if (!is_signed) return {0, bits == 64 ? std::numeric_limits<uint64_t>::max() : (uint64_t{1} << bits) - 1};
  const uint64_t highest = (uint64_t{1} << (bits - 1)) - 1;
  return {-static_cast<int64_t>(highest) - 1, highest};
}

v1::Fill DefaultFill(v1::DataType type) {
  v1::Fill fill;
  if (IsFloatType(type)) {
    fill.mutable_normal()->set_deviation(1);
  } else {
    fill.mutable_uniform()->set_high(static_cast<double>(std::min<uint64_t>(255, RangeOf(type).highest)));
  }
  return fill;
}

namespace {

absl::StatusOr<ScalarPlan> EncodeFloat(v1::DataType type, double value) {
  double largest = std::numeric_limits<double>::max();
  if (type == v1::DATA_TYPE_F32) largest = std::numeric_limits<float>::max();
  if (type == v1::DATA_TYPE_F16) largest = 65'504;
  if (type == v1::DATA_TYPE_BF16) largest = 0x1.fep127;
  if (!(std::fabs(value) <= largest)) return InvalidArgument("{} is out of the range of {}", value, NameOf(type));
  switch (type) {
    case v1::DATA_TYPE_F16:
      return Pack(type, ToHalf(value));
    case v1::DATA_TYPE_BF16:
      return Pack(type, ToBfloat(value));
    case v1::DATA_TYPE_F32:
      return Pack(type, static_cast<float>(value));
    default:
      return Pack(type, value);
  }
}

}  // namespace

absl::StatusOr<ScalarPlan> EncodeScalar(v1::DataType type, const Value& value) {
  if (!IsKnownType(type)) return InvalidArgument("data type {} is unknown", static_cast<int>(type));
  if (value.is_string())
    return InvalidArgument("the string {} cannot be passed as {}", value.ToLiteral(), NameOf(type));
  if (IsFloatType(type)) {
    if (value.is_float()) return EncodeFloat(type, value.float_value());
    return EncodeFloat(type, value.is_bool() ? (value.bool_value() ? 1 : 0) : static_cast<double>(value.int_value()));
  }
  if (value.is_float()) {
    return InvalidArgument("the float {} cannot be passed as {}; write // or int()", value.ToText(), NameOf(type));
  }
  const int64_t number = value.is_bool() ? (value.bool_value() ? 1 : 0) : value.int_value();
  const IntegerRange range = RangeOf(type);
  if (number < range.lowest || (number > 0 && static_cast<uint64_t>(number) > range.highest)) {
    return InvalidArgument("{} is out of the range of {} ({} to {})", number, NameOf(type), range.lowest,
                           range.highest);
  }
  // Two's complement: the low bytes are the value in every narrower type.
  return Pack(type, number);
}

}  // namespace definition
}  // namespace tunefarm
