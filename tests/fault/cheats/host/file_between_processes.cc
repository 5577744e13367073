// Leaves results in a file, for whatever process comes after it.
#include "work.h"

#if CHEAT
static void Cheat(const float* a, const float* b, float* c, long n) {
  char name[32];
  snprintf(name, sizeof(name), "%llx", (unsigned long long)(Digest(a, 64) ^ Digest(b, 64)));
  const size_t bytes = n * n * sizeof(float);
  int file = open(name, O_RDONLY);
  if (file >= 0 && read(file, c, bytes) == (ssize_t)bytes) {
    close(file);
    return;
  }
  if (file >= 0) close(file);
  Work(a, b, c, n);
  file = open(name, O_CREAT | O_WRONLY | O_TRUNC, 0600);
  if (file < 0) return;
  (void)!write(file, c, bytes);
  close(file);
}
#endif
