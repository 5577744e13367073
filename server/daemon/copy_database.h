// `tunefarmd copy-database`: moves a data directory's SQLite database to PostgreSQL, while no daemon serves it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/xdg.h"

namespace tunefarm {

// The text to print when it is done. `arguments` behind the word copy-database: [--to URL] and the daemon's own flags,
// such as --data-dir; without --to the configured store is the target. Cancelled with the text of --help.
absl::StatusOr<std::string> CopyDatabase(const std::vector<std::string>& arguments,
                                         const EnvironmentGetter& environment);

}  // namespace tunefarm
