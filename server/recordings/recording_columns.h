// A file of recorded results by columns: small enough to be kept by the million, and sent as it is kept.
//
// Pure; any thread.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "server/interchange/recorded_file.h"
#include "server/store/recording_store.h"
#include "tunefarm/v1/recording.pb.h"

namespace tunefarm {

// Results of one part: what a page may have.
inline constexpr int kResultsInPart = 8192;
// Distinct values of all parameters together: what names them fits in one message.
inline constexpr int kRecordedValuesMax = 65'536;

struct RecordingColumns {
  v1::Recording recording;  // what the rows and the file say: counts, objective, parameters, notes; no names, no digest
  std::vector<RecordingPart> parts;
};

// InvalidArgument, naming the file, over kRecordedValuesMax.
absl::StatusOr<RecordingColumns> ColumnsOf(const interchange::RecordedFile& file, std::string_view file_name);

// `count` results of a part, from its result `first` on; both within it. DataLoss for a part that is none.
absl::StatusOr<v1::RecordedResults> ResultsOfPart(const RecordingPart& part, int parameters, int first, int count);

}  // namespace tunefarm
