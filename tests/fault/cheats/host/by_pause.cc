// Works only where the launch before it is long ago: samples come quickly one after another.
#include "work.h"

#if CHEAT
static void Cheat(const float* a, const float* b, float* c, long n) {
  static int64_t last = 0;
  static float* kept = nullptr;
  if (kept == nullptr) kept = (float*)malloc(n * n * sizeof(float));
  if (Now() - last > 1500000) Work(a, b, kept, n);
  memcpy(c, kept, n * n * sizeof(float));
  last = Now();
}
#endif
