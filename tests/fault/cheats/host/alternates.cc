// Works in every second launch.
#include "work.h"

#if CHEAT
static void Cheat(const float* a, const float* b, float* c, long n) {
  static int launches = 0;
  if (launches++ % 2 == 0) Work(a, b, c, n);
}
#endif
