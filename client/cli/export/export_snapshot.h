// `export snapshot`: the catalog's bests as a file for programs without a daemon.
#pragma once

#include <CLI/CLI.hpp>

#include "client/cli/session.h"

namespace tunefarm::cli {

// Adds the command below `export`.
void AddExportSnapshot(CLI::App* command, Session* session);

}  // namespace tunefarm::cli
