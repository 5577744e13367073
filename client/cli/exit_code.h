// Exit codes of every command; `tunefarm help exit-codes` prints them.
#pragma once

#include "absl/status/status.h"

namespace tunefarm::cli {

enum ExitCode {
  kExitOk = 0,
  kExitFailed = 1,
  kExitUsage = 2,
  kExitNotFound = 3,
  kExitUnreachable = 4,
  kExitNoValidConfig = 5,
  kExitInterrupted = 130,
};

// Invalid input is a usage error whether we or the daemon found it.
inline ExitCode ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kInvalidArgument:
      return kExitUsage;
    case absl::StatusCode::kNotFound:
      return kExitNotFound;
    case absl::StatusCode::kUnavailable:
      return kExitUnreachable;
    case absl::StatusCode::kCancelled:
      return kExitInterrupted;
    default:
      return kExitFailed;
  }
}

}  // namespace tunefarm::cli
