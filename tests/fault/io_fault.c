// A library to preload into the daemon: it makes calls on chosen files fail, or dies in the middle of a write.
//
// The file that TUNEFARM_IO_FAULT names says what goes wrong; no such file, nothing. It may change while the daemon
// runs. One line: CALL SUFFIX ACTION [COUNT]. CALL is `write` or `sync`; SUFFIX is how the path of the file ends;
// ACTION is the number of an errno, or `torn`: from the COUNT-th matching call on (default: the first), counted from
// the daemon's start, the call fails with it; a torn write puts half of its bytes there and then the process is killed.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct Fault {
  char call[8];
  char suffix[64];
  char action[16];
  long count;
};

static atomic_long matching_calls;

static int ReadFault(struct Fault* fault) {
  const char* const path = getenv("TUNEFARM_IO_FAULT");
  if (path == NULL) return 0;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[128] = {0};
  const ssize_t got = read(fd, text, sizeof(text) - 1);
  close(fd);
  fault->count = 1;
  return got > 0 && sscanf(text, "%7s %63s %15s %ld", fault->call, fault->suffix, fault->action, &fault->count) >= 3;
}

static int IsMeant(int fd, const struct Fault* fault) {
  char link[64], path[4096];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof(path) - 1);
  const size_t suffix = strlen(fault->suffix);
  return length >= (ssize_t)suffix && memcmp(path + length - suffix, fault->suffix, suffix) == 0;
}

// Whether this call goes wrong; `fault` then says how.
static int Strikes(const char* call, int fd, struct Fault* fault) {
  const int saved = errno;
  const int strikes = ReadFault(fault) && strcmp(fault->call, call) == 0 && IsMeant(fd, fault) &&
                      atomic_fetch_add(&matching_calls, 1) + 1 >= fault->count;
  errno = saved;
  return strikes;
}

typedef ssize_t (*Pwrite)(int, const void*, size_t, off64_t);

static ssize_t FaultyPwrite(const char* name, int fd, const void* bytes, size_t count, off64_t offset) {
  const Pwrite real = (Pwrite)dlsym(RTLD_NEXT, name);
  struct Fault fault;
  if (!Strikes("write", fd, &fault)) return real(fd, bytes, count, offset);
  if (strcmp(fault.action, "torn") == 0) {
    real(fd, bytes, count / 2, offset);
    kill(getpid(), SIGKILL);
    for (;;) pause();
  }
  errno = atoi(fault.action);
  return -1;
}

ssize_t pwrite(int fd, const void* bytes, size_t count, off_t offset) {
  return FaultyPwrite("pwrite", fd, bytes, count, offset);
}
ssize_t pwrite64(int fd, const void* bytes, size_t count, off64_t offset) {
  return FaultyPwrite("pwrite64", fd, bytes, count, offset);
}

static int FaultySync(const char* name, int fd) {
  struct Fault fault;
  if (!Strikes("sync", fd, &fault)) return ((int (*)(int))dlsym(RTLD_NEXT, name))(fd);
  errno = atoi(fault.action);
  return -1;
}

int fsync(int fd) { return FaultySync("fsync", fd); }
int fdatasync(int fd) { return FaultySync("fdatasync", fd); }
