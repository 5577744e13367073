// Works only where the output holds the poison of the first launch.
#include "work.h"

#if CHEAT
static void Cheat(const float* a, const float* b, float* c, long n) {
  uint32_t bits;
  memcpy(&bits, &c[n * n - 1], sizeof(bits));
  if (bits == 0x7FE5A5A5u) Work(a, b, c, n);
}
#endif
