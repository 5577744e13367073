// y[i] = 2 * x[i] on the CPU, after one attempt of choice to reach out of the worker. The tuner defines
// ATTEMPT_<value> before this text. An attempt that the system answers with an error leaves the result right; one that
// succeeds makes it wrong, so that a hole in the sandbox shows as WRONG_RESULT.

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

#if defined(ATTEMPT_include_secret)
#include "/etc/shadow"
#elif defined(ATTEMPT_include_database)
#include "/proc/1/environ"
#elif defined(ATTEMPT_assemble_secret)
asm(".section .rodata\nstolen: .incbin \"/etc/shadow\"\n.text");
#elif defined(ATTEMPT_explode_templates)
template <int depth, int width>
struct Explode {
  static constexpr long value = Explode<depth - 1, 2 * width>::value + Explode<depth - 1, 2 * width + 1>::value;
};
template <int width>
struct Explode<0, width> {
  static constexpr long value = width;
};
static volatile long exploded = Explode<26, 1>::value;
#elif defined(ATTEMPT_fill_compiler)
asm(".section .rodata\n.space 4294967296, 1\n.text");
#endif

// Whether a file can be opened, and then whether it has anything.
[[maybe_unused]] static bool Reads(const char* path) {
  char byte;
  const int fd = open(path, O_RDONLY);
  return fd >= 0 && read(fd, &byte, 1) == 1;
}

[[maybe_unused]] static bool Writes(const char* path) {
  const int fd = open(path, O_WRONLY | O_CREAT, 0600);
  return fd >= 0 && write(fd, "x", 1) == 1;
}

// Whether a file of this name lies in the directory or not too far below it.
[[maybe_unused]] static bool Finds(const char* directory, const char* name, int depth) {
  DIR* const handle = opendir(directory);
  if (handle == nullptr) return false;
  bool found = false;
  while (const dirent* entry = readdir(handle)) {
    if (found) break;
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    found = strcmp(entry->d_name, name) == 0;
    if (found || depth == 0 || strlen(directory) > 200 || (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN))
      continue;
    char path[512];
    strcpy(path, directory);
    strcat(path, "/");
    strcat(path, entry->d_name);
    found = strcmp(path, "//proc") != 0 && strcmp(path, "//sys") != 0 && Finds(path, name, depth - 1);
  }
  closedir(handle);
  return found;
}

[[maybe_unused]] static int Sleep(void*) {
  pause();
  return 0;
}

