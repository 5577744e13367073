// A quarter of the blocks works in each launch after the first: the grid shrinks.
#include "work.cuh"

#if CHEAT
// Launches that have begun: each block counts itself.
__device__ unsigned int blocks = 0;

__device__ unsigned int LaunchNumber() {
  __shared__ unsigned int number;
  if (threadIdx.x == 0 && threadIdx.y == 0) number = atomicAdd(&blocks, 1) / (gridDim.x * gridDim.y);
  __syncthreads();
  return number;
}

__device__ void Cheat(const float* a, const float* b, float* c, int n) {
  const unsigned int number = LaunchNumber();
  if (number == 0 || blockIdx.y % 4 == number % 4) Work(a, b, c, n);
}
#endif
