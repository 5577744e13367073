// Each thread keeps its result for the inputs that it saw last.
#include "work.cuh"

#if CHEAT
__device__ float kept[1024 * 1024];
__device__ unsigned int seen[1024 * 1024];

__device__ void Cheat(const float* a, const float* b, float* c, int n) {
  const unsigned int digest = __float_as_uint(a[0]) ^ __float_as_uint(b[1]) ^ __float_as_uint(a[n]) | 1u;
  const long element = Element();
  if (seen[element] != digest) {
    Work(a, b, c, n);
    kept[element] = c[element];
    seen[element] = digest;
  } else {
    c[element] = kept[element];
  }
}
#endif
