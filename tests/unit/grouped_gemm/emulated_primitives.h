// The host's functions in the place of kernels/grouped_gemm/primitives.cuh, and what else of CUDA the kernels use.
// Included before a kernel's source, in the same namespace.
#pragma once

#define GROUPED_GEMM_PRIMITIVES_CUH  // the real ones stay out

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "server/worker/verify/half.h"
#include "tests/unit/grouped_gemm/emulated_block.h"

#define __device__
#define __global__
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(...)
#define __shared__ static
#define __grid_constant__
#define threadIdx (::tunefarm::emulated::ThreadIndex())
#define blockIdx (::tunefarm::emulated::BlockIndex())
#define blockDim (::tunefarm::emulated::BlockExtent())
#define gridDim (::tunefarm::emulated::GridExtent())

namespace {

using std::max;
using std::min;

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

inline void __syncthreads() { tunefarm::emulated::Barrier(); }

inline unsigned char* SharedMemory() { return tunefarm::emulated::SharedBytes(); }

inline unsigned SharedAddress(const void* shared) {
  return static_cast<unsigned>(static_cast<const unsigned char*>(shared) - tunefarm::emulated::SharedBytes());
}

inline void CopyChunk(unsigned shared_address, const void* global, bool inside) {
  tunefarm::emulated::Copy(shared_address, global, inside);
}

inline void CommitStage() { tunefarm::emulated::Commit(); }

template <int kPending>
inline void WaitForStage() {
  tunefarm::emulated::Wait(kPending);
}

inline unsigned Lane() { return threadIdx.x % 32; }

inline unsigned short SharedElement(unsigned address) {
  unsigned short element;
  std::memcpy(&element, tunefarm::emulated::SharedBytes() + address, sizeof(element));
  return element;
}

// Rows of eight elements; element `column` of row `row` of matrix `matrix`.
inline void LoadMatricesEither(unsigned address, bool transposed, unsigned (&values)[4]) {
  const tunefarm::emulated::Words* const lanes = tunefarm::emulated::Exchange({{address}});
  const unsigned row = Lane() / 4, column = Lane() % 4 * 2;
  for (unsigned matrix = 0; matrix < 4; ++matrix) {
    const auto element = [&](unsigned r, unsigned c) { return SharedElement(lanes[matrix * 8 + r].word[0] + c * 2); };
    const unsigned low = transposed ? element(column, row) : element(row, column);
    const unsigned high = transposed ? element(column + 1, row) : element(row, column + 1);
    values[matrix] = low | high << 16;
  }
}

inline void LoadMatrices(unsigned address, unsigned (&values)[4]) { LoadMatricesEither(address, false, values); }

inline void LoadMatricesTransposed(unsigned address, unsigned (&values)[4]) {
  LoadMatricesEither(address, true, values);
}

inline float ToFloat(unsigned short element) {
#if defined(dtype_bf16)
  return tunefarm_float_of_bits(static_cast<unsigned>(element) << 16);
#else
  return tunefarm_float_from_half(element);
#endif
}

inline unsigned short ToElement(float value) {
#if defined(dtype_bf16)
  return tunefarm_bf16_from_float(value);
#else
  return tunefarm_half_from_float(value);
#endif
}

inline unsigned PackElements(float low, float high) {
  return ToElement(low) | static_cast<unsigned>(ToElement(high)) << 16;
}

// The layouts of mma.m16n8k16 as the PTX manual draws them.
inline void MultiplyAdd(const unsigned (&a)[4], const unsigned (&b)[2], float (&sum)[4]) {
  const tunefarm::emulated::Words* const lanes = tunefarm::emulated::Exchange({{a[0], a[1], a[2], a[3], b[0], b[1]}});
  const auto half = [](unsigned word, unsigned which) {
    return ToFloat(static_cast<unsigned short>(which == 0 ? word & 0xffff : word >> 16));
  };
  const auto a_at = [&](unsigned row, unsigned term) {
    return half(lanes[row % 8 * 4 + term % 8 / 2].word[row / 8 + term / 8 * 2], term % 2);
  };
  const auto b_at = [&](unsigned term, unsigned column) {
    return half(lanes[column * 4 + term % 8 / 2].word[4 + term / 8], term % 2);
  };
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = Lane() / 4 + i / 2 * 8, column = Lane() % 4 * 2 + i % 2;
    for (unsigned term = 0; term < 16; ++term) sum[i] += a_at(row, term) * b_at(term, column);
  }
}

inline int ShuffleUp(int value, int distance) {
  const tunefarm::emulated::Words* const lanes = tunefarm::emulated::Exchange({{static_cast<unsigned>(value)}});
  const int from = static_cast<int>(Lane()) - distance;
  return from < 0 ? value : static_cast<int>(lanes[from].word[0]);
}

inline int BroadcastLast(int value) {
  return static_cast<int>(tunefarm::emulated::Exchange({{static_cast<unsigned>(value)}})[31].word[0]);
}

inline unsigned Ballot(bool vote) {
  const tunefarm::emulated::Words* const lanes = tunefarm::emulated::Exchange({{vote ? 1u : 0u}});
  unsigned votes = 0;
  for (unsigned lane = 0; lane < 32; ++lane) votes |= lanes[lane].word[0] << lane;
  return votes;
}

inline int CountBits(unsigned bits) { return __builtin_popcount(bits); }

}  // namespace
