#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

#include "server/base/file.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

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

// A lock file may be another user's (a device's lock in /tmp): reading it is enough to lock it. O_CREAT must not be
// given for a file that exists, since the kernel refuses that in sticky directories (fs.protected_regular).
absl::StatusOr<UniqueFd> OpenLockFile(const std::string& path, mode_t mode) {
  for (int attempt = 0; attempt < 3; ++attempt) {
    for (const int access : {O_RDWR, O_RDONLY}) {
      UniqueFd fd(open(path.c_str(), access | O_NOFOLLOW | O_CLOEXEC));
      if (fd) return fd;
      if (errno != EACCES) break;
    }
    if (errno != ENOENT) break;
    UniqueFd made(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
    if (made) return made;
    if (errno != EEXIST) break;
  }
  return ErrnoStatus(errno, "cannot open lock file {}", path);
}

}  // namespace

absl::StatusOr<FileLock> FileLock::TryLock(const std::string& path, mode_t mode) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenLockFile(path, mode));
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
