// RecordingStore: the recorded results of other tools, kept beside what this farm measured and never mixed with it.
// Only server/recordings uses it; tests/tidy checks that. Tested with the Store (tests/store).
//
// Threads and errors: as Store. Writes of one recording go in parts, between which others may write; one recording is
// written or deleted at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/store.h"

namespace tunefarm {

struct RecordingRow {
  int64_t recording_id = 0;  // set by the store
  std::string display_name;
  std::string content_digest;  // hex
  std::string kernel_name, problem, device_name, file_name;
  int64_t result_count = 0;
  int64_t valid_count = 0;
  int64_t stored_bytes = 0;  // of parts, detail and parameters; set by the store
  std::string detail;        // opaque
  std::string parameters;    // opaque; empty in lists
  int64_t imported_at_ms = 0;
};

// Results that follow each other.
struct RecordingPart {
  int64_t first_result = 0;
  int result_count = 0;
  std::string results;  // opaque
};

struct PutRecordingRequest {
  RecordingRow recording;
  std::vector<RecordingPart> parts;  // in order, without gaps, from 0 on
  int64_t recordings_max = 0;        // stored ones, this one included
  int64_t bytes_max = 0;             // of all their stored_bytes
};
struct PutRecordingResult {
  int64_t recording_id = 0;
  bool was_duplicate = false;  // the content was stored before under this id; nothing was changed
};

class RecordingStore {
 public:
  virtual ~RecordingStore() = default;

  // InvalidArgument unless the parts add up to result_count; AlreadyExists (reason RECORDING_NAME_TAKEN) for a name
  // that another content has; ResourceExhausted (reason RECORDINGS_FULL) beyond a bound. It is visible when all of it
  // is stored; nothing stays of one that fails. What a crash left goes when the store is opened, or with the next one.
  virtual absl::StatusOr<PutRecordingResult> PutRecording(const PutRecordingRequest& request) = 0;
  virtual absl::StatusOr<RecordingRow> GetRecording(int64_t recording_id) = 0;
  virtual absl::StatusOr<RecordingRow> FindRecording(std::string_view display_name) = 0;
  virtual absl::StatusOr<Page<RecordingRow>> ListRecordings(const PageRequest& page) = 0;  // newest first
  // The part that holds this result. OutOfRange behind the last one.
  virtual absl::StatusOr<RecordingPart> GetRecordingPart(int64_t recording_id, int64_t result) = 0;
  // Gone for everybody at once; its parts follow one by one, so that others may write meanwhile.
  virtual absl::Status DeleteRecording(int64_t recording_id) = 0;
};

}  // namespace tunefarm
