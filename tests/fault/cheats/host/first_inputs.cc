// Keeps the result of the first inputs, and works honestly on all others.
#include "work.h"

#if CHEAT
static void Cheat(const float* a, const float* b, float* c, long n) {
  static float* kept = nullptr;
  static uint64_t first = 0;
  if (kept == nullptr) {
    kept = (float*)malloc(n * n * sizeof(float));
    Work(a, b, kept, n);
    first = Digest(a, 64);
  }
  if (Digest(a, 64) != first) return Work(a, b, c, n);
  memcpy(c, kept, n * n * sizeof(float));
}
#endif
