// Works in its first launch only.
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
  if (LaunchNumber() == 0) Work(a, b, c, n);
}
#endif
