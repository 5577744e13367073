// Job and trial names as people type them: "17", "jobs/17", "17/2/5".
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace tunefarm::cli {

// "jobs/17" for "17" and "jobs/17"; InvalidArgument otherwise.
absl::StatusOr<std::string> JobName(const std::string& text);
// "17" for "jobs/17".
std::string JobNumber(const std::string& name);

}  // namespace tunefarm::cli