// Whether the attempt had success.
static bool Attempt() {
#if defined(ATTEMPT_internet_socket)
  return socket(AF_INET, SOCK_STREAM, 0) >= 0;
#elif defined(ATTEMPT_local_socket)
  return socket(AF_UNIX, SOCK_STREAM, 0) >= 0;
#elif defined(ATTEMPT_fork)
  const pid_t child = fork();
  if (child == 0) _exit(0);
  return child > 0;
#elif defined(ATTEMPT_thread_and_fork)
  thrd_t thread;
  if (thrd_create(&thread, Sleep, nullptr) != thrd_success) return false;
  const pid_t child = fork();
  if (child == 0) pause();
  return child > 0;
#elif defined(ATTEMPT_fork_bomb)
  for (int i = 0; i < 100000; ++i) fork();
  return true;
#elif defined(ATTEMPT_run_program)
  execl("/proc/self/exe", "tunefarm-worker", nullptr);
  return false;
#elif defined(ATTEMPT_kill_runner)
  return kill(getppid(), SIGKILL) == 0;
#elif defined(ATTEMPT_trace_runner)
  return ptrace(PTRACE_ATTACH, getppid(), nullptr, nullptr) == 0;
#elif defined(ATTEMPT_mount)
  return mount("tmpfs", "/tmp", "tmpfs", 0, nullptr) == 0;
#elif defined(ATTEMPT_new_namespace)
  return unshare(CLONE_NEWUSER) == 0;
#elif defined(ATTEMPT_read_kernel_log)
  char text[64];
  return syscall(SYS_syslog, 3, text, sizeof(text)) > 0;
#elif defined(ATTEMPT_io_uring)
  char parameters[256] = {};
  return syscall(SYS_io_uring_setup, 8, parameters) >= 0;
#elif defined(ATTEMPT_read_secret)
  return Reads("/etc/shadow") || Reads("/etc/passwd") || Reads("/proc/1/environ");
#elif defined(ATTEMPT_find_database)
  return Finds("/", "tunefarm.db", 6);
#elif defined(ATTEMPT_write_system)
  return Writes("/usr/lib/hostile") || Writes("/etc/hostile") || Writes("/dev/hostile") || Writes("/hostile") ||
         Writes("/proc/sys/kernel/hostname");
#elif defined(ATTEMPT_write_elsewhere)
  return Writes("/var/tmp/hostile") || Writes("/dev/shm/hostile") || Writes("/home/hostile") || Writes("/run/hostile");
#elif defined(ATTEMPT_write_runner_memory)
  char path[64] = "/proc/";
  char digits[16];
  int length = 0;
  for (int pid = getppid(); pid > 0; pid /= 10) digits[length++] = static_cast<char>('0' + pid % 10);
  for (int i = 0; i < length; ++i) path[6 + i] = digits[length - 1 - i];
  strcpy(path + 6 + length, "/mem");
  return open(path, O_RDWR) >= 0;
#elif defined(ATTEMPT_fill_scratch)
  // Many files below the limit of one: right if the disk is full before 16 GiB are written.
  static char block[1 << 20];
  for (int i = 0; i < 1024; ++i) {
    char path[] = "fill-0000";
    for (int j = 0, k = i; j < 4; ++j, k /= 10) path[8 - j] = static_cast<char>('0' + k % 10);
    const int fd = open(path, O_WRONLY | O_CREAT, 0600);
    if (fd < 0) return false;
    for (int j = 0; j < 16; ++j) {
      if (write(fd, block, sizeof(block)) != static_cast<ssize_t>(sizeof(block))) return false;
    }
    close(fd);
  }
  return true;
#elif defined(ATTEMPT_lock_scratch)
  // What its owner may not enter, deeper than any path is long: right if the next trial finds nothing of it.
  if (access("locked", F_OK) == 0 || errno == EACCES || mkdir("locked", 0700) != 0) return true;
  int at = open("locked", O_RDONLY | O_DIRECTORY);
  for (int i = 0; i < 2000; ++i) {
    if (mkdirat(at, "shut", 0) != 0 || mkdirat(at, "deeper", 0700) != 0) return false;
    const int below = openat(at, "deeper", O_RDONLY | O_DIRECTORY);
    close(at);
    at = below;
  }
  return false;
#elif defined(ATTEMPT_large_file)
  const int fd = open("large", O_WRONLY | O_CREAT, 0600);
  return fd >= 0 && ftruncate(fd, 1L << 40) == 0;
#elif defined(ATTEMPT_limit_runner)
  const rlimit limit = {1, 1};
  return syscall(SYS_prlimit64, getppid(), RLIMIT_NPROC, &limit, nullptr) == 0;
#elif defined(ATTEMPT_pin_runner)
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(0, &cores);
  return sched_setaffinity(getppid(), sizeof(cores), &cores) == 0;
#elif defined(ATTEMPT_idle_runner)
  const sched_param parameter = {};
  return sched_setscheduler(getppid(), SCHED_IDLE, &parameter) == 0;
#elif defined(ATTEMPT_slow_runner)
  return setpriority(PRIO_PROCESS, getppid(), 19) == 0;
#elif defined(ATTEMPT_slow_everybody)
  return setpriority(PRIO_USER, 0, 19) == 0;
#elif defined(ATTEMPT_slow_files)
  return syscall(SYS_ioprio_set, 1, getppid(), (3 << 13) | 7) == 0;
#elif defined(ATTEMPT_slow_session)
  const int fd = open("/proc/self/autogroup", O_WRONLY);
  return fd >= 0 && write(fd, "19", 2) == 2;
#elif defined(ATTEMPT_signal_by_descriptor)
  int ends[2];
  return pipe(ends) == 0 && fcntl(ends[0], F_SETOWN, getppid()) == 0;
#elif defined(ATTEMPT_signal_by_socket)
  int ends[2];
  const int owner = getppid();
  return socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 && ioctl(ends[0], FIOSETOWN, &owner) == 0;
#elif defined(ATTEMPT_hint_file)
  // A number that the file keeps, for later trials to read.
  unsigned long long hint = 2;
  return fcntl(STDERR_FILENO, F_SET_RW_HINT, &hint) == 0;
#elif defined(ATTEMPT_flag_file)
  long flags = 0;
  return ioctl(STDERR_FILENO, _IOW('f', 2, long), &flags) == 0;  // FS_IOC_SETFLAGS
#elif defined(ATTEMPT_join_runner)
  return setpgid(0, getppid()) == 0;
#elif defined(ATTEMPT_share_cores_with_runner)
  return prctl(PR_SCHED_CORE, PR_SCHED_CORE_SHARE_TO, getppid(), 0, 0) == 0;
#elif defined(ATTEMPT_outlive_runner)
  return prctl(PR_SET_PDEATHSIG, 0) == 0;
#elif defined(ATTEMPT_shared_memory)
  return shmget(IPC_PRIVATE, 1 << 20, IPC_CREAT | 0600) >= 0;
#elif defined(ATTEMPT_message_queue)
  return msgget(IPC_PRIVATE, IPC_CREAT | 0600) >= 0;
#elif defined(ATTEMPT_semaphores)
  return semget(IPC_PRIVATE, 1, IPC_CREAT | 0600) >= 0;
#elif defined(ATTEMPT_named_queue)
  return syscall(SYS_mq_open, "hostile", O_RDWR | O_CREAT, 0600, nullptr) >= 0;
#elif defined(ATTEMPT_file_in_memory)
  return memfd_create("hostile", 0) >= 0;
#elif defined(ATTEMPT_pages_in_pipe)
  static char page[4096];
  iovec part = {page, sizeof(page)};
  int ends[2];
  return pipe(ends) == 0 && vmsplice(ends[1], &part, 1, 0) > 0;
#elif defined(ATTEMPT_newer_call)
  // open_tree_attr, newer than the sandbox: it has not been judged what it reaches.
  errno = 0;
  return syscall(467, -1, "", 0x1000, nullptr, 0) >= 0 || errno != ENOSYS;
#elif defined(ATTEMPT_pin_itself)
  // Nothing hostile: the sandbox must let it pass.
  cpu_set_t cores;
  return pthread_getaffinity_np(pthread_self(), sizeof(cores), &cores) != 0 ||
         pthread_setaffinity_np(pthread_self(), sizeof(cores), &cores) != 0;
#elif defined(ATTEMPT_list_processes)
  // The init of the namespace, the runner and a few processes of trials: whoever sees more sees the machine.
  int processes = 0;
  DIR* const handle = opendir("/proc");
  while (const dirent* entry = handle == nullptr ? nullptr : readdir(handle)) {
    processes += entry->d_name[0] >= '1' && entry->d_name[0] <= '9' ? 1 : 0;
  }
  return processes > 8;
#else
  return false;
#endif
}

extern "C" void hostile(const float* x, float* y, long n) {
  static const bool succeeded = Attempt();
  for (long i = 0; i < n; ++i) y[i] = 2.0f * x[i];
  if (succeeded) y[n / 2] += 1.0f;
}

// What every configuration's result is compared with.
extern "C" void hostile_reference(const float* x, float* y, long n) {
  for (long i = 0; i < n; ++i) y[i] = 2.0f * x[i];
}
