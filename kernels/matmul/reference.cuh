// What every configuration's result is compared with: plain tiles and single precision sums in the order of k, the same
// for all configurations. It depends on no parameter but the data type.
#pragma once

#include "element.cuh"

constexpr int kReferenceTile = 64;
constexpr int kReferenceDepth = 16;

// Launched with 16 x 16 threads per 64 x 64 tile of C; each thread computes 4 x 4.
extern "C" __global__ void __launch_bounds__(256)
    matmul_reference(const Element* a, const Element* b, Element* c, int m, int n, int k) {
  __shared__ float a_tile[kReferenceDepth][kReferenceTile + 1];
  __shared__ float b_tile[kReferenceDepth][kReferenceTile];
  const int thread = static_cast<int>(threadIdx.y * 16 + threadIdx.x);
  const int first_row = static_cast<int>(blockIdx.y) * kReferenceTile;
  const int first_column = static_cast<int>(blockIdx.x) * kReferenceTile;
  float sums[4][4] = {};
  for (int first_k = 0; first_k < k; first_k += kReferenceDepth) {
    for (int i = thread; i < kReferenceTile * kReferenceDepth; i += 256) {
      const int a_row = first_row + i / kReferenceDepth;
      const int a_k = first_k + i % kReferenceDepth;
      a_tile[i % kReferenceDepth][i / kReferenceDepth] =
          a_row < m && a_k < k ? ToFloat(a[static_cast<long long>(a_row) * k + a_k]) : 0.0f;
      const int b_k = first_k + i / kReferenceTile;
      const int b_column = first_column + i % kReferenceTile;
      b_tile[i / kReferenceTile][i % kReferenceTile] =
          b_k < k && b_column < n ? ToFloat(b[static_cast<long long>(b_k) * n + b_column]) : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int depth = 0; depth < kReferenceDepth; ++depth) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          sums[i][j] += a_tile[depth][threadIdx.y + i * 16] * b_tile[depth][threadIdx.x + j * 16];
        }
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      const int row = first_row + static_cast<int>(threadIdx.y) + i * 16;
      const int column = first_column + static_cast<int>(threadIdx.x) + j * 16;
      if (row < m && column < n) c[static_cast<long long>(row) * n + column] = FromFloat(sums[i][j]);
    }
  }
}
