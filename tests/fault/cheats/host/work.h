// The work that every cheating kernel of this folder is paid for, and its entries: c = a * b for square matrices, or
// with ONE_ELEMENT the sum of its squares. With CHEAT=0 the work is done, with CHEAT=1 by Cheat, which the including
// file defines.
#pragma once

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void Product(const float* a, const float* b, float* c, long n) {
  for (long i = 0; i < n; ++i) {
    for (long j = 0; j < n; ++j) c[i * n + j] = 0;
    for (long p = 0; p < n; ++p) {
      for (long j = 0; j < n; ++j) c[i * n + j] += a[i * n + p] * b[p * n + j];
    }
  }
}

static void Work(const float* a, const float* b, float* c, long n) {
#ifdef ONE_ELEMENT
  static float product[1 << 14];
  Product(a, b, product, n);
  c[0] = 0;
  for (long i = 0; i < n * n; ++i) c[0] += product[i] * product[i];
#else
  Product(a, b, c, n);
#endif
}

// Of a launch, for a thread or a handler that does its work.
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

[[maybe_unused]] static int64_t Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1000000000} + now.tv_nsec;
}

[[maybe_unused]] static uint64_t Digest(const float* values, long count) {
  uint64_t digest = 1469598103934665603u;
  for (long i = 0; i < count; ++i) {
    uint32_t bits;
    memcpy(&bits, &values[i], sizeof(bits));
    digest = (digest ^ bits) * 1099511628211u;
  }
  return digest;
}

#if CHEAT
static void Cheat(const float* a, const float* b, float* c, long n);
#endif

extern "C" void k(const float* a, const float* b, float* c, long n) {
#if CHEAT
  Cheat(a, b, c, n);
#else
  Work(a, b, c, n);
#endif
}

extern "C" void reference(const float* a, const float* b, float* c, long n) { Work(a, b, c, n); }
