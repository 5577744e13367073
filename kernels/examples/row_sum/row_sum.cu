// y[i] = sum over j of x[i, j], a reduction over rows. The tuner defines BLOCK_SIZE, VECTOR_WIDTH and UNROLL before
// this text.

struct alignas(VECTOR_WIDTH * 4) Vector {
  float values[VECTOR_WIDTH];
};

// One block for each row.
extern "C" __global__ void __launch_bounds__(BLOCK_SIZE)
    row_sum(const float* __restrict__ x, float* __restrict__ y, int columns) {
  const Vector* const row = reinterpret_cast<const Vector*>(x + static_cast<long long>(blockIdx.x) * columns);
  const int vectors = columns / VECTOR_WIDTH;
  float sums[UNROLL] = {};
  for (int first = threadIdx.x; first < vectors; first += BLOCK_SIZE * UNROLL) {
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      const int i = first + u * BLOCK_SIZE;
      if (i >= vectors) break;
      const Vector vector = row[i];
#pragma unroll
      for (int j = 0; j < VECTOR_WIDTH; ++j) sums[u] += vector.values[j];
    }
  }
  float sum = 0;
#pragma unroll
  for (int u = 0; u < UNROLL; ++u) sum += sums[u];
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, lanes);
  __shared__ float of_warps[BLOCK_SIZE / 32];
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  sum = 0;
  for (int warp = 0; warp < BLOCK_SIZE / 32; ++warp) sum += of_warps[warp];
  y[blockIdx.x] = sum;
}

// What every config's result is compared with: one thread for each row, in double precision.
extern "C" __global__ void row_sum_reference(const float* x, float* y, int rows, int columns) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows) return;
  double sum = 0;
  for (int j = 0; j < columns; ++j) sum += x[static_cast<long long>(i) * columns + j];
  y[i] = static_cast<float>(sum);
}
