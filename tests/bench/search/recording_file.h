// Reads recorded results: T4 files, and Kernel Tuner's cache files, plain or gzipped.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "server/search/recording.h"

namespace tunefarm {

absl::StatusOr<std::vector<RecordedTrial>> ReadRecordedTrials(const std::string& path);

// Named after the file.
absl::StatusOr<Recording> ReadRecording(const std::string& path);

}  // namespace tunefarm
