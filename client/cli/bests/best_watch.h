// Following the catalog.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/cli/session.h"

namespace tunefarm::cli {

// Prints what the catalog has of a kernel (of all, if empty), and of one program (of all, if empty), and every change
// as it happens, until Ctrl-C; as JSON one response a line. Goes on where it was when the stream breaks, for as long as
// the daemon comes back within 30 s.
absl::StatusOr<ExitCode> WatchBests(Session* session, const std::string& kernel, const std::string& program);

}  // namespace tunefarm::cli
