#pragma once

#include <string>

namespace tunefarm {

// Removes what a trial has left in its scratch directory, so that the next one finds it empty and all of its space
// free. Costs microseconds when there is nothing. What cannot be removed stays: the worker's end takes it along. An
// empty path means none; any other must be a directory that belongs to the worker alone.
void EmptyScratchDirectory(const std::string& path);

}  // namespace tunefarm
