// Stops the process that times it while it works.
#include "work.h"

#if CHEAT
#include <signal.h>

static void Cheat(const float* a, const float* b, float* c, long n) {
  kill(getppid(), SIGSTOP);
  Work(a, b, c, n);
  kill(getppid(), SIGCONT);
}
#endif
