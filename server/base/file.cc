#include "server/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <system_error>

#include "server/base/random.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {

std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

namespace {

absl::Status WriteAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t wrote = write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return ErrnoStatus(errno, "cannot write {}", path);
    bytes.remove_prefix(static_cast<size_t>(wrote));
  }
  return absl::OkStatus();
}

absl::Status SyncDirectory(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return ErrnoStatus(errno, "cannot open directory {}", path);
  if (fsync(fd.get()) != 0) return ErrnoStatus(errno, "cannot flush directory {}", path);
  return absl::OkStatus();
}

// `shown`: the name that errors say.
absl::Status WriteNewFile(const std::string& path, std::string_view bytes, mode_t mode, const std::string& shown) {
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode & 0700));
  if (!fd) return ErrnoStatus(errno, "cannot create {}", shown);
  RETURN_IF_ERROR(WriteAll(fd.get(), bytes, shown));
  // Only now: nobody else may read the file before it is whole.
  if (fchmod(fd.get(), mode) != 0) return ErrnoStatus(errno, "cannot set the mode of {}", shown);
  if (fsync(fd.get()) != 0) return ErrnoStatus(errno, "cannot flush {}", shown);
  return absl::OkStatus();
}

constexpr int kLinksMax = 40;  // as the kernel's own limit

bool IsBelowProc(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> folder(realpath(ParentOf(path).c_str(), nullptr), &std::free);
  return folder != nullptr && std::string_view(folder.get()).substr(0, 6) == "/proc/";
}

// The end of a chain of symbolic links. A link below /proc stands for an open file and not for its path: there the
// chain ends, and `is_open_file` is set.
absl::StatusOr<std::string> FollowLinks(const std::string& path, bool* is_open_file) {
  std::string at = path;
  for (int links = 0; links <= kLinksMax; ++links) {
    struct stat info;
    if (lstat(at.c_str(), &info) != 0 || !S_ISLNK(info.st_mode)) return at;
    *is_open_file = IsBelowProc(at);
    if (*is_open_file) return at;
    std::string target(PATH_MAX, '\0');
    const ssize_t length = readlink(at.c_str(), target.data(), target.size());
    if (length < 0) return ErrnoStatus(errno, "cannot read the link {}", at);
    target.resize(static_cast<size_t>(length));
    at = target.substr(0, 1) == "/" ? target : ParentOf(at) + "/" + target;
  }
  return InvalidArgument("{} leads through more than {} symbolic links", path, kLinksMax);
}

