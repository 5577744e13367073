// Works in its first launch only.
#include "work.h"

#if CHEAT
static void Cheat(const float* a, const float* b, float* c, long n) {
  static bool is_done = false;
  if (!is_done) Work(a, b, c, n);
  is_done = true;
}
#endif
