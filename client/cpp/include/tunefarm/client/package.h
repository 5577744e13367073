// Packages: tuned kernels with their binaries, for the launch library (tunefarm/launch.h). Plain values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tunefarm/client/value.h"

namespace tunefarm::client {

// Which best configs a package has. What is empty chooses nothing.
struct PackageSpec {
  std::string kernel;                              // display name of a stored kernel, or "kernels/{id}"
  std::string device;                              // a device class: its id, its name, or a word of its name ("H200")
  std::map<std::string, std::vector<Value>> dims;  // of each of these dims one of the values
};

struct Package {
  std::string bytes;  // for tunefarm_package_open_bytes, which copies them, or as a file for tunefarm_package_open
  int64_t bests = 0;  // best configs in it
  std::vector<std::string> left_out;  // the others and why, a sentence each; at most 1000
};

}  // namespace tunefarm::client
