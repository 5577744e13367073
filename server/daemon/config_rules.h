// What must hold of a configuration, whichever of its layers said it.
#pragma once

#include "absl/status/status.h"
#include "server/daemon/config.h"

namespace tunefarm {

// InvalidArgument with one sentence that names the setting, its value (but for a database's URL, which may hold a
// password) and what to write instead. Any thread; looks whether an interpreter that is named is there.
absl::Status CheckDaemonConfig(const DaemonConfig& config);

}  // namespace tunefarm
