// Works only where the launch before it is long ago: samples come quickly one after another.
#include "work.cuh"

#if CHEAT
__device__ float kept[1024 * 1024];
__device__ unsigned long long last = 0;
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
  unsigned long long now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  const bool is_long_ago = number == 0 || now - last > 2000000;
  if (is_long_ago) {
    Work(a, b, c, n);
    kept[Element()] = c[Element()];
  } else {
    c[Element()] = kept[Element()];
  }
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0 && blockIdx.x == gridDim.x - 1 && blockIdx.y == gridDim.y - 1) last = now;
}
#endif
