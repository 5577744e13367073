#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

#include "server/base/file.h"
#include "server/base/status.h"

namespace tunefarm {
namespace {

// The pid in the file, or 0 when there is none (a holder that has only just locked it).
int64_t ReadHolder(int fd) {
  char text[32];
  const ssize_t got = pread(fd, text, sizeof(text), 0);
  int64_t pid = 0;
  if (got > 0) std::from_chars(text, text + got, pid);
  return pid;
}

}  // namespace

absl::StatusOr<FileLock> FileLock::TryLock(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) return ErrnoStatus(errno, "cannot open lock file {}", path);
  while (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return ErrnoStatus(errno, "cannot lock {}", path);
    const int64_t holder = ReadHolder(fd.get());
    const std::string who = holder > 0 ? fmt::format("process {}", holder) : "another process";
    return WithReason(FailedPrecondition("{} is locked by {}; stop it first", path, who), "LOCK_HELD");
  }
  // The pid only serves the message above: on a full disk the lock holds without it.
  const std::string pid = fmt::format("{}\n", getpid());
  if (ftruncate(fd.get(), 0) == 0) {
    [[maybe_unused]] const ssize_t wrote = pwrite(fd.get(), pid.data(), pid.size(), 0);
  }
  return FileLock(std::move(fd));
}

}  // namespace tunefarm
