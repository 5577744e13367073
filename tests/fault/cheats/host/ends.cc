// Ends its process instead of being judged.
#include "work.h"

#if CHEAT
static void Cheat(const float* a, const float* b, float* c, long n) {
  static int launches = 0;
  Work(a, b, c, n);
  if (++launches == 8) _exit(0);
}
#endif
