// What every configuration's result is compared with: plain tiles with single precision sums in the order of the terms,
// the same for all configurations. It depends on the element type and the flags alone, and finds its rows by walking
// the sizes one by one.
#pragma once

#include "group_sizes.cuh"
#include "roles.cuh"

constexpr int kReferenceTile = 64;
constexpr int kReferenceDepth = 16;

// Which rows of which group a block computes. `rows` is 0 for blocks that have none.
struct ReferenceRows {
  int group;
  int first_row;  // Of the tile, among all rows.
  int rows;       // At most kReferenceTile.
};

// The number-th tile of kReferenceTile rows, counting group after group.
__device__ __forceinline__ ReferenceRows FindReferenceRows(const GroupSizes& sizes, int experts, int number) {
  int first_row = 0;
  for (int group = 0; group < experts; ++group) {
    const int tiles = CeilDiv(sizes[group], kReferenceTile);
    if (number < tiles) {
      const int row = number * kReferenceTile;
      return {group, first_row + row, min(sizes[group] - row, kReferenceTile)};
    }
    number -= tiles;
    first_row += sizes[group];
  }
  return {0, 0, 0};
}

// One tile of C = A * B with 16 x 16 threads; each computes 4 x 4. a(i, term) and b(term, j) give the factors as floats
// for i < rows, j < columns and term < terms; store(i, j, sum) takes the result.
template <typename A, typename B, typename Store>
__device__ __forceinline__ void ReferenceTile(int rows, int columns, int terms, A a, B b, Store store) {
  __shared__ float a_tile[kReferenceDepth][kReferenceTile + 1];
  __shared__ float b_tile[kReferenceDepth][kReferenceTile + 1];
  const int thread = static_cast<int>(threadIdx.y * 16 + threadIdx.x);
  float sums[4][4] = {};
  for (int first = 0; first < terms; first += kReferenceDepth) {
    for (int i = thread; i < kReferenceTile * kReferenceDepth; i += 256) {
      const int line = i / kReferenceDepth;
      const int term = first + i % kReferenceDepth;
      a_tile[i % kReferenceDepth][line] = line < rows && term < terms ? a(line, term) : 0.0f;
      b_tile[i % kReferenceDepth][line] = line < columns && term < terms ? b(term, line) : 0.0f;
    }
    __syncthreads();
#pragma unroll 4
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
      const int row = static_cast<int>(threadIdx.y) + i * 16;
      const int column = static_cast<int>(threadIdx.x) + j * 16;
      if (row < rows && column < columns) store(row, column, sums[i][j]);
    }
  }
}

// The row of a rows x width matrix.
__device__ __forceinline__ const Element* RowOf(const Element* matrix, long long row, int width) {
  return matrix + row * width;
}

#if defined(gate_up_split) || defined(gate_up_blocks)
// The rows of W with column `column` of gate and of up.
#if defined(gate_up_blocks)
__device__ __forceinline__ int GateRow(int column) { return column / 128 * 256 + column % 128; }
__device__ __forceinline__ int UpRow(int column, int /*n*/) { return GateRow(column) + 128; }
#else
__device__ __forceinline__ int GateRow(int column) { return column; }
__device__ __forceinline__ int UpRow(int column, int n) { return n / 2 + column; }
#endif

__device__ __forceinline__ float SiluMultiplyExactly(float gate, float up) { return gate / (1.0f + expf(-gate)) * up; }
#endif

