// Leaves the work to a thread that the next launch waits for.
#include "work.h"

#if CHEAT
static void Cheat(const float* a, const float* b, float* c, long n) {
  static int launches = 0;
  static Task task;
  static pthread_t thread;
  if (launches++ == 0) return Work(a, b, c, n);
  if (launches > 2) pthread_join(thread, nullptr);
  task = {a, b, c, n};
  if (pthread_create(&thread, nullptr, RunTask, &task) != 0) abort();
}
#endif
