#pragma once

// Where a daemon's Unix sockets are, so that the CLI finds the daemon of a data directory without asking anybody.
// Pure functions; nothing is created here.

#include <string>

#include "absl/status/statusor.h"
#include "server/base/xdg.h"

namespace tunefarm {

struct SocketPaths {
  std::string directory;
  std::string admin;   // mode 0600: everything
  std::string client;  // mode 0660: no shutdown, no backup
};

// The default data directory's sockets are in the user's runtime directory, those of any other in its own "run" folder.
// FailedPrecondition when a path would be longer than the 107 bytes of a Unix socket address.
absl::StatusOr<SocketPaths> SocketPathsFor(const std::string& data_directory, const EnvironmentGetter& environment);

// TUNEFARM_DATA_DIR, else DataDir(): absolute, without a trailing slash.
absl::StatusOr<std::string> ChosenDataDirectory(const std::string& flag, const EnvironmentGetter& environment);

}  // namespace tunefarm
