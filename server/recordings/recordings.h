// Recordings: results that other tools recorded, uploaded as files, kept, and read back by whoever simulates on them.
//
// They are data of somebody else's machine and never measurements of ours: nothing that tunes, looks up, promotes or
// reuses can reach them (tests/tidy keeps recording_store.h out of those folders).
//
// Threads: any. Create and RecordingUpload::Finish parse and write: seconds for a large file, two to three times its
// unpacked size of memory; one file is read at a time, others wait. The rest takes milliseconds.
//
// Errors carry a reason: BAD_JSON, BAD_FIELD, NOT_MAPPABLE (InvalidArgument, "FILE:12:7: ..."), RECORDING_TOO_LARGE,
// RECORDING_INVALID (InvalidArgument), RECORDING_NAME_TAKEN (AlreadyExists), RECORDINGS_FULL, LOW_SPACE,
// UPLOADS_FULL (ResourceExhausted), RECORDING_NOT_FOUND (NotFound), NAME_INVALID, PAGE_TOKEN_INVALID.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/store/recording_store.h"
#include "tunefarm/v1/recording_service.pb.h"

namespace tunefarm {

struct RecordingLimits {
  uint64_t content_bytes_max = uint64_t{64} << 20;    // of a file as it is sent
  uint64_t unpacked_bytes_max = uint64_t{256} << 20;  // of the same file
  uint64_t upload_bytes_max = uint64_t{256} << 20;    // of all files on their way
  int64_t recordings_max = 1000;
  int64_t stored_bytes_max = int64_t{1} << 30;
};

// Those of a daemon whose database may have so many bytes (0: no bound). Retention does not take recordings, so all of
// them together must not keep jobs out.
RecordingLimits LimitsOfDatabase(int64_t database_bytes_max);

class Recordings {
 public:
  // `check_space` (may be null) refuses new ones while space is low. Store and clock outlive it.
  Recordings(RecordingStore* store, Clock* clock, std::function<absl::Status()> check_space,
             const RecordingLimits& limits = {});

  // `about`: the first message of the upload; its content counts for nothing. `is_gone` (may be null) is asked when the
  // file is read and before anything of it is stored: what a client that went away had sent may look like a file.
  absl::StatusOr<v1::CreateRecordingResponse> Create(const v1::CreateRecordingRequest& about, std::string content,
                                                     const std::function<bool()>& is_gone = nullptr)
      LOCKS_EXCLUDED(reading_);
  // By "recordings/{recording}" or by display name.
  absl::StatusOr<v1::Recording> Get(const std::string& name);
  absl::StatusOr<v1::ListRecordingsResponse> List(const v1::ListRecordingsRequest& request);
  absl::StatusOr<v1::ListRecordedResultsResponse> ListResults(const v1::ListRecordedResultsRequest& request);
  absl::Status Delete(const std::string& name);

 private:
  friend class RecordingUpload;
  absl::StatusOr<int64_t> IdOf(const std::string& name);

  RecordingStore* const store_;
  Clock* const clock_;
  const std::function<absl::Status()> check_space_;
  const RecordingLimits limits_;
  std::atomic<uint64_t> upload_bytes_{0};
  Mutex reading_;  // held while one file is read: what that takes of memory is taken once
};

// One upload, message by message. Used by one thread at a time; ends before its Recordings.
class RecordingUpload {
 public:
  explicit RecordingUpload(Recordings* recordings) : recordings_(recordings) {}
  ~RecordingUpload();
  RecordingUpload(const RecordingUpload&) = delete;
  RecordingUpload& operator=(const RecordingUpload&) = delete;

  // After an error nothing more may be added.
  absl::Status Add(v1::CreateRecordingRequest* message);
  // `is_gone`: as for Create.
  absl::StatusOr<v1::CreateRecordingResponse> Finish(const std::function<bool()>& is_gone = nullptr);

 private:
  Recordings* const recordings_;
  bool has_begun_ = false;
  v1::CreateRecordingRequest about_;
  std::string content_;
  uint64_t held_bytes_ = 0;
};

}  // namespace tunefarm
