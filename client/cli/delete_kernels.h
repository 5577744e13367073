// kernels delete.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/cli/session.h"

namespace tunefarm::cli {

// Deletes stored definitions: NAME all of a name, NAME@VERSION the one whose id begins so, kernels/ID. InvalidArgument
// for a version that several have, NotFound for what is not stored, and the daemon's errors: what was deleted before
// stays deleted.
absl::StatusOr<ExitCode> DeleteKernels(Session* session, const std::string& text);

}  // namespace tunefarm::cli
