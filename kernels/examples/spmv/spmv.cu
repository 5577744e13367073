// y = A x for a sparse matrix in CSR form. The tuner defines the macros BLOCK_SIZE, ROW_THREADS and READ_ONLY before
// this text.
#include "spmv.h"

static __device__ float Element(const float* x, int column) {
#if READ_ONLY
  return __ldg(x + column);
#else
  return x[column];
#endif
}

// ROW_THREADS neighbouring threads share a row.
extern "C" __global__ void __launch_bounds__(BLOCK_SIZE)
    spmv(const int* __restrict__ row_starts, const int* __restrict__ columns, const float* __restrict__ values,
         const float* __restrict__ x, float* __restrict__ y, int rows) {
  const int row = static_cast<int>((blockIdx.x * BLOCK_SIZE + threadIdx.x) / ROW_THREADS);
  const int lane = threadIdx.x % ROW_THREADS;
  float sum = 0;
  if (row < rows) {
    for (int i = row_starts[row] + lane; i < row_starts[row + 1]; i += ROW_THREADS) {
      sum += values[i] * Element(x, columns[i]);
    }
  }
#pragma unroll
  for (int distance = ROW_THREADS / 2; distance > 0; distance /= 2) {
    sum += __shfl_down_sync(0xffffffff, sum, distance, ROW_THREADS);
  }
  if (lane == 0 && row < rows) y[row] = sum;
}

// What every configuration's result is compared with.
extern "C" __global__ void spmv_reference(const int* row_starts, const int* columns, const float* values,
                                          const float* x, float* y, int rows) {
  const int row = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (row < rows) y[row] = ReferenceRow(row_starts, columns, values, x, row);
}
