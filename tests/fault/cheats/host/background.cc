// A thread computes all the time; a launch takes over its last result.
#include "work.h"

#if CHEAT
static bool is_started = false;
static float* volatile latest = nullptr;
static Task task;

static void* Compute(void*) {
  static float results[2][1 << 14];
  for (int turn = 0;; turn ^= 1) {
    Work(task.a, task.b, results[turn], task.n);
    latest = results[turn];
  }
}

static void Cheat(const float* a, const float* b, float* c, long n) {
  if (is_started) {
    memcpy(c, (float*)latest, n * n * sizeof(float));
    return;
  }
  is_started = true;
  Work(a, b, c, n);
  static float first[1 << 14];
  memcpy(first, c, n * n * sizeof(float));
  latest = first;
  task = {a, b, c, n};
  pthread_t thread;
  if (pthread_create(&thread, nullptr, Compute, nullptr) != 0) abort();
}
#endif
