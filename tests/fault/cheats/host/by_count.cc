// Works in the launches that come before and after the samples.
#include "work.h"

#if CHEAT
static void Cheat(const float* a, const float* b, float* c, long n) {
  static int launches = 0;
  static float* kept = nullptr;
  if (kept == nullptr) kept = (float*)malloc(n * n * sizeof(float));
  ++launches;
  if (launches < 5 || launches > 60) Work(a, b, kept, n);
  memcpy(c, kept, n * n * sizeof(float));
}
#endif
