#pragma once

#include <functional>
#include <string>
#include <vector>

#include "server/store/postgres/pool.h"
#include "server/store/recording_store.h"

namespace tunefarm::postgres {

// RecordingStore on PostgreSQL. Whoever writes or deletes one holds an advisory lock of the database, so that what is
// incomplete while nobody holds it was left behind. Thread-safe.
class PostgresRecordingStore : public RecordingStore {
 public:
  // The pool outlives it, or it is not used any more.
  explicit PostgresRecordingStore(Pool* pool) : pool_(pool) {}

  absl::StatusOr<PutRecordingResult> PutRecording(const PutRecordingRequest& request) override;
  absl::StatusOr<RecordingRow> GetRecording(int64_t recording_id) override;
  absl::StatusOr<RecordingRow> FindRecording(std::string_view display_name) override;
  absl::StatusOr<Page<RecordingRow>> ListRecordings(const PageRequest& page) override;
  absl::StatusOr<RecordingPart> GetRecordingPart(int64_t recording_id, int64_t result) override;
  absl::Status DeleteRecording(int64_t recording_id) override;

  // What a crash left of recordings that were being written or deleted; nothing if somebody writes one just now.
  absl::Status DropLeftovers();

 private:
  Pool* const pool_;
};

}  // namespace tunefarm::postgres
