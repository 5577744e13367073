// Bests as a C++17 header without dependencies: for each kernel a sorted table of constants and a look-up, so that a
// program needs no daemon, no file and no start-up.
//
// Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/interchange/exported_best.h"

namespace tunefarm::interchange {

struct CppHeaderOptions {
  std::string name_space = "tunefarm_bests";  // "a::b" nests
};

struct CppHeader {
  std::string text;
  int64_t entries = 0;
  // Left out: pinned problems and those with input seeds of their own, what an older program found where a newer one
  // has an entry, entries that differ from another one only in dims with inputs_only, which the header does not have,
  // and entries whose dims or parameters differ in name or type from the newest of their kernel.
  int64_t left_out = 0;
};

// Dims and parameters that are words of C++ get a '_' behind their name, as do kernels' names that are no identifiers
// in place of the letters that cannot be in one. InvalidArgument for a namespace or a name that cannot be written, and
// for kernels whose names become the same.
absl::StatusOr<CppHeader> WriteCppHeader(std::vector<ExportedBest> bests, const CppHeaderOptions& options);

}  // namespace tunefarm::interchange
