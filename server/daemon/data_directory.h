// The data directory of a daemon: made, checked, locked, and with what every role keeps in it.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "server/base/file.h"
#include "server/base/socket_paths.h"
#include "server/base/xdg.h"
#include "server/daemon/config.h"
#include "server/data_files/data_file_store.h"

namespace tunefarm {

struct DataDirectory {
  FileLock lock;  // as long as the daemon lives
  SocketPaths sockets;
};

// Closes the directory to other users where it can, and uses the reserve (upkeep/disk_reserve.h) if the disk is full.
// One clear sentence for every refusal: another daemon (DATA_DIRECTORY_IN_USE), a read-only or network directory.
absl::StatusOr<DataDirectory> OpenDataDirectory(const std::string& path, const EnvironmentGetter& environment);

// Where and how much of the users' data files a daemon of any role keeps.
DataFileStoreOptions DataFileOptions(const DaemonConfig& config);

}  // namespace tunefarm
