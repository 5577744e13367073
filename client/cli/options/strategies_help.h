// The help topic `strategies`: what the daemon's searches do, and their options.
#pragma once

#include <string>

namespace tunefarm::cli {

std::string StrategiesHelp(size_t columns);

}  // namespace tunefarm::cli
