// Writes snapshot files. Free functions; thread-safe.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/cpp/snapshot/snapshot_contents.h"

namespace tunefarm::snapshot {

// The file's bytes; the same contents always give the same. InvalidArgument, naming it, for what is beyond the format's
// limits or no number.
absl::StatusOr<std::string> Encode(const Contents& contents);

}  // namespace tunefarm::snapshot
