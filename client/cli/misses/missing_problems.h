// Which problems of a grid still lack an exact best: what a batch that is run again has left to do.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/connection.h"
#include "tunefarm/v1/problem.pb.h"

namespace tunefarm::cli {

// Those without, in their order. `kernel` is "kernels/{id}" or a display name, `device` as Job.device_selector. By
// batch look-ups; pinned problems and those with input seeds, which these do not know, are asked for one by one. The
// daemon's errors.
absl::StatusOr<std::vector<v1::Problem>> MissingProblems(Connection* connection, const std::string& kernel,
                                                         const std::string& device,
                                                         const std::vector<v1::Problem>& problems);

}  // namespace tunefarm::cli
