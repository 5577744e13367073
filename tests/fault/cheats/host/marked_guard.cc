// Leaves a mark behind its output to know that it was here.
#include "work.h"

#if CHEAT
static void Cheat(const float* a, const float* b, float* c, long n) {
  volatile float* const mark = c + n * n;
  if (*mark == 12345.0f) return;
  Work(a, b, c, n);
  *mark = 12345.0f;
}
#endif
