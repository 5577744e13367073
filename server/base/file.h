#pragma once

// Files on disk. Paths are plain byte strings; errors name the path. Free functions are thread-safe.

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/unique_fd.h"

namespace tunefarm {

// The directory part of a path: "/a" of "/a/b", "." of "b".
std::string ParentOf(const std::string& path);

// The whole file. NotFound when missing, InvalidArgument for what is no regular file (a directory, a device, a pipe: it
// never waits for a writer), ResourceExhausted above `bytes_max` (nothing beyond the limit is read, so it is safe on
// /proc).
absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t bytes_max);

// The same of a regular file in or below `folder`, which may itself be reached by links. InvalidArgument, before
// anything is read, for a path that leads out of the folder (an absolute one, "..", a symbolic link to elsewhere) and
// for what is no regular file: a FIFO is not waited for and a device not opened.
absl::StatusOr<std::string> ReadFileBelow(const std::string& folder, const std::string& path, uint64_t bytes_max);

// What the two read, open for reading, for what is too large to be held; errors as theirs.
absl::StatusOr<UniqueFd> OpenForReading(const std::string& path);
absl::StatusOr<UniqueFd> OpenForReadingBelow(const std::string& folder, const std::string& path);

// Replaces the file as a whole: a reader, also after a crash or a power cut, sees the old content or the new, never a
// mix. On OK the content is on disk. On error no temporary is left and the old file stands, unless only the last step
// failed, flushing the directory. The directory must exist. The file has exactly `mode`, whatever the umask. A crash
// midway may leave a "PATH.tmp-UUID" behind.
absl::Status WriteFileAtomically(const std::string& path, std::string_view bytes, mode_t mode = 0644);

// Writes a file that a user named: the target of a symbolic link, also of one that leads nowhere yet, and into a device
// or a pipe (it may wait for a pipe's reader). A regular file is replaced as by WriteFileAtomically and keeps its mode.
// A link below /proc, such as /dev/stdout is one, is appended to. InvalidArgument for a directory, PermissionDenied for
// a file that may not be written.
absl::Status WriteOutputFile(const std::string& path, std::string_view bytes);

// Creates the directory and its missing parents, each with `mode` (less the umask). OK when it exists already, with the
// mode it has; AlreadyExists when something else has the name.
absl::Status MakeDirectories(const std::string& path, mode_t mode = 0755);

// Takes from a file or directory what its group and others may do with it. A directory that others may only pass
// through (0711) keeps that. OK when missing, and for what is neither: a device or a pipe. FailedPrecondition with the
// command that mends it when the rights cannot be taken, as where it belongs to another user.
absl::Status MakePrivate(const std::string& path);

// A directory for files of this user's own: made if missing, with its parents, and closed to others as by MakePrivate.
// FailedPrecondition when it belongs to another user or others may write to it.
absl::Status MakeOwnDirectory(const std::string& path);

// That nobody but its owner can read or change a file with a secret: mode 0600 or less, or 0640 or less where it is
// root's, as systems share keys with services. `what` names it: "the private key". InvalidArgument with the command
// that mends it. OK when missing, since opening it says that better, and for what is no regular file.
absl::Status CheckSecretFile(std::string_view what, const std::string& path);

// Removes a file or a directory with all it holds, however deep, and also what its modes forbid its owner, who must be
// the caller. OK when missing. Never follows a symbolic link (a link is removed, not its target) and never enters
// another file system (FailedPrecondition). Unavailable when another process keeps adding files. What was removed
// before an error stays removed.
absl::Status RemoveTree(const std::string& path);

// The same for all that a directory holds; the directory stays, and its owner may use it again. NotFound when missing.
absl::Status EmptyDirectory(const std::string& path);

// Bytes an unprivileged process can still write to the file system that holds `path`.
absl::StatusOr<uint64_t> FreeBytes(const std::string& path);

// True where file locks and mmap cannot be trusted: NFS, SMB/CIFS, AFS, Ceph, 9p, FUSE and the like.
absl::StatusOr<bool> IsNetworkFileSystem(const std::string& path);

namespace internal {
// Of a file system's magic number (statfs f_type).
bool IsNetworkFileSystemType(uint32_t type);
}  // namespace internal

// An exclusive lock held through an open file (flock): the kernel drops it when the process ends, however it ends. The
// file stays behind; removing it would let two processes hold "the" lock. Move-only, not thread-safe. A forked
// child shares the lock until it execs or ends.
class FileLock {
 public:
  // Creates the file with `mode` if missing and writes this process's pid into it where it may. A file that other users
  // may read (0644) is a lock for them too. Never waits: FailedPrecondition with reason LOCK_HELD, naming the holder's
  // pid, when another process (or another FileLock) has it.
  static absl::StatusOr<FileLock> TryLock(const std::string& path, mode_t mode = 0600);

  FileLock() = default;
  bool held() const { return fd_.valid(); }
  // Gives the lock up; nothing if not held. The destructor does the same.
  void Unlock() { fd_.Reset(); }

 private:
  explicit FileLock(UniqueFd fd) : fd_(static_cast<UniqueFd&&>(fd)) {}

  UniqueFd fd_;
};

}  // namespace tunefarm
