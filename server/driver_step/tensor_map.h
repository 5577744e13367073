// Tensor maps in the numbers of cuda.h, without it, so that a launch encodes what tuning has measured.
// server/worker/cuda/tensor_map.cc compares the numbers with cuda.h.
//
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string_view>

namespace tunefarm::driver_step {

// What cuTensorMapEncodeTiled takes at most.
inline constexpr size_t kTensorRankMax = 5;
inline constexpr int64_t kTensorExtentMax = int64_t{1} << 32;
inline constexpr int64_t kTensorStrideMax = (int64_t{1} << 40) - 1;  // bytes
inline constexpr int64_t kTensorBoxMax = 256;
inline constexpr int64_t kTensorElementStrideMax = 8;

// The names of modes, by their numbers.
inline constexpr std::string_view kSwizzles[] = {"none", "32B", "64B", "128B"};
inline constexpr std::string_view kInterleaves[] = {"none", "16B", "32B"};
inline constexpr std::string_view kL2Promotions[] = {"none", "64B", "128B", "256B"};

// -1: it is none of them.
constexpr int ModeOf(std::span<const std::string_view> names, std::string_view name) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<int>(i);
  }
  return -1;
}

// CUtensorMapDataType of a tunefarm.v1.DataType; -1: there is none. Elements of 1 byte are UINT8, F8E4M3 too.
constexpr int TensorMapTypeOf(uint32_t data_type) {
  constexpr int kTypes[] = {-1, 0, 0, 1, 1, 3, 2, 5, 4, 6, 9, 7, 8, -1, 0};
  return data_type < std::size(kTypes) ? kTypes[data_type] : -1;
}

// What a tensor map encodes but the address.
struct TensorMapValues {
  int type = 0;
  uint32_t rank = 0;
  uint64_t dims[kTensorRankMax] = {};  // innermost first
  uint64_t byte_strides[kTensorRankMax - 1] = {};
  uint32_t box[kTensorRankMax] = {}, element_strides[kTensorRankMax] = {};
  int swizzle = 0, interleave = 0, l2_promotion = 0, oob_fill = 0;
  int64_t base_offset_bytes = 0;
};

// Where the tensor begins; the offset is added with 64-bit wrap.
inline uint64_t TensorAddress(uint64_t buffer, const TensorMapValues& values) {
  return buffer + static_cast<uint64_t>(values.base_offset_bytes);
}

// `encode` is cuTensorMapEncodeTiled, by whichever declaration.
template <typename Result, typename Map, typename Type, typename Interleave, typename Swizzle, typename Promotion,
          typename Fill>
Result EncodeTensorMap(Result (*encode)(Map*, Type, uint32_t, void*, const uint64_t*, const uint64_t*, const uint32_t*,
                                        const uint32_t*, Interleave, Swizzle, Promotion, Fill),
                       const TensorMapValues& values, uint64_t address, Map* map) {
  // With a rank of 1 there are no strides, and the driver still wants an address of them: there is one.
  return encode(map, static_cast<Type>(values.type), values.rank, reinterpret_cast<void*>(address), values.dims,
                values.byte_strides, values.box, values.element_strides, static_cast<Interleave>(values.interleave),
                static_cast<Swizzle>(values.swizzle), static_cast<Promotion>(values.l2_promotion),
                static_cast<Fill>(values.oob_fill));
}

}  // namespace tunefarm::driver_step
