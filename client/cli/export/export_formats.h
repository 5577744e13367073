// One function per format of `export`: adds its subcommand.
#pragma once

#include <CLI/CLI.hpp>

#include "client/cli/session.h"

namespace tunefarm::cli {

void AddExportTables(CLI::App* command, Session* session);  // csv, json, markdown
void AddExportHeader(CLI::App* command, Session* session);
void AddExportBests(CLI::App* command, Session* session);
void AddExportAiter(CLI::App* command, Session* session);

}  // namespace tunefarm::cli
