// Element types, by the numbers of tunefarm.v1.DataType, and scalars as kernels take them. It needs the C library alone
// and is compiled into libtunefarm-launch, too.
//
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tunefarm::driver_step {

enum DataType : uint32_t { kI8 = 1, kU8, kI16, kU16, kI32, kU32, kI64, kU64, kF16, kBf16, kF32, kF64, kF8E4M3 = 14 };
inline constexpr uint32_t kDataTypesEnd = kF8E4M3 + 1;  // no type has this number or a larger one
inline constexpr double kF8E4M3Largest = 448;           // of the finite values

inline constexpr bool IsDataType(uint32_t type) { return (type >= kI8 && type <= kF64) || type == kF8E4M3; }
inline constexpr bool IsFloatType(uint32_t type) { return type >= kF16; }
// Bytes of one element; 0 of what is no type.
size_t SizeOf(uint32_t type);
// "f32", "bf16", "f8e4m3", "i64", ...; "unknown".
const char* NameOf(uint32_t type);

// The smallest and largest value of an integer type.
struct IntegerRange {
  int64_t lowest = 0;
  uint64_t highest = 0;
};
IntegerRange RangeOf(uint32_t type);

// Writes the value into 8 bytes as an element of the type, little-endian, zeros behind it; floats are rounded to
// nearest even. False for a value that the type does not have, and for every float where the type is an integer's.
bool EncodeScalar(uint32_t type, int64_t value, void* bytes);
bool EncodeScalar(uint32_t type, double value, void* bytes);

}  // namespace tunefarm::driver_step
