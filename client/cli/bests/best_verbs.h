// The subcommands of best: the catalog as a whole, and what people decide about it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/options/kernel_argument.h"
#include "client/cli/options/problem_options.h"
#include "client/cli/session.h"

namespace tunefarm::cli {

// list, pin, unpin, retire, note, history and watch.
void AddBestVerbs(CLI::App* best, Session* session);

// The first 50 best configs of a kernel, or of all where it is empty.
absl::StatusOr<ExitCode> ListBests(Session* session, const std::string& kernel);

// The command line that tunes the problem that was looked up. `kernel` and `device` are as the user gave them; `device`
// may be empty.
std::string TuneCommand(const std::string& kernel, const ProblemOptions& problem, const std::string& device);

// The status of an answer about the kernel's bests. For a kernel with a definition here that the daemon does not have,
// such as a built-in one, it is NotFound and names the command `tune`.
absl::Status SayNeverTuned(const absl::Status& answer, const KernelArgument& kernel, const std::string& tune);

}  // namespace tunefarm::cli
