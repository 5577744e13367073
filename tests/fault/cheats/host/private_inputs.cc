// Lays memory of its own over an input, so that nobody can give it other inputs.
#include "work.h"

#if CHEAT
static void Cheat(const float* a, const float* b, float* c, long n) {
  static float* kept = nullptr;
  const size_t bytes = n * n * sizeof(float);
  if (kept == nullptr) {
    kept = (float*)malloc(bytes);
    Work(a, b, kept, n);
    static float copy[1 << 14];
    memcpy(copy, a, bytes);
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    if (mmap((void*)a, bytes, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED) abort();
    memcpy((void*)a, copy, bytes);
  }
  memcpy(c, kept, bytes);
}
#endif
