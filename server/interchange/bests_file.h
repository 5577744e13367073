// Bests of one machine's catalog as a file that another machine's tunefarm reads.
//
// What is read from it was measured elsewhere: a job may try it first, but a best is only what was measured here.
//
// Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/interchange/exported_best.h"

namespace tunefarm::interchange {

inline constexpr int64_t kBestsVersion = 1;
inline constexpr uint64_t kBestsBytesMax = uint64_t{256} << 20;
inline constexpr size_t kBestsMax = 200'000;

struct BestsSource {
  std::string host;            // or what the exporter calls it
  std::string data_directory;  // tells daemons of one host apart
  std::string tunefarm_version;
  int64_t exported_at_ms = 0;
};

struct BestsFile {
  BestsSource source;
  std::vector<ExportedBest> bests;  // in the order of the file
};

// A JSON object: "format": "tunefarm-bests", "version", "source", and "bests", which are BestConfig messages in their
// JSON form with the names of the .proto file.
std::string WriteBestsFile(const BestsFile& file);

// Whether a text begins as WriteBestsFile's do, so that other formats can be told apart from it.
bool IsBestsFile(std::string_view text);

// InvalidArgument "FILE:12:7: /bests/3/...: message" for what is no such file, for a later version, and for bests
// without kernel, class, dims' values, config or time.
absl::StatusOr<BestsFile> ReadBestsFile(std::string text, std::string file_name);

}  // namespace tunefarm::interchange
