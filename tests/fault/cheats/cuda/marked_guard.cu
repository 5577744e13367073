// Leaves a mark behind its output to know that it was here.
#include "work.cuh"

#if CHEAT
__device__ void Cheat(const float* a, const float* b, float* c, int n) {
  volatile float* const mark = c + (long)n * n;
  if (*mark == 12345.0f) return;
  Work(a, b, c, n);
  if (Element() == 0) *mark = 12345.0f;
}
#endif
