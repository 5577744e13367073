// The subcommands of best: the catalog as a whole, and what people decide about it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "client/cli/session.h"

namespace tunefarm::cli {

// list, pin, unpin, retire, note, history and watch.
void AddBestVerbs(CLI::App* best, Session* session);

// The first 50 best configs of a kernel, or of all where it is empty.
absl::StatusOr<ExitCode> ListBests(Session* session, const std::string& kernel);

}  // namespace tunefarm::cli