std::string_view KindOfFile(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

// The rest of an open file; `path`: what errors call it.
absl::StatusOr<std::string> ReadAll(int fd, const std::string& path, uint64_t bytes_max) {
  // Not by st_size: /proc files have none, and a file may grow while it is read.
  constexpr size_t kStepBytes = 64 * 1024;
  std::string bytes;
  while (true) {
    const size_t old_size = bytes.size();
    // One byte above the limit tells "at the limit" from "above".
    const uint64_t wanted = std::min<uint64_t>(std::max<uint64_t>(kStepBytes, old_size), bytes_max - old_size);
    bytes.resize(old_size + wanted + 1);
    const ssize_t got = read(fd, bytes.data() + old_size, wanted + 1);
    const int error = errno;
    bytes.resize(old_size + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && error == EINTR) continue;
    if (got < 0) return ErrnoStatus(error, "cannot read {}", path);
    if (got == 0) return bytes;
    if (bytes.size() > bytes_max) return ResourceExhausted("{} has more than {} bytes", path, bytes_max);
  }
}

// Where an open file lies, by the kernel's own account: no link is left in it.
std::string PlaceOf(int fd) { return "/proc/self/fd/" + std::to_string(fd); }
absl::StatusOr<std::string> RealPathOf(int fd, const std::string& path) {
  std::string real(PATH_MAX, '\0');
  const ssize_t size = readlink(PlaceOf(fd).c_str(), real.data(), real.size());
  if (size < 0) return ErrnoStatus(errno, "cannot find out where {} lies", path);
  real.resize(static_cast<size_t>(size));
  return real;
}

// What errors call a file of a folder.
std::string ShownBelow(const std::string& folder, const std::string& path) {
  return folder.empty() ? path : folder + "/" + path;
}

bool IsDirectory(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

absl::StatusOr<UniqueFd> OpenForReading(const std::string& path) {
  // Opening a pipe would wait for its writer.
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info;
  if (!fd || fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "cannot open {}", path);
  if (!S_ISREG(info.st_mode)) {
    return InvalidArgument("{} is {}; a regular file is needed here", path, KindOfFile(info.st_mode));
  }
  return fd;
}

absl::StatusOr<UniqueFd> OpenForReadingBelow(const std::string& folder, const std::string& path) {
  const std::string shown = ShownBelow(folder, path);
  if (path.empty() || path[0] == '/') return InvalidArgument("'{}' is not a path below {}", path, folder);
  // O_PATH: nothing is opened for reading, so that a FIFO does not wait and a device does not act.
  const UniqueFd root(open(folder.empty() ? "." : folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root) return ErrnoStatus(errno, "cannot open directory {}", folder);
  const UniqueFd found(openat(root.get(), path.c_str(), O_PATH | O_CLOEXEC));
  if (!found) return ErrnoStatus(errno, "cannot open {}", shown);
  ASSIGN_OR_RETURN(const std::string root_path, RealPathOf(root.get(), folder));
  ASSIGN_OR_RETURN(const std::string real_path, RealPathOf(found.get(), shown));
  const std::string prefix = root_path == "/" ? root_path : root_path + "/";
  if (real_path.compare(0, prefix.size(), prefix) != 0) {
    return InvalidArgument("{} leads to {}, outside of its folder {}; copy the file into the folder", shown, real_path,
                           root_path);
  }
  struct stat info;
  if (fstat(found.get(), &info) != 0) return ErrnoStatus(errno, "cannot examine {}", shown);
  if (S_ISDIR(info.st_mode)) return InvalidArgument("{} is a directory", shown);
  if (!S_ISREG(info.st_mode)) return InvalidArgument("{} is not a regular file", shown);
  // The file that was examined, whatever its name stands for by now.
  UniqueFd fd(open(PlaceOf(found.get()).c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return ErrnoStatus(errno, "cannot open {}", shown);
  return fd;
}

absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t bytes_max) {
  ASSIGN_OR_RETURN(const UniqueFd fd, OpenForReading(path));
  return ReadAll(fd.get(), path, bytes_max);
}

absl::StatusOr<std::string> ReadFileBelow(const std::string& folder, const std::string& path, uint64_t bytes_max) {
  ASSIGN_OR_RETURN(const UniqueFd fd, OpenForReadingBelow(folder, path));
  return ReadAll(fd.get(), ShownBelow(folder, path), bytes_max);
}

absl::Status WriteFileAtomically(const std::string& path, std::string_view bytes, mode_t mode) {
  // In the same directory, since rename does not cross file systems.
  const std::string temporary = fmt::format("{}.tmp-{}", path, NewUuid(EntropySource::Real()));
  absl::Status status = WriteNewFile(temporary, bytes, mode, path);
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) {
    status = ErrnoStatus(errno, "cannot replace {}", path);
  }
  if (!status.ok()) {
    (void)unlink(temporary.c_str());
    return status;
  }
  return SyncDirectory(ParentOf(path));
}

absl::Status WriteOutputFile(const std::string& path, std::string_view bytes) {
  bool is_open_file = false;
  ASSIGN_OR_RETURN(const std::string target, FollowLinks(path, &is_open_file));
  struct stat info;
  const bool exists = stat(target.c_str(), &info) == 0;
  if (!exists && !is_open_file) return WriteFileAtomically(target, bytes);
  if (exists && S_ISDIR(info.st_mode)) return InvalidArgument("{} is a directory", path);
  UniqueFd fd(open(target.c_str(), O_WRONLY | O_APPEND | O_NOCTTY | O_CLOEXEC));
  if (!fd) return ErrnoStatus(errno, "cannot open {} for writing", path);
  if (!is_open_file && S_ISREG(info.st_mode)) return WriteFileAtomically(target, bytes, info.st_mode & 07777);
  return WriteAll(fd.get(), bytes, path);
}

absl::Status MakeDirectories(const std::string& path, mode_t mode) {
  if (path.empty()) return InvalidArgument("cannot create a directory without a name");
  if (IsDirectory(path)) return absl::OkStatus();
  for (size_t end = path.find('/', 1); true; end = path.find('/', end + 1)) {
    const std::string prefix = path.substr(0, end);
    if (mkdir(prefix.c_str(), mode) != 0) {
      const int error = errno;
      // Whatever the error is, a directory that stands is fine (a parent may be read-only and there already).
      if (!IsDirectory(prefix)) {
        return error == EEXIST ? AlreadyExists("{} exists, and is no directory", prefix)
                               : ErrnoStatus(error, "cannot create directory {}", prefix);
      }
    }
    if (end == std::string::npos) return absl::OkStatus();
  }
}

absl::Status MakePrivate(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, "cannot look at {}", path);
  }
  if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) return absl::OkStatus();
  const mode_t mode = info.st_mode & 07777;
  const mode_t of_others = S_ISDIR(info.st_mode) ? S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH : S_IRWXG | S_IRWXO;
  if ((mode & of_others) == 0) return absl::OkStatus();
  if (chmod(path.c_str(), mode & ~static_cast<mode_t>(S_IRWXG | S_IRWXO)) == 0) return absl::OkStatus();
  return FailedPrecondition(
      "other users may read or change {} (mode {:04o}), and it cannot be closed to them: {}; run: "
      "chmod go= {}",
      path, mode, std::system_category().message(errno), path);
}

