#include "server/definition/data_type.h"

#include <algorithm>
#include <cmath>

#include "server/base/status.h"
#include "server/definition/field_error.h"

namespace tunefarm {

static_assert(driver_step::kI8 == uint32_t{v1::DATA_TYPE_I8} && driver_step::kU8 == uint32_t{v1::DATA_TYPE_U8});
static_assert(driver_step::kI16 == uint32_t{v1::DATA_TYPE_I16} && driver_step::kU16 == uint32_t{v1::DATA_TYPE_U16});
static_assert(driver_step::kI32 == uint32_t{v1::DATA_TYPE_I32} && driver_step::kU32 == uint32_t{v1::DATA_TYPE_U32});
static_assert(driver_step::kI64 == uint32_t{v1::DATA_TYPE_I64} && driver_step::kU64 == uint32_t{v1::DATA_TYPE_U64});
static_assert(driver_step::kF16 == uint32_t{v1::DATA_TYPE_F16} && driver_step::kBf16 == uint32_t{v1::DATA_TYPE_BF16});
static_assert(driver_step::kF8E4M3 == uint32_t{v1::DATA_TYPE_F8E4M3});
static_assert(driver_step::kF32 == uint32_t{v1::DATA_TYPE_F32} && driver_step::kF64 == uint32_t{v1::DATA_TYPE_F64});

size_t SizeOf(v1::DataType type) { return driver_step::SizeOf(type); }
std::string_view NameOf(v1::DataType type) { return driver_step::NameOf(type); }

std::optional<v1::DataType> DataTypeOfDim(std::string_view value) {
  // One spelling of each type, so that results of one problem are not filed under two values.
  if (value == "fp8") return v1::DATA_TYPE_F8E4M3;
  for (uint32_t type = driver_step::kI8; type <= driver_step::kF64; ++type) {
    if (driver_step::NameOf(type) == value) return static_cast<v1::DataType>(type);
  }
  return std::nullopt;
}

namespace definition {

bool IsKnownType(v1::DataType type) { return driver_step::IsDataType(type); }

v1::Fill DefaultFill(v1::DataType type) {
  v1::Fill fill;
  if (IsFloatType(type)) {
    fill.mutable_normal()->set_deviation(1);
  } else {
    fill.mutable_uniform()->set_high(static_cast<double>(std::min<uint64_t>(255, RangeOf(type).highest)));
  }
  return fill;
}

std::optional<double> BeyondF8E4M3(v1::DataType type, const v1::Fill& fill) {
  if (type != v1::DATA_TYPE_F8E4M3) return std::nullopt;
  for (const double value : {fill.constant().value(), fill.uniform().low(), fill.uniform().high()}) {
    if (std::fabs(value) > driver_step::kF8E4M3Largest) return value;
  }
  return std::nullopt;
}

absl::Status CheckNanFill(const std::string& path, bool oob_fill_nan, v1::DataType type) {
  if (!oob_fill_nan || type != v1::DATA_TYPE_F8E4M3) return absl::OkStatus();
  return FieldError(path + ".oob_fill_nan", kTypeMismatch,
                    "a tensor map sees {} as bytes, which have no NaN; leave it out", NameOf(type));
}

absl::StatusOr<ScalarPlan> EncodeScalar(v1::DataType type, const Value& value) {
  if (!IsKnownType(type)) return InvalidArgument("data type {} is unknown", static_cast<int>(type));
  if (value.is_string())
    return InvalidArgument("the string {} cannot be passed as {}", value.ToLiteral(), NameOf(type));
  if (value.is_float() && !IsFloatType(type)) {
    return InvalidArgument("the float {} cannot be passed as {}; write // or int()", value.ToText(), NameOf(type));
  }
  ScalarPlan scalar = {type};
  if (value.is_float()) {
    if (driver_step::EncodeScalar(type, value.float_value(), scalar.bytes.data())) return scalar;
    return InvalidArgument("{} is out of the range of {}", value.float_value(), NameOf(type));
  }
  const int64_t number = value.is_int() ? value.int_value() : int64_t{value.bool_value()};
  if (driver_step::EncodeScalar(type, number, scalar.bytes.data())) return scalar;
  if (IsFloatType(type)) return InvalidArgument("{} is out of the range of {}", number, NameOf(type));
  const IntegerRange range = RangeOf(type);
  return InvalidArgument("{} is out of the range of {} ({} to {})", number, NameOf(type), range.lowest, range.highest);
}

}  // namespace definition
}  // namespace tunefarm
