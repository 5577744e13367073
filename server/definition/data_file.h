// The data files that a definition names (tunefarm.v1.DataFile).
//
// Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tunefarm/v1/kernel.pb.h"

namespace tunefarm {

inline constexpr int64_t kDataFileBytesMax = int64_t{2} << 30;
// Different ones of one definition.
inline constexpr int kDataFilesMax = 64;

// A file, with its place in the definition: "arguments[2].buffer.fill.file".
struct NamedDataFile {
  std::string field;
  const tunefarm::v1::DataFile* file = nullptr;  // in the definition
};

// In declared order. Files of one digest are listed once; those without a digest all are.
std::vector<NamedDataFile> DataFilesOf(const tunefarm::v1::Kernel& kernel);

// What a message calls a file: its path or, without one, its digest.
std::string NameOf(const tunefarm::v1::DataFile& file);

}  // namespace tunefarm
