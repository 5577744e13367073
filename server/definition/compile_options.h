// Which compiler options a definition may ask for. Private to this folder.
//
// An allow-list, because a definition comes from clients: an option must not read or write files, load plug-ins, run
// programs, change the language, or override what the worker sets (architecture, constants, include paths).
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "tunefarm/v1/kernel.pb.h"

namespace tunefarm::definition {

// InvalidArgument (without a field path) for an option that is not allowed for the language.
absl::Status CheckCompileOption(tunefarm::v1::Language language, std::string_view option);

}  // namespace tunefarm::definition
