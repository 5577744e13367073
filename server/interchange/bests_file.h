// Bests of one machine's catalog as a file that another machine's tunefarm reads.
//
// What is read from it was measured elsewhere. It becomes recorded results (RecordingsOf), which no look-up sees, and
// from there what a job tries first; a best is only what was measured here.
//
// Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
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

// InvalidArgument "FILE:12:7: /bests/3/...: message" for what is no such file, for a later version, and for bests
// without kernel, class, dims' values, config or time.
absl::StatusOr<BestsFile> ReadBestsFile(std::string text, std::string file_name);

// In names of recorded parameters: "dim.M" is the dim M.
inline constexpr std::string_view kDimPrefix = "dim.";

// The bests of one kernel on one class, with the same names of dims and parameters, as a T4 text: one row for each
// best, whose parameters are its dims (kDimPrefix) and its config.
struct BestsRecording {
  std::string kernel_name, device_class_id, device_class_name;
  int64_t problems = 0;
  std::string t4;
};
struct BestsRecordings {
  std::vector<BestsRecording> recordings;  // sorted by kernel and class
  int64_t left_out = 0;                    // pinned problems, and those with input seeds of their own
};
BestsRecordings RecordingsOf(const BestsFile& file);

// Dims and config of a row of such a recording; dims are empty for a row of another file.
std::pair<Config, Config> SplitRecorded(const Config& row);

}  // namespace tunefarm::interchange
