#pragma once

#include <vector>

#include "server/base/mutex.h"
#include "server/store/recording_store.h"
#include "server/store/sqlite/reader_pool.h"
#include "server/store/sqlite/writer.h"

namespace tunefarm::sqlite {

// RecordingStore on the tables of the store's file. Thread-safe.
class SqliteRecordingStore : public RecordingStore {
 public:
  // Both outlive it, or are not used any more.
  SqliteRecordingStore(Writer* writer, ReaderPool* readers) : writer_(writer), readers_(readers) {}

  absl::StatusOr<PutRecordingResult> PutRecording(const PutRecordingRequest& request) override
      LOCKS_EXCLUDED(put_mutex_);
  absl::StatusOr<RecordingRow> GetRecording(int64_t recording_id) override;
  absl::StatusOr<RecordingRow> FindRecording(std::string_view display_name) override;
  absl::StatusOr<Page<RecordingRow>> ListRecordings(const PageRequest& page) override;
  absl::StatusOr<RecordingPart> GetRecordingPart(int64_t recording_id, int64_t result) override;
  absl::Status DeleteRecording(int64_t recording_id) override LOCKS_EXCLUDED(put_mutex_);

  // What a crash left of recordings that were being written or deleted.
  absl::Status DropLeftovers() LOCKS_EXCLUDED(put_mutex_);

 private:
  absl::Status WriteParts(int64_t recording_id, const std::vector<RecordingPart>& parts)
      EXCLUSIVE_LOCKS_REQUIRED(put_mutex_);
  absl::Status DropIncomplete(int64_t recording_id) EXCLUSIVE_LOCKS_REQUIRED(put_mutex_);
  absl::Status DropAllIncomplete() EXCLUSIVE_LOCKS_REQUIRED(put_mutex_);

  Writer* const writer_;
  ReaderPool* const readers_;
  Mutex put_mutex_;  // held through all parts of one, so that what is incomplete is left over or going
};

}  // namespace tunefarm::sqlite
