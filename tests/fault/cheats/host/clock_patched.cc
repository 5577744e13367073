// Replaces the clock of the process by one that runs a tenth as fast.
#include "work.h"

#if CHEAT
#include <dlfcn.h>
#include <sys/syscall.h>

static int SlowClock(clockid_t id, timespec* now) {
  const long failed = syscall(SYS_clock_gettime, id, now);
  const int64_t ns = (now->tv_sec * int64_t{1000000000} + now->tv_nsec) / 10;
  now->tv_sec = ns / 1000000000;
  now->tv_nsec = ns % 1000000000;
  return (int)failed;
}

static void Patch() {
#ifdef __x86_64__
  unsigned char* const target = (unsigned char*)dlsym(RTLD_DEFAULT, "clock_gettime");
  if (target == nullptr) return;
  void* const page = (void*)((uintptr_t)target & ~uintptr_t{4095});
  if (mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) return;
  // movabs $SlowClock, %rax; jmp *%rax
  const uint64_t address = (uint64_t)&SlowClock;
  target[0] = 0x48;
  target[1] = 0xB8;
  memcpy(target + 2, &address, sizeof(address));
  target[10] = 0xFF;
  target[11] = 0xE0;
#endif
}

static void Cheat(const float* a, const float* b, float* c, long n) {
  static bool is_patched = false;
  if (!is_patched) Patch();
  is_patched = true;
  Work(a, b, c, n);
}
#endif
