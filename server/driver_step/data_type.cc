#include "server/driver_step/data_type.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

#include "server/driver_step/e4m3.h"

static_assert(std::endian::native == std::endian::little, "scalar arguments are passed in the device's byte order");

namespace tunefarm::driver_step {
namespace {

struct TypeRow {
  const char* name;
  size_t size;
};
// By number; there is no type 13.
constexpr TypeRow kTypes[] = {{"", 0},     {"i8", 1},  {"u8", 1},  {"i16", 2}, {"u16", 2},
                              {"i32", 4},  {"u32", 4}, {"i64", 8}, {"u64", 8}, {"f16", 2},
                              {"bf16", 2}, {"f32", 4}, {"f64", 8}, {"", 0},    {"f8e4m3", 1}};
static_assert(std::size(kTypes) == kDataTypesEnd);

// IEEE binary16, rounded to nearest even directly from the double, so that nothing is rounded twice.
uint16_t ToHalf(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  int exponent = 0;
  (void)std::frexp(magnitude, &exponent);  // magnitude = f * 2^exponent, 0.5 <= f < 1
  // The weight of the last of 11 significant bits; subnormals all have 2^-24.
  const int last_bit = exponent - 11 > -24 ? exponent - 11 : -24;
  const auto units = static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, -last_bit)));
  // A carry into the next binade comes out right by itself: the exponent field is what the addition makes of it.
  if (last_bit == -24) return static_cast<uint16_t>(sign | units);
  return static_cast<uint16_t>(sign | ((static_cast<uint32_t>(last_bit + 24) << 10) + units));
}

// The high half of the float, rounded to nearest even. The float is rounded to odd first, against double rounding.
uint16_t ToBfloat(double value) {
  const auto as_float = static_cast<float>(value);
  auto bits = std::bit_cast<uint32_t>(as_float);
  if (static_cast<double>(as_float) != value) {
    if (std::fabs(static_cast<double>(as_float)) > std::fabs(value)) --bits;  // toward zero ...
    bits |= 1;                                                                // ... and sticky
  }
  bits += 0x7fff + ((bits >> 16) & 1);
  return static_cast<uint16_t>(bits >> 16);
}

template <typename T>
bool Put(T value, void* bytes) {
  std::memcpy(bytes, &value, sizeof(value));
  return true;
}

}  // namespace

size_t SizeOf(uint32_t type) { return IsDataType(type) ? kTypes[type].size : 0; }
const char* NameOf(uint32_t type) { return IsDataType(type) ? kTypes[type].name : "unknown"; }

IntegerRange RangeOf(uint32_t type) {
  const int bits = static_cast<int>(SizeOf(type)) * 8;
  const bool is_signed = type == kI8 || type == kI16 || type == kI32 || type == kI64;
  if (!is_signed) return {0, bits == 64 ? std::numeric_limits<uint64_t>::max() : (uint64_t{1} << bits) - 1};
  const uint64_t highest = (uint64_t{1} << (bits - 1)) - 1;
  return {-static_cast<int64_t>(highest) - 1, highest};
}

bool EncodeScalar(uint32_t type, int64_t value, void* bytes) {
  if (IsFloatType(type)) return EncodeScalar(type, static_cast<double>(value), bytes);
  std::memset(bytes, 0, 8);
  if (!IsDataType(type)) return false;
  const IntegerRange range = RangeOf(type);
  if (value < range.lowest || (value > 0 && static_cast<uint64_t>(value) > range.highest)) return false;
  // Two's complement: the low bytes are the value in every narrower type.
  std::memcpy(bytes, &value, SizeOf(type));
  return true;
}

bool EncodeScalar(uint32_t type, double value, void* bytes) {
  std::memset(bytes, 0, 8);
  if (!IsDataType(type) || !IsFloatType(type)) return false;
  double largest = std::numeric_limits<double>::max();
  if (type == kF32) largest = std::numeric_limits<float>::max();
  if (type == kF16) largest = 65'504;
  if (type == kBf16) largest = 0x1.fep127;
  if (type == kF8E4M3) largest = kF8E4M3Largest;
  if (!(std::fabs(value) <= largest)) return false;
  if (type == kF16) return Put(ToHalf(value), bytes);
  if (type == kBf16) return Put(ToBfloat(value), bytes);
  if (type == kF8E4M3) return Put(tunefarm_e4m3_from_double(value), bytes);
  if (type == kF32) return Put(static_cast<float>(value), bytes);
  return Put(value, bytes);
}

}  // namespace tunefarm::driver_step
