// Recorded results of a file (T4 or Kernel Tuner's cache, also gzipped) as a simulation takes them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/search/recording.h"

namespace tunefarm {

absl::StatusOr<std::vector<RecordedTrial>> ReadRecordedTrials(const std::string& path);

// Named after the file.
absl::StatusOr<Recording> ReadRecording(const std::string& path);

}  // namespace tunefarm
