// `kernels check`: a definition, what some of its configs compile to, and what one of them does on a device.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/cli/data/definition_data.h"
#include "client/cli/options/problem_options.h"
#include "client/cli/session.h"

namespace tunefarm::cli {

struct CheckOptions {
  std::string kernel;
  ProblemOptions problem;
  DataOptions data;
  std::string device;    // empty: the daemon chooses
  bool compile = false;  // some configs
  bool run = false;      // one config, in a job that promotes nothing
};

// Prints what was found, as one JSON object where the session wants JSON. kExitFailed where a config does not compile;
// where the config that was run has no time, what `tune` ends with. The definition's errors are InvalidArgument.
absl::StatusOr<ExitCode> CheckKernel(Session* session, const CheckOptions& options);

}  // namespace tunefarm::cli
