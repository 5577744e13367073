// Computes a quarter of the rows in each launch after the first.
#include "work.h"

#if CHEAT
static void Cheat(const float* a, const float* b, float* c, long n) {
  static int launches = 0;
  const long rows = launches == 0 ? n : n / 4;
  const long first = launches == 0 ? 0 : launches % 4 * rows;
  ++launches;
  for (long i = first; i < first + rows; ++i) {
    for (long j = 0; j < n; ++j) c[i * n + j] = 0;
    for (long p = 0; p < n; ++p) {
      for (long j = 0; j < n; ++j) c[i * n + j] += a[i * n + p] * b[p * n + j];
    }
  }
}
#endif
