#pragma once

// Where a daemon's Unix sockets are, so that the CLI finds the daemon of a data directory without asking anybody.
// Nothing is created here.

#include <string>

#include "absl/status/statusor.h"
#include "server/base/xdg.h"

namespace tunefarm {

// How tunefarmd exits where another daemon serves its data directory: EX_TEMPFAIL of sysexits.h, since that one may be
// about to end.
inline constexpr int kExitDataDirectoryInUse = 75;

struct SocketPaths {
  std::string directory;
  std::string admin;   // mode 0600: everything
  std::string client;  // mode 0660: no shutdown, no backup
  // A symbolic link to the data directory, which its daemon makes before it listens: XDG_DATA_HOME may name several by
  // turns, and one has the user's runtime directory. Empty: `directory` lies in the data directory.
  std::string owner;
};

// The default data directory's sockets are in the user's runtime directory, unless its `owner` is another one; those of
// any other, and then of this one, in its own "run" folder. client/python/tunefarm/_connection.py has the same rules.
// FailedPrecondition when a path would be longer than the 107 bytes of a Unix socket address.
absl::StatusOr<SocketPaths> SocketPathsFor(const std::string& data_directory, const EnvironmentGetter& environment);

// TUNEFARM_DATA_DIR, else DataDir(): absolute, without a trailing slash.
absl::StatusOr<std::string> ChosenDataDirectory(const std::string& flag, const EnvironmentGetter& environment);

}  // namespace tunefarm
