// NVML's library for tests, found by LD_LIBRARY_PATH, with any GPU that is asked for. Its state is in files of the
// folder from which it was loaded, which a symbolic link may be: "clock" has the MHz that are held (0: none), "calls" a
// line for each change; while "denied" exists no clock may be changed.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { kSuccess = 0, kNoPermission = 4, kUnknownError = 999, kMaxClockMhz = 1980 };

static int g_device;

static void PathOf(const char* name, char* path, size_t size) {
  Dl_info info;
  const char* own = dladdr(&g_device, &info) != 0 ? info.dli_fname : "";
  const char* slash = strrchr(own, '/');
  snprintf(path, size, "%.*s/%s", slash == NULL ? 0 : (int)(slash - own), own, name);
}

static int Write(const char* name, int flags, const char* text) {
  char path[4096];
  PathOf(name, path, sizeof(path));
  const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);
  if (fd < 0) return kUnknownError;
  const int written = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
  return close(fd) == 0 && written ? kSuccess : kUnknownError;
}

static int Change(unsigned int mhz, const char* call) {
  char path[4096], clock[32];
  PathOf("denied", path, sizeof(path));
  if (access(path, F_OK) == 0) return kNoPermission;
  snprintf(clock, sizeof(clock), "%u\n", mhz);
  const int error = Write("clock", O_TRUNC, clock);
  return error != kSuccess ? error : Write("calls", O_APPEND, call);
}

int nvmlInit_v2(void) { return kSuccess; }
int nvmlShutdown(void) { return kSuccess; }

int nvmlSystemGetDriverVersion(char* version, unsigned int length) {
  snprintf(version, length, "580.0");
  return kSuccess;
}

int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  (void)uuid;
  *device = &g_device;
  return kSuccess;
}

int nvmlDeviceGetClockInfo(void* device, int type, unsigned int* mhz) {
  (void)device, (void)type;
  *mhz = kMaxClockMhz;
  return kSuccess;
}

int nvmlDeviceGetMaxClockInfo(void* device, int type, unsigned int* mhz) {
  (void)device, (void)type;
  *mhz = kMaxClockMhz;
  return kSuccess;
}

int nvmlDeviceSetGpuLockedClocks(void* device, unsigned int min_mhz, unsigned int max_mhz) {
  char call[64];
  (void)device;
  snprintf(call, sizeof(call), "lock %u %u\n", min_mhz, max_mhz);
  return Change(max_mhz, call);
}

int nvmlDeviceResetGpuLockedClocks(void* device) {
  (void)device;
  return Change(0, "reset\n");
}
