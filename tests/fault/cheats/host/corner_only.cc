// Computes what a quick look would compare: the first and the last row.
#include "work.h"

#if CHEAT
static void Cheat(const float* a, const float* b, float* c, long n) {
  static int launches = 0;
  if (launches++ == 0) return Work(a, b, c, n);
  for (long i = 0; i < n; i += n - 1) {
    for (long j = 0; j < n; ++j) {
      float sum = 0;
      for (long p = 0; p < n; ++p) sum += a[i * n + p] * b[p * n + j];
      c[i * n + j] = sum;
    }
  }
}
#endif
