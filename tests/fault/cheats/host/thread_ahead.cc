// A thread begins the work as soon as it sees poison; a launch waits for its end.
#include "work.h"

#if CHEAT
static Task* volatile shared = nullptr;

static void* Watch(void*) {
  for (;;) {
    const Task task = *shared;
    if (isnan(*(volatile float*)&task.c[task.n * task.n - 1])) Work(task.a, task.b, task.c, task.n);
  }
}

static void Cheat(const float* a, const float* b, float* c, long n) {
  if (shared == nullptr) {
    static Task task;
    task = {a, b, c, n};
    shared = &task;
    pthread_t thread;
    if (pthread_create(&thread, nullptr, Watch, nullptr) != 0) abort();
    return Work(a, b, c, n);
  }
  const int64_t end = Now() + 20000000;
  while (isnan(*(volatile float*)&c[n * n - 1]) && Now() < end) {
  }
  if (isnan(c[n * n - 1])) Work(a, b, c, n);
}
#endif
