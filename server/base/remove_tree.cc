#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "server/base/file.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

// Each level holds one descriptor open.
constexpr int kDepthMax = 200;

// A directory may list more entries after some were removed; more often than this, somebody keeps adding.
constexpr int kPassesMax = 16;

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};

absl::Status RemoveEntry(int parent, const char* name, const std::string& path, dev_t device, int depth);

// Removes what the directory lists now.
absl::Status RemoveChildren(DIR* directory, const std::string& path, dev_t device, int depth) {
  rewinddir(directory);
  while (true) {
    errno = 0;
    const dirent* entry = readdir(directory);
    if (entry == nullptr) return errno == 0 ? absl::OkStatus() : ErrnoStatus(errno, "cannot list {}", path);
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    RETURN_IF_ERROR(RemoveEntry(dirfd(directory), name.c_str(), path + "/" + name, device, depth + 1));
  }
}

// By descriptors relative to the parent, never by path from the root: a directory swapped for a link meanwhile cannot
// lead out of the tree.
absl::Status RemoveEntry(int parent, const char* name, const std::string& path, dev_t device, int depth) {
  if (unlinkat(parent, name, 0) == 0 || errno == ENOENT) return absl::OkStatus();
  if (errno != EISDIR && errno != EPERM) return ErrnoStatus(errno, "cannot remove {}", path);
  if (depth > kDepthMax) return OutOfRange("cannot remove {}: more than {} directories deep", path, kDepthMax);

  const int unlink_error = errno;
  UniqueFd fd(openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd && errno == ENOENT) return absl::OkStatus();
  // Not a directory after all: then the first error is the one to report.
  if (!fd) return ErrnoStatus(errno == ENOTDIR ? unlink_error : errno, "cannot remove {}", path);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "cannot stat {}", path);
  if (info.st_dev != device) return FailedPrecondition("cannot remove {}: another file system is mounted there", path);
  std::unique_ptr<DIR, CloseDirectory> directory(fdopendir(fd.get()));
  if (directory == nullptr) return ErrnoStatus(errno, "cannot list {}", path);
  (void)fd.Release();  // closedir closes it.

  for (int pass = 0; pass < kPassesMax; ++pass) {
    RETURN_IF_ERROR(RemoveChildren(directory.get(), path, device, depth));
    if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT) return absl::OkStatus();
    if (errno != ENOTEMPTY && errno != EEXIST) return ErrnoStatus(errno, "cannot remove {}", path);
  }
  return Unavailable("cannot remove {}: files keep appearing in it; stop what writes there", path);
}

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
  return RemoveEntry(AT_FDCWD, trimmed.c_str(), trimmed, info.st_dev, 1);
}

}  // namespace tunefarm
