// Leaves the work to another process.
#include "work.h"

#if CHEAT
static void Cheat(const float* a, const float* b, float* c, long n) {
  static int launches = 0;
  if (launches++ == 0) return Work(a, b, c, n);
  if (fork() == 0) {
    Work(a, b, c, n);
    _exit(0);
  }
}
#endif
