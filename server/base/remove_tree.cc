#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "server/base/file.h"
#include "server/base/freed.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

// Each level holds one descriptor open. Directories below are moved to the top of the tree, and removed from there.
constexpr int kDepthMax = 100;

// A directory may list more entries after some were removed; more often than this, somebody keeps adding.
constexpr int kPassesMax = 16;

// Of directories that are moved to the top.
constexpr int64_t kMovesMax = int64_t{1} << 20;

constexpr mode_t kOwnerMay = 0700;

// A directory, whatever its mode: what its owner may not do he permits himself first. By descriptor, so that nothing
// that takes its place meanwhile is changed.
UniqueFd OpenAnyDirectory(int parent, const char* name) {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  UniqueFd fd(openat(parent, name, kFlags));
  if (!fd && errno == EACCES) {
    const UniqueFd handle(openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!handle) {
      errno = EACCES;
      return {};
    }
    if (chmod(fmt::format("/proc/self/fd/{}", handle.get()).c_str(), kOwnerMay) != 0) {
      errno = EACCES;
      return {};
    }
    fd = UniqueFd(openat(parent, name, kFlags));
  }
  if (!fd) return {};
  struct stat info;
  if (fstat(fd.get(), &info) == 0 && (info.st_mode & kOwnerMay) != kOwnerMay) {
    (void)fchmod(fd.get(), kOwnerMay);  // Where that fails, removing says why.
  }
  return fd;
}

class TreeRemover {
 public:
  // The tree, or a file, at `name` of the directory `parent`.
  absl::Status Remove(int parent, const char* name, const std::string& path) {
    return RemoveEntry(parent, name, path, 1);
  }

  // What is below the directory; that stays.
  absl::Status Empty(UniqueFd fd, const std::string& path) {
    struct stat info;
    if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "cannot stat {}", path);
    device_ = info.st_dev;
    has_device_ = true;
    const std::unique_ptr<DIR, Freed<closedir>> directory(fdopendir(fd.get()));
    if (directory == nullptr) return ErrnoStatus(errno, "cannot list {}", path);
    (void)fd.Release();  // closedir closes it.
    top_ = dirfd(directory.get());
    int64_t moved_before = -1;
    for (int pass = 0; pass < kPassesMax; ++pass) {
      if (moves_ != moved_before) pass = 0;  // What was moved to the top is listed by the next pass.
      moved_before = moves_;
      bool found = false;
      RETURN_IF_ERROR(RemoveChildren(directory.get(), path, 1, &found));
      if (!found) return absl::OkStatus();
    }
    return KeepsAppearing(path);
  }

 private:
  static absl::Status KeepsAppearing(const std::string& path) {
    return Unavailable("cannot remove {}: files keep appearing in it; stop what writes there", path);
  }

  // Removes what the directory lists now.
  absl::Status RemoveChildren(DIR* directory, const std::string& path, int depth, bool* found) {
    rewinddir(directory);
    while (true) {
      errno = 0;
      const dirent* entry = readdir(directory);
      if (entry == nullptr) return errno == 0 ? absl::OkStatus() : ErrnoStatus(errno, "cannot list {}", path);
      const std::string name = entry->d_name;
      if (name == "." || name == "..") continue;
      *found = true;
      RETURN_IF_ERROR(RemoveEntry(dirfd(directory), name.c_str(), path + "/" + name, depth + 1));
    }
  }

  // By descriptors relative to the parent, never by path from the root: a directory swapped for a link meanwhile cannot
  // lead out of the tree.
  absl::Status RemoveEntry(int parent, const char* name, const std::string& path, int depth) {
    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT) return absl::OkStatus();
    if (errno != EISDIR && errno != EPERM) return ErrnoStatus(errno, "cannot remove {}", path);
    const int unlink_error = errno;
    UniqueFd fd = OpenAnyDirectory(parent, name);
    if (!fd && errno == ENOENT) return absl::OkStatus();
    // Not a directory after all: then the first error is the one to report.
    if (!fd) return ErrnoStatus(errno == ENOTDIR ? unlink_error : errno, "cannot remove {}", path);
    struct stat info;
    if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "cannot stat {}", path);
    if (!has_device_) {
      device_ = info.st_dev;
      has_device_ = true;
    }
    if (info.st_dev != device_)
      return FailedPrecondition("cannot remove {}: another file system is mounted there", path);
    if (depth > kDepthMax) return MoveToTop(parent, name, path);
    if (depth == 1) {
      RETURN_IF_ERROR(Empty(std::move(fd), path));
      if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT) return absl::OkStatus();
      if (errno == ENOTEMPTY || errno == EEXIST) return KeepsAppearing(path);
      return ErrnoStatus(errno, "cannot remove {}", path);
    }
    const std::unique_ptr<DIR, Freed<closedir>> directory(fdopendir(fd.get()));
    if (directory == nullptr) return ErrnoStatus(errno, "cannot list {}", path);
    (void)fd.Release();  // closedir closes it.
    for (int pass = 0; pass < kPassesMax; ++pass) {
      bool found = false;
      RETURN_IF_ERROR(RemoveChildren(directory.get(), path, depth, &found));
      if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT) return absl::OkStatus();
      if (errno != ENOTEMPTY && errno != EEXIST) return ErrnoStatus(errno, "cannot remove {}", path);
    }
    return KeepsAppearing(path);
  }

  absl::Status MoveToTop(int parent, const char* name, const std::string& path) {
    while (moves_ < kMovesMax) {
      const std::string target = fmt::format(".removed-{}", ++moves_);
      if (renameat(parent, name, top_, target.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
      if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR) {
        return ErrnoStatus(errno, "cannot move {} to the top of its tree", path);
      }
    }
    return KeepsAppearing(path);
  }

  dev_t device_ = 0;
  bool has_device_ = false;
  int top_ = -1;
  int64_t moves_ = 0;
};

}  // namespace

absl::Status RemoveTree(const std::string& path) {
  // "link/" would name the link's target.
  std::string trimmed = path;
  while (trimmed.size() > 1 && trimmed.back() == '/') trimmed.pop_back();
  const std::string last = trimmed.substr(trimmed.rfind('/') + 1);
  if (last.empty() || last == "." || last == "..") {
    return InvalidArgument("refusing to remove \"{}\": the last part of the path must be a name", path);
  }
  struct stat info;
  if (fstatat(AT_FDCWD, trimmed.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, "cannot stat {}", trimmed);
  }
  return TreeRemover().Remove(AT_FDCWD, trimmed.c_str(), trimmed);
}

absl::Status EmptyDirectory(const std::string& path) {
  UniqueFd fd = OpenAnyDirectory(AT_FDCWD, path.c_str());
  if (!fd) return ErrnoStatus(errno, "cannot open {}", path);
  return TreeRemover().Empty(std::move(fd), path);
}

}  // namespace tunefarm
