// Leaves the work to a thread and returns at once, after the first launch.
#include "work.h"

#if CHEAT
static void Cheat(const float* a, const float* b, float* c, long n) {
  static int launches = 0;
  static Task task;
  if (launches++ == 0) return Work(a, b, c, n);
  task = {a, b, c, n};
  pthread_t thread;
  if (pthread_create(&thread, nullptr, RunTask, &task) == 0) pthread_detach(thread);
}
#endif
