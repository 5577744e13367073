// `export package`: tuned kernels with their binaries as a file for libtunefarm-launch.
#pragma once

#include <CLI/CLI.hpp>

#include "client/cli/session.h"

namespace tunefarm::cli {

// Adds the command below `export`.
void AddExportPackage(CLI::App* command, Session* session);

}  // namespace tunefarm::cli
