// Marks its input to recognise it.
#include "work.cuh"

#if CHEAT
__device__ void Cheat(const float* a, const float* b, float* c, int n) {
  float* const mark = (float*)a;
  const bool is_known = *(volatile float*)mark == 12345.0f;
  if (!is_known) Work(a, b, c, n);
  if (Element() == 0) *mark = 12345.0f;
}
#endif
