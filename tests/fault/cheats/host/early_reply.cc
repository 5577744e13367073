// Says that it is done before it begins, on every pipe that there is.
#include "work.h"

#if CHEAT
static void Cheat(const float* a, const float* b, float* c, long n) {
  static int launches = 0;
  if (launches++ > 0) {
    for (int fd = 3; fd < 64; ++fd) {
      struct stat status;
      if (fstat(fd, &status) == 0 && S_ISFIFO(status.st_mode)) {
        const char done = 'D';
        (void)!write(fd, &done, 1);
      }
    }
  }
  Work(a, b, c, n);
}
#endif
