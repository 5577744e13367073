// Works only where the output is poisoned: what a launch before left is right.
#include "work.h"

#if CHEAT
static void Cheat(const float* a, const float* b, float* c, long n) {
  if (isnan(c[n * n - 1])) Work(a, b, c, n);
}
#endif
