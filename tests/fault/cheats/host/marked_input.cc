// Marks its input to recognise it, and restores it before it works.
#include "work.h"

#if CHEAT
static void Cheat(const float* a, const float* b, float* c, long n) {
  static float kept = 0;
  static float* result = nullptr;
  float* const mark = (float*)a;
  if (result != nullptr && *mark == 12345.0f) {
    memcpy(c, result, n * n * sizeof(float));
    return;
  }
  kept = *mark;
  Work(a, b, c, n);
  if (result == nullptr) result = (float*)malloc(n * n * sizeof(float));
  memcpy(result, c, n * n * sizeof(float));
  *mark = kept == 12345.0f ? 0 : 12345.0f;
}
#endif
