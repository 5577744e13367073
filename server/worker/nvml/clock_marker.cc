#include "server/worker/nvml/clock_marker.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "server/base/file.h"
#include "server/base/status.h"

namespace tunefarm::cuda {
namespace {

// Another one after every start of the machine. Empty: not known.
std::string BootId() {
  const absl::StatusOr<std::string> id = ReadFile("/proc/sys/kernel/random/boot_id", 256);
  return id.ok() ? id->substr(0, id->find('\n')) : "";
}

bool IsFileAt(const std::string& path, int fd) {
  struct stat open_file = {}, named = {};
  return fstat(fd, &open_file) == 0 && lstat(path.c_str(), &named) == 0 && open_file.st_dev == named.st_dev &&
         open_file.st_ino == named.st_ino;
}

bool SyncDirectoryOf(const std::string& path) {
  const UniqueFd directory(open(ParentOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return directory.valid() && fsync(directory.get()) == 0;
}

}  // namespace

absl::StatusOr<ClockMarker> ClockMarker::Take(const std::string& path) {
  while (true) {
    UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd) return ErrnoStatus(errno, "cannot open {}", path);
    while (flock(fd.get(), LOCK_EX) != 0) {
      if (errno != EINTR) return ErrnoStatus(errno, "cannot lock {}", path);
    }
    // The process that had the lock removes the file before it gives it up.
    if (!IsFileAt(path, fd.get())) continue;
    ClockMarker marker(path, std::move(fd));
    std::array<char, 512> content;
    const ssize_t size = pread(marker.fd_.get(), content.data(), content.size(), 0);
    if (size < 0) return ErrnoStatus(errno, "cannot read {}", path);
    const std::string text(content.data(), static_cast<size_t>(size));
    const std::string boot = BootId();
    marker.was_left_ = !text.empty() && (boot.empty() || text.find(boot) != std::string::npos);
    return marker;
  }
}

absl::Status ClockMarker::Write(const std::string& device_uuid, int mhz) {
  const std::string text = fmt::format("{} {} {}\n", device_uuid, mhz, BootId());
  // In place, so that the file keeps its lock.
  const bool written = pwrite(fd_.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) &&
                       ftruncate(fd_.get(), static_cast<off_t>(text.size())) == 0 && fsync(fd_.get()) == 0 &&
                       SyncDirectoryOf(path_);
  return written ? absl::OkStatus() : ErrnoStatus(errno, "cannot write {}", path_);
}

absl::Status ClockMarker::Remove() {
  if (unlink(path_.c_str()) != 0) return ErrnoStatus(errno, "cannot remove {}", path_);
  return absl::OkStatus();
}

}  // namespace tunefarm::cuda