absl::Status MakeOwnDirectory(const std::string& path) {
  RETURN_IF_ERROR(MakeDirectories(path, 0700));
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, "cannot look at {}", path);
  if (info.st_uid != geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return FailedPrecondition("{} must belong to the daemon's user and be writable by nobody else", path);
  }
  return MakePrivate(path);
}

absl::Status CheckSecretFile(std::string_view what, const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return absl::OkStatus();
  const mode_t forbidden = info.st_uid == 0 ? S_IWGRP | S_IXGRP | S_IRWXO : S_IRWXG | S_IRWXO;
  if ((info.st_mode & forbidden) == 0) return absl::OkStatus();
  return WithReason(InvalidArgument("other users may read or change {} {} (mode {:04o}); run: chmod 600 {}", what, path,
                                    info.st_mode & 07777, path),
                    "SECRET_NOT_PRIVATE");
}

absl::StatusOr<uint64_t> FreeBytes(const std::string& path) {
  struct statvfs info;
  if (statvfs(path.c_str(), &info) != 0) return ErrnoStatus(errno, "cannot read the free space at {}", path);
  return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
}

absl::StatusOr<bool> IsNetworkFileSystem(const std::string& path) {
  struct statfs info;
  if (statfs(path.c_str(), &info) != 0) return ErrnoStatus(errno, "cannot read the file system type of {}", path);
  return internal::IsNetworkFileSystemType(static_cast<uint32_t>(info.f_type));
}

namespace internal {

bool IsNetworkFileSystemType(uint32_t type) {
  constexpr uint32_t kTypes[] = {
      0x00006969,  // NFS
      0xff534d42,  // CIFS
      0xfe534d42,  // SMB2
      0x0000517b,  // SMB
      0x65735546,  // FUSE, and virtiofs
      0x01021997,  // 9p
      0x00c36400,  // Ceph
      0x5346414f,  // AFS (OpenAFS)
      0x6b414653,  // AFS (the kernel's)
      0x73757245,  // Coda
      0x0bd00bd0,  // Lustre
      0x47504653,  // GPFS
      0x19830326,  // BeeGFS
      0x01161970,  // GFS2
      0x7461636f,  // OCFS2
      0x0000564c,  // NCP
  };
  return std::find(std::begin(kTypes), std::end(kTypes), type) != std::end(kTypes);
}

}  // namespace internal
}  // namespace tunefarm
