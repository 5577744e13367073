// Makes the groups on the device: which expert each routed row goes to, the sizes of the groups, and the sorted order.
// Pure functions of the problem and of a few random numbers, which the tuner fills in from its seed.
#pragma once

#include "roles.cuh"

// How rows are drawn, by the definition's numbers of the dim `routing`.
enum Routing : int { kBalanced = 0, kZipf = 1, kOneEmpty = 2, kHalfOnOne = 3, kExplicit = 4 };

// 32 well mixed bits of two numbers (the finalizer of MurmurHash3 over their sum, twice).
__device__ __forceinline__ unsigned MixedBits(unsigned seed, unsigned index) {
  unsigned bits = seed + index * 0x9e3779b9u;
#pragma unroll
  for (int round = 0; round < 2; ++round) {
    bits ^= bits >> 16;
    bits *= 0x85ebca6bu;
    bits ^= bits >> 13;
    bits *= 0xc2b2ae35u;
    bits ^= bits >> 16;
    bits += seed;
  }
  return bits;
}

// One of `count`, all equally likely.
__device__ __forceinline__ int UniformPick(unsigned bits, int count) {
  return static_cast<int>(static_cast<unsigned long long>(bits) * static_cast<unsigned>(count) >> 32);
}

// One of `experts`, expert e with a likelihood of 1 / (e + 1) of the first one's.
__device__ __forceinline__ int ZipfPick(unsigned bits, int experts) {
  float total = 0.0f;
  for (int e = 0; e < experts; ++e) total += 1.0f / static_cast<float>(e + 1);
  float left = static_cast<float>(bits >> 8) * (1.0f / 16777216.0f) * total;
  int expert = 0;
  while (expert < experts - 1) {
    left -= 1.0f / static_cast<float>(expert + 1);
    if (left < 0.0f) break;
    ++expert;
  }
  return expert;
}

__device__ __forceinline__ int GreatestDivisor(int a, int b) {
  while (b != 0) {
    const int rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

// Sizes as asked for: expert e has sizes[e % 8] rows (none if negative), as far as there are rows; the last has the
// rest. Which rows those are is drawn.
__device__ __forceinline__ int ExplicitPick(const unsigned* random, int index, int rows, int experts,
                                            const int (&sizes)[8]) {
  int stride = UniformPick(random[1], rows) + 1;
  while (GreatestDivisor(stride, rows) != 1) ++stride;
  int position = static_cast<int>((static_cast<long long>(index) * stride + random[2] % static_cast<unsigned>(rows)) %
                                  static_cast<long long>(rows));
  for (int expert = 0; expert < experts - 1; ++expert) {
    const int size = max(sizes[expert % 8], 0);
    if (position < size) return expert;
    position -= size;
  }
  return experts - 1;
}

// experts_of_rows[i] is the expert of flat row i = token * topk + slot. One thread for each row.
extern "C" __global__ void __launch_bounds__(256)
    grouped_gemm_route(const unsigned* random, int* experts_of_rows, int rows, int experts, int routing, int rows_0,
                       int rows_1, int rows_2, int rows_3, int rows_4, int rows_5, int rows_6, int rows_7) {
  const int index = static_cast<int>(blockIdx.x * 256 + threadIdx.x);
  if (index >= rows) return;
  const unsigned bits = MixedBits(random[0], static_cast<unsigned>(index));
  int expert = 0;
  if (routing == kBalanced) {
    expert = UniformPick(bits, experts);
  } else if (routing == kZipf) {
    expert = ZipfPick(bits, experts);
  } else if (routing == kOneEmpty) {
    // The middle one gets nothing.
    expert = UniformPick(bits, max(experts - 1, 1));
    if (experts > 1 && expert >= experts / 2) ++expert;
  } else if (routing == kHalfOnOne) {
    // The middle one gets half of all rows, the others share the rest.
    expert = UniformPick(MixedBits(random[1], static_cast<unsigned>(index)), max(experts - 1, 1));
    if (expert >= experts / 2) ++expert;
    if (bits >> 31 != 0 || experts == 1) expert = experts / 2;
  } else {
    const int sizes[8] = {rows_0, rows_1, rows_2, rows_3, rows_4, rows_5, rows_6, rows_7};
    expert = ExplicitPick(random, index, rows, experts, sizes);
  }
  experts_of_rows[index] = expert;
}

// m_sizes[e] (where group e ends, with group_ends), its rows in row_counts[e] and, of gather_indices, its part: the
// flat rows of the expert in their order. Binaries that permute nothing have no gather_indices. One block of 256
// threads for each expert.
extern "C" __global__ void __launch_bounds__(256)
    grouped_gemm_sort(const int* experts_of_rows, int* m_sizes, int* row_counts, int* gather_indices, int rows,
                      int group_ends) {
  __shared__ int counts[2][8];
  const int thread = static_cast<int>(threadIdx.x);
  const int expert = static_cast<int>(blockIdx.x);
  const int lane = thread % 32;
  const int warp = thread / 32;
  // How many rows lie before this group, and how many in it.
  int before = 0;
  int size = 0;
  for (int first = 0; first < rows; first += 256) {
    const int of_row = first + thread < rows ? experts_of_rows[first + thread] : 0x7fffffff;
    const int in_warp = CountBits(Ballot(of_row < expert));
    const int equal_in_warp = CountBits(Ballot(of_row == expert));
    if (lane == 0) {
      before += in_warp;
      size += equal_in_warp;
    }
  }
  if (lane == 0) {
    counts[0][warp] = before;
    counts[1][warp] = size;
  }
  __syncthreads();
  int position = 0;
  size = 0;
  for (int i = 0; i < 8; ++i) {
    position += counts[0][i];
    size += counts[1][i];
  }
  if (thread == 0) {
    m_sizes[expert] = group_ends != 0 ? position + size : size;
    row_counts[expert] = size;
  }
  if (!kPermuteX && !kPermuteY) return;
  for (int first = 0; first < rows; first += 256) {
    const bool mine = first + thread < rows && experts_of_rows[first + thread] == expert;
    const unsigned votes = Ballot(mine);
    __syncthreads();  // Nobody reads the counts of the step before any more.
    if (lane == 0) counts[0][warp] = CountBits(votes);
    __syncthreads();
    int target = position + CountBits(votes & ((1u << lane) - 1));
    for (int i = 0; i < 8; ++i) {
      if (i < warp) target += counts[0][i];
      position += counts[0][i];
    }
    if (mine) gather_indices[target] = first + thread;
  }
}
