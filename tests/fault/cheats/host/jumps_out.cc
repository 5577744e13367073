// Leaves by an exception where its time would be taken.
#include "work.h"

#if CHEAT
static void Cheat(const float* a, const float* b, float* c, long n) {
  static int launches = 0;
  Work(a, b, c, n);
  if (launches++ > 4) throw 1;
}
#endif
