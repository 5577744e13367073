#include "server/daemon/data_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/upkeep/disk_reserve.h"

namespace tunefarm {
namespace {

// A volume may come with another owner and a wider mode, as in a container: the files in it are private all the same.
void CloseToOthers(const std::string& path) {
  if (const absl::Status closed = MakePrivate(path); !closed.ok()) LogWarn("daemon", "{}", MessageOf(closed));
}

// The runtime directory may lie in a folder that anyone can write: it must be ours, and only ours.
absl::Status MakePrivateDirectory(const std::string& path) {
  RETURN_IF_ERROR(MakeDirectories(path, 0700));
  struct stat info = {};
  if (lstat(path.c_str(), &info) != 0) return ErrnoStatus(errno, "looking at {}", path);
  if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid()) {
    return FailedPrecondition("{} does not belong to this user; remove it or set XDG_RUNTIME_DIR", path);
  }
  // Others who may write there could put a socket of theirs in the place of ours. Access that its owner grants to the
  // client's socket stays.
  const mode_t mode = info.st_mode & 07777;
  if ((mode & (S_IWGRP | S_IWOTH)) != 0 && chmod(path.c_str(), mode & ~static_cast<mode_t>(S_IWGRP | S_IWOTH)) != 0) {
    return ErrnoStatus(errno, "closing {} to other users", path);
  }
  return absl::OkStatus();
}

// Where the sockets lie, made, and never where those of another data directory do.
absl::StatusOr<SocketPaths> OpenSocketDirectory(const std::string& data, const EnvironmentGetter& environment) {
  ASSIGN_OR_RETURN(SocketPaths sockets, SocketPathsFor(data, environment));
  RETURN_IF_ERROR(MakePrivateDirectory(sockets.directory));
  if (sockets.owner.empty() || symlink(data.c_str(), sockets.owner.c_str()) == 0) return sockets;
  if (errno != EEXIST) return ErrnoStatus(errno, "making {}", sockets.owner);
  // It was there, or another daemon has just made its own.
  ASSIGN_OR_RETURN(sockets, SocketPathsFor(data, environment));
  RETURN_IF_ERROR(MakePrivateDirectory(sockets.directory));
  return sockets;
}

bool HasLockHeld(const absl::Status& status) { return ReasonOf(status) == "LOCK_HELD"; }

}  // namespace

absl::StatusOr<DataDirectory> OpenDataDirectory(const std::string& data, const EnvironmentGetter& environment) {
  DataDirectory opened;
  RETURN_IF_ERROR(Annotate(MakeDirectories(data, 0700), "data directory"));
  if (access(data.c_str(), W_OK) != 0) {
    return ErrnoStatus(errno, "the data directory {} cannot be written; choose another with --data-dir", data);
  }
  ASSIGN_OR_RETURN(const bool is_network, IsNetworkFileSystem(data));
  if (is_network) {
    return FailedPrecondition(
        "the data directory {} is on a network file system, where SQLite would lose data; choose a local "
        "disk with --data-dir",
        data);
  }
  const std::string lock_file = data + "/tunefarmd.lock";
  absl::StatusOr<FileLock> lock = FileLock::TryLock(lock_file);
  if (!lock.ok()) {
    if (!HasLockHeld(lock.status())) return lock.status();
    return WithReason(FailedPrecondition("another daemon serves {} already ({})", data, MessageOf(lock.status())),
                      "DATA_DIRECTORY_IN_USE");
  }
  opened.lock = *std::move(lock);
  UseDiskReserve(data);
  ASSIGN_OR_RETURN(opened.sockets, OpenSocketDirectory(data, environment));
  CloseToOthers(data);
  CloseToOthers(lock_file);
  RETURN_IF_ERROR(MakeDirectories(data + "/backups", 0700));
  RETURN_IF_ERROR(MakePrivate(data + "/backups"));
  // Workers drop to other users and must be able to pass through to their own scratch directories.
  // What a worker left behind and cannot be removed stays: each worker gets a fresh directory of its own anyway.
  if (const absl::Status removed = RemoveTree(data + "/scratch"); !removed.ok()) {
    LogWarn("daemon", "the scratch directory could not be emptied: {}", MessageOf(removed));
  }
  RETURN_IF_ERROR(MakeDirectories(data + "/scratch", 0711));
  KeepDiskReserve(data);
  return opened;
}

DataFileStoreOptions DataFileOptions(const DaemonConfig& config) {
  DataFileStoreOptions options;
  options.path = config.data_directory + "/data_files";
  options.bytes_max = config.max_data_file_bytes;
  options.free_bytes_min = config.min_free_disk_bytes;
  return options;
}

}  // namespace tunefarm
