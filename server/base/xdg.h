#pragma once

// Where tunefarm keeps its files for a user, by the XDG base directory rules (relative values of XDG_* are ignored, as
// the rules demand). Nothing is created here. Thread-safe as long as nobody changes the environment.

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace tunefarm {

// The value of an environment variable, or none when unset.
using EnvironmentGetter = std::function<std::optional<std::string>(const char* name)>;

// Reads the process's environment.
EnvironmentGetter RealEnvironment();

// $XDG_DATA_HOME/tunefarm or $HOME/.local/share/tunefarm. FailedPrecondition when neither variable is usable.
absl::StatusOr<std::string> DataDir(const EnvironmentGetter& environment);

// $XDG_CONFIG_HOME/tunefarm or $HOME/.config/tunefarm. FailedPrecondition when neither variable is usable.
absl::StatusOr<std::string> ConfigDir(const EnvironmentGetter& environment);

// For sockets: $XDG_RUNTIME_DIR/tunefarm, else /tmp/tunefarm-UID. The latter lies in a folder anyone can write: the
// user of it must create it with mode 0700 and check that it is a directory of its own.
std::string RuntimeDir(const EnvironmentGetter& environment);

}  // namespace tunefarm
