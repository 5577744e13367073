// Element types, by the numbers of tunefarm.v1.DataType, and scalars as kernels take them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "server/expression/machine.h"

namespace tunefarm::launch {

enum DataType : uint32_t { kI8 = 1, kU8, kI16, kU16, kI32, kU32, kI64, kU64, kF16, kBf16, kF32, kF64 };

inline constexpr bool IsDataType(uint32_t type) { return type >= kI8 && type <= kF64; }
inline constexpr bool IsFloatType(uint32_t type) { return type >= kF16; }
// Bytes of one element.
size_t SizeOf(uint32_t type);
// "f32", "bf16", "i64", ...
const char* NameOf(uint32_t type);

// Writes the value into 8 bytes as an element of the type, zeros behind it, by the rules of
// server/definition/data_type.cc: floats are rounded to nearest even, a float is no int. False for a value that the
// type does not have.
bool EncodeScalar(uint32_t type, const expression::Cell& value, void* bytes);

}  // namespace tunefarm::launch
