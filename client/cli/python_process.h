// The python3 of PATH, for what this program leaves to Python's standard library.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/base/clock.h"

namespace tunefarm::cli {

// Runs `python3 -I -S -c PROGRAM`, isolated from the user's packages and environment, and returns what it writes to
// standard output; standard error is ours. `input` is its standard input. FailedPrecondition where PATH has no python3,
// DeadlineExceeded and ResourceExhausted where it takes longer or writes more (it is killed), Aborted with how it ended
// where that is not exit code 0.
absl::StatusOr<std::string> RunPython(std::string_view program, std::string_view input, uint64_t output_bytes_max,
                                      Duration timeout);

}  // namespace tunefarm::cli
