// Leaves the work to the handler of a timer, after the first launch.
#include "work.h"

#if CHEAT
#include <signal.h>
#include <sys/time.h>

struct Task {
  const float* a;
  const float* b;
  float* c;
  long n;
};

[[maybe_unused]] static void* RunTask(void* argument) {
  Task* const task = (Task*)argument;
  Work(task->a, task->b, task->c, task->n);
  return nullptr;
}

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
