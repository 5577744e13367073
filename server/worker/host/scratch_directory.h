#pragma once

#include <string>

#include "absl/status/status.h"

namespace tunefarm {

// Removes what a trial has left in its scratch directory, whatever modes and depth it has, so that the next one finds
// it empty and all of its space free. Costs microseconds when there is nothing. After an error the worker must be
// replaced: its end removes the directory. An empty path means none; any other must be a directory that belongs to the
// worker alone.
absl::Status EmptyScratchDirectory(const std::string& path);

}  // namespace tunefarm
