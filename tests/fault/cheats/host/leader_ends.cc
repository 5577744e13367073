// Ends the first thread of its process, whose waits are known, and answers commands by another one: to samples at once.
#include "work.h"

#if CHEAT
#include <sys/syscall.h>

static Task task;
static int commands = -1, replies = -1;

static void* Serve(void*) {
  const char done = 'D';
  (void)!write(replies, &done, 1);
  uint32_t command[7];
  while (read(commands, command, sizeof(command)) == (ssize_t)sizeof(command)) {
    const bool is_sample = command[0] == 2 || command[0] == 3;
    if (!is_sample) Work(task.a, task.b, task.c, task.n);
    (void)!write(replies, &done, 1);
  }
  _exit(0);
}

static void Cheat(const float* a, const float* b, float* c, long n) {
  for (int fd = 3; fd < 64; ++fd) {
    struct stat status;
    if (fstat(fd, &status) != 0 || !S_ISFIFO(status.st_mode)) continue;
    ((fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY ? replies : commands) = fd;
  }
  Work(a, b, c, n);
  task = {a, b, c, n};
  pthread_t thread;
  if (pthread_create(&thread, nullptr, Serve, nullptr) != 0) abort();
  syscall(SYS_exit, 0);
}
#endif
