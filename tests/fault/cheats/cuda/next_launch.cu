// Does the work of the launch before it.
#include "work.cuh"

#if CHEAT
__device__ float kept[1024 * 1024];
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
  if (number > 0) c[Element()] = kept[Element()];
  const float before = c[Element()];
  Work(a, b, c, n);
  kept[Element()] = c[Element()];
  if (number == 0) c[Element()] = before;
}
#endif
