// Works only where the output is poisoned.
#include "work.cuh"

#if CHEAT
__device__ void Cheat(const float* a, const float* b, float* c, int n) {
  const float before = c[Element()];
  if (before != before) Work(a, b, c, n);
}
#endif