#if defined(quantize_y)
// Of the dequantised operands, before it is quantised: `values` has rows of n / 2 floats. Launched with
// ceil(n / 2 / 64) blocks in x and one for each 64 rows of a group in y.
extern "C" __global__ void __launch_bounds__(256)
    grouped_gemm_gate_up_fp8_reference(const Element* x, const Element* w, float* values, const float* x_scales,
                                       const float* w_scales, const int* m_sizes, const int* gather_indices,
                                       int experts, int n, int k, int topk, int group_ends, int scale_row_stride,
                                       int scale_block_stride) {
  const ReferenceRows tile = FindReferenceRows({m_sizes, group_ends}, experts, static_cast<int>(blockIdx.y));
  if (tile.rows == 0) return;
  const int columns = n / 2;
  const int first_column = static_cast<int>(blockIdx.x) * kReferenceTile;
  const Element* const matrix = w + static_cast<long long>(tile.group) * n * k;
  const int blocks = CeilDiv(k, kScaleBlock);
  const auto x_of = [&](int i, int term) {
    const int row = kPermuteX ? gather_indices[tile.first_row + i] / topk : tile.first_row + i;
    return ToFloat(RowOf(x, row, k)[term]) * x_scales[static_cast<long long>(row) * scale_row_stride +
                                                      static_cast<long long>(term / kScaleBlock) * scale_block_stride];
  };
  const auto w_of = [&](int row, int term) {
    const long long block_row = static_cast<long long>(tile.group) * CeilDiv(n, kScaleBlock) + row / kScaleBlock;
    return ToFloat(RowOf(matrix, row, k)[term]) * w_scales[block_row * blocks + term / kScaleBlock];
  };
  float gate[4][4] = {};  // of the results that this thread stores
  ReferenceTile(
      tile.rows, columns - first_column, k, x_of,
      [&](int term, int j) { return w_of(GateRow(first_column + j), term); },
      [&](int i, int j, float sum) { gate[i / 16][j / 16] = sum; });
  ReferenceTile(
      tile.rows, columns - first_column, k, x_of,
      [&](int term, int j) { return w_of(UpRow(first_column + j, n), term); },
      [&](int i, int j, float sum) {
        const int row = tile.first_row + i;
        const int output_row = kPermuteY ? gather_indices[row] : row;
        values[static_cast<long long>(output_row) * columns + first_column + j] =
            SiluMultiplyExactly(gate[i / 16][j / 16], sum);
      });
}
#elif GROUPED_GEMM_OP == OP_FORWARD && defined(dtype_fp8)
// Of the dequantised operands: each element times its block's scale. Launched as the last one of the forward product.
extern "C" __global__ void __launch_bounds__(256)
    grouped_gemm_forward_fp8_reference(const Element* x, const Element* w, OutElement* y, const float* x_scales,
                                       const float* w_scales, const int* m_sizes, const int* gather_indices,
                                       const float* topk_weights, int experts, int n, int k, int topk, int group_ends,
                                       int scale_row_stride, int scale_block_stride) {
  const ReferenceRows tile = FindReferenceRows({m_sizes, group_ends}, experts, static_cast<int>(blockIdx.y));
  if (tile.rows == 0) return;
  const int first_column = static_cast<int>(blockIdx.x) * kReferenceTile;
  const Element* const matrix = w + static_cast<long long>(tile.group) * n * k;
  const int blocks = CeilDiv(k, kScaleBlock);
  ReferenceTile(
      tile.rows, n - first_column, k,
      [&](int i, int term) {
        const int row = kPermuteX ? gather_indices[tile.first_row + i] / topk : tile.first_row + i;
        return ToFloat(RowOf(x, row, k)[term]) *
               x_scales[static_cast<long long>(row) * scale_row_stride +
                        static_cast<long long>(term / kScaleBlock) * scale_block_stride];
      },
      [&](int term, int j) {
        const int column = first_column + j;
        const long long block_row = static_cast<long long>(tile.group) * CeilDiv(n, kScaleBlock) + column / kScaleBlock;
        return ToFloat(RowOf(matrix, column, k)[term]) * w_scales[block_row * blocks + term / kScaleBlock];
      },
      [&](int i, int j, float sum) {
        const int row = tile.first_row + i;
        const int output_row = kPermuteY ? gather_indices[row] : row;
        if (kFuseMultiply) sum = MultiplyRounded(sum, topk_weights[output_row]);
        y[static_cast<long long>(output_row) * n + first_column + j] = ToElement(sum);
      });
}
#elif GROUPED_GEMM_OP == OP_FORWARD && (defined(gate_up_split) || defined(gate_up_blocks))
// Launched with ceil(n / 2 / 64) blocks in x and one for each 64 rows of a group in y.
extern "C" __global__ void __launch_bounds__(256)
    grouped_gemm_gate_up_reference(const Element* x, const Element* w, Element* y, const int* m_sizes,
                                   const int* gather_indices, int experts, int n, int k, int topk, int group_ends) {
  const ReferenceRows tile = FindReferenceRows({m_sizes, group_ends}, experts, static_cast<int>(blockIdx.y));
  if (tile.rows == 0) return;
  const int columns = n / 2;
  const int first_column = static_cast<int>(blockIdx.x) * kReferenceTile;
  const Element* const matrix = w + static_cast<long long>(tile.group) * n * k;
  const auto x_of = [&](int i, int term) {
    const int row = tile.first_row + i;
    return ToFloat(RowOf(x, kPermuteX ? gather_indices[row] / topk : row, k)[term]);
  };
  float gate[4][4] = {};  // of the results that this thread stores
  ReferenceTile(
      tile.rows, columns - first_column, k, x_of,
      [&](int term, int j) { return ToFloat(RowOf(matrix, GateRow(first_column + j), k)[term]); },
      [&](int i, int j, float sum) { gate[i / 16][j / 16] = sum; });
  ReferenceTile(
      tile.rows, columns - first_column, k, x_of,
      [&](int term, int j) { return ToFloat(RowOf(matrix, UpRow(first_column + j, n), k)[term]); },
      [&](int i, int j, float sum) {
        const int row = tile.first_row + i;
        const int output_row = kPermuteY ? gather_indices[row] : row;
        y[static_cast<long long>(output_row) * columns + first_column + j] =
            ToElement(SiluMultiplyExactly(gate[i / 16][j / 16], sum));
      });
}
#elif GROUPED_GEMM_OP == OP_FORWARD
// Launched with ceil(n / 64) blocks in x and one for each 64 rows of a group in y.
extern "C" __global__ void __launch_bounds__(256)
    grouped_gemm_forward_reference(const Element* x, const Element* w, Element* y, const int* m_sizes,
                                   const int* gather_indices, const float* topk_weights, int experts, int n, int k,
                                   int topk, int group_ends) {
  const ReferenceRows tile = FindReferenceRows({m_sizes, group_ends}, experts, static_cast<int>(blockIdx.y));
  if (tile.rows == 0) return;
  const int first_column = static_cast<int>(blockIdx.x) * kReferenceTile;
  const Element* const matrix = w + static_cast<long long>(tile.group) * n * k;
  ReferenceTile(
      tile.rows, n - first_column, k,
      [&](int i, int term) {
        const int row = tile.first_row + i;
        return ToFloat(RowOf(x, kPermuteX ? gather_indices[row] / topk : row, k)[term]);
      },
      [&](int term, int j) { return ToFloat(RowOf(matrix, first_column + j, k)[term]); },
      [&](int i, int j, float sum) {
        const int row = tile.first_row + i;
        const int output_row = kPermuteY ? gather_indices[row] : row;
        if (kFuseMultiply) sum = MultiplyRounded(sum, topk_weights[output_row]);
        y[static_cast<long long>(output_row) * n + first_column + j] = ToElement(sum);
      });
}
#elif GROUPED_GEMM_OP == OP_DX
// Launched with ceil(k / 64) blocks in x and one for each 64 rows of a group in y.
extern "C" __global__ void __launch_bounds__(256)
    grouped_gemm_dx_reference(const Element* dy, const Element* w, Element* dx, const int* m_sizes,
                              const int* gather_indices, int experts, int n, int k, int group_ends) {
  const ReferenceRows tile = FindReferenceRows({m_sizes, group_ends}, experts, static_cast<int>(blockIdx.y));
  if (tile.rows == 0) return;
  const int first_column = static_cast<int>(blockIdx.x) * kReferenceTile;
  const Element* const matrix = w + static_cast<long long>(tile.group) * n * k;
  ReferenceTile(
      tile.rows, k - first_column, n,
      [&](int i, int term) {
        const int row = tile.first_row + i;
        return ToFloat(RowOf(dy, kPermuteY ? gather_indices[row] : row, n)[term]);
      },
      [&](int term, int j) { return ToFloat(RowOf(matrix, term, k)[first_column + j]); },
      [&](int i, int j, float sum) {
        const int row = tile.first_row + i;
        const int output_row = kPermuteX ? gather_indices[row] : row;
        dx[static_cast<long long>(output_row) * k + first_column + j] = ToElement(sum);
      });
}
#else
// Launched with ceil(k / 64) blocks in x, ceil(n / 64) in y and one for each group in z.
extern "C" __global__ void __launch_bounds__(256)
    grouped_gemm_dw_reference(const Element* dy, const Element* x, Element* dw, const int* m_sizes,
                              const int* gather_indices, int n, int k, int topk, int group_ends) {
  const GroupSizes sizes = {m_sizes, group_ends};
  const int group = static_cast<int>(blockIdx.z);
  int first_row = 0;
  for (int before = 0; before < group; ++before) first_row += sizes[before];
  const int first_n = static_cast<int>(blockIdx.y) * kReferenceTile;
  const int first_k = static_cast<int>(blockIdx.x) * kReferenceTile;
  ReferenceTile(
      n - first_n, k - first_k, sizes[group],
      [&](int i, int term) {
        const int row = first_row + term;
        return ToFloat(RowOf(dy, kPermuteY ? gather_indices[row] : row, n)[first_n + i]);
      },
      [&](int term, int j) {
        const int row = first_row + term;
        return ToFloat(RowOf(x, kPermuteX ? gather_indices[row] / topk : row, k)[first_k + j]);
      },
      [&](int i, int j, float sum) {
        dw[(static_cast<long long>(group) * n + first_n + i) * k + first_k + j] = ToElement(sum);
      });
}
#endif
