// The command line: parse, run the chosen command, turn its status into a message and an exit code.
#pragma once

#include <string>
#include <vector>

#include "client/cli/session.h"

namespace tunefarm::cli {

// `arguments` without the program's name. Everything the command prints goes to the session's streams.
int RunCommandLine(const std::vector<std::string>& arguments, Session* session);

}  // namespace tunefarm::cli
