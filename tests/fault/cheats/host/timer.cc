// Leaves the work to the handler of a timer, after the first launch.
#include "work.h"

#if CHEAT
#include <signal.h>
#include <sys/time.h>

static Task where;

static void OnTimer(int) { Work(where.a, where.b, where.c, where.n); }

static void Cheat(const float* a, const float* b, float* c, long n) {
  static int launches = 0;
  if (launches++ == 0) {
    Work(a, b, c, n);
    where = {a, b, c, n};
    signal(SIGALRM, OnTimer);
    return;
  }
  itimerval soon = {};
  soon.it_value.tv_usec = 200;
  setitimer(ITIMER_REAL, &soon, nullptr);
}
#endif
