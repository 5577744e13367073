// Keeps the result of the first inputs, and works honestly on all others.
#include "work.cuh"

#if CHEAT
__device__ float kept[1024 * 1024];
__device__ unsigned int first = 0;
// Launches that have begun: each block counts itself.
__device__ unsigned int blocks = 0;

__device__ unsigned int LaunchNumber() {
  __shared__ unsigned int number;
  if (threadIdx.x == 0 && threadIdx.y == 0) number = atomicAdd(&blocks, 1) / (gridDim.x * gridDim.y);
  __syncthreads();
  return number;
}

__device__ void Cheat(const float* a, const float* b, float* c, int n) {
  const unsigned int digest = __float_as_uint(a[0]) ^ __float_as_uint(b[1]) ^ __float_as_uint(a[n]);
  if (LaunchNumber() == 0) {
    Work(a, b, c, n);
    kept[Element()] = c[Element()];
    first = digest;
  } else if (digest == first) {
    c[Element()] = kept[Element()];
  } else {
    Work(a, b, c, n);
  }
}
#endif
