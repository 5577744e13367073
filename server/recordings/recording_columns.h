// A file of recorded results by columns: small enough to be kept by the million, and sent as it is kept.
//
// Pure; any thread.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/interchange/recorded_file.h"
#include "server/store/recording_store.h"
#include "tunefarm/v1/recording.pb.h"

namespace tunefarm {

// Results of one part: what a page may have.
inline constexpr int kResultsInPart = 8192;
// Distinct values of all parameters together: what names them fits in one message.
inline constexpr int kRecordedValuesMax = 65'536;
// And their bytes, with names: what the store takes (migrations/sqlite, recording_detail).
inline constexpr size_t kRecordedParametersBytesMax = size_t{8} << 20;

// Takes the rows of one file and gives its columns. Used by one thread.
class RecordingColumns {
 public:
  // InvalidArgument, reason RECORDING_TOO_LARGE, over kRecordedValuesMax.
  absl::Status Add(const interchange::RecordedFile& file, const interchange::RecordedRow& row);

  // When all rows are there. What the rows and the file say: counts, objective, parameters, notes; no names, no digest.
  v1::Recording Describe(const interchange::RecordedFile& file) const;
  std::vector<RecordingPart> TakeParts();

 private:
  // The places of the values that one parameter has had, by type and text.
  struct Places {
    std::string name;
    std::unordered_map<std::string, uint32_t> of_value;
    v1::RecordedParameter parameter;
  };
  void ClosePart();

  std::vector<Places> parameters_;
  int64_t values_ = 0;
  int64_t results_ = 0, valid_ = 0;
  double best_ = 0;
  v1::RecordedResults part_;
  std::vector<RecordingPart> parts_;
};

// `count` results of a part, from its result `first` on; both within it. DataLoss for a part that is none.
absl::StatusOr<v1::RecordedResults> ResultsOfPart(const RecordingPart& part, int parameters, int first, int count);

}  // namespace tunefarm
