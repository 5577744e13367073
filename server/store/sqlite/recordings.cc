#include "server/store/sqlite/recordings.h"

#include <limits>

#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/page_token.h"

namespace tunefarm::sqlite {
namespace {

#define TUNEFARM_RECORDING_COLUMNS                                                                           \
  "r.recording_id, r.display_name, r.content_digest, r.kernel_name, r.problem, r.device_name, r.file_name, " \
  "r.result_count, r.valid_count, r.stored_bytes, r.imported_at_ms, d.detail"
#define TUNEFARM_RECORDING_TABLES " FROM recording r JOIN recording_detail d ON d.recording_id = r.recording_id "
constexpr int kRecordingColumns = 12;

RecordingRow ReadRecording(const Statement& row) {
  RecordingRow recording;
  recording.recording_id = row.Int(0);
  recording.display_name = row.Bytes(1);
  recording.content_digest = row.Bytes(2);
  recording.kernel_name = row.Bytes(3);
  recording.problem = row.Bytes(4);
  recording.device_name = row.Bytes(5);
  recording.file_name = row.Bytes(6);
  recording.result_count = row.Int(7);
  recording.valid_count = row.Int(8);
  recording.stored_bytes = row.Int(9);
  recording.imported_at_ms = row.Int(10);
  recording.detail = row.Bytes(11);
  return recording;
}

absl::Status CheckParts(const PutRecordingRequest& request) {
  int64_t next = 0;
  for (const RecordingPart& part : request.parts) {
    if (part.first_result != next || part.result_count < 1) {
      return InvalidArgument("a part of {} results begins at {}, not at {}", part.result_count, part.first_result,
                             next);
    }
    next += part.result_count;
  }
  if (next == request.recording.result_count) return absl::OkStatus();
  return InvalidArgument("the parts have {} results, not {}", next, request.recording.result_count);
}

int64_t BytesOf(const PutRecordingRequest& request) {
  int64_t bytes = static_cast<int64_t>(request.recording.detail.size() + request.recording.parameters.size());
  for (const RecordingPart& part : request.parts) bytes += static_cast<int64_t>(part.results.size());
  return bytes;
}

absl::Status CheckRoom(Database& database, const PutRecordingRequest& request) {
  ASSIGN_OR_RETURN(const int64_t recordings, database.QueryInt("SELECT count(*) FROM recording"));
  ASSIGN_OR_RETURN(const int64_t bytes, database.QueryInt("SELECT coalesce(sum(stored_bytes), 0) FROM recording"));
  if (recordings >= request.recordings_max) {
    return WithReason(ResourceExhausted("{} recordings are stored, as many as may be; delete some first", recordings),
                      "RECORDINGS_FULL");
  }
  if (bytes > request.bytes_max - BytesOf(request)) {
    return WithReason(ResourceExhausted("the recordings have {} bytes and this one {}, of {} that they may have; "
                                        "delete some first",
                                        bytes, BytesOf(request), request.bytes_max),
                      "RECORDINGS_FULL");
  }
  return absl::OkStatus();
}

// The row without its parts, not visible yet.
absl::StatusOr<PutRecordingResult> BeginRecording(Database& database, const PutRecordingRequest& request) {
  const RecordingRow& recording = request.recording;
  Statement same = database.Prepare("SELECT recording_id FROM recording WHERE content_digest = ?");
  ASSIGN_OR_RETURN(const bool is_stored, same.Bind(recording.content_digest).Step());
  if (is_stored) return PutRecordingResult{same.Int(0), true};
  Statement named = database.Prepare("SELECT recording_id FROM recording WHERE display_name = ?");
  ASSIGN_OR_RETURN(const bool is_taken, named.Bind(recording.display_name).Step());
  if (is_taken) {
    return WithReason(
        AlreadyExists("the name {} is that of recording {}; choose another", recording.display_name, named.Int(0)),
        "RECORDING_NAME_TAKEN");
  }
  RETURN_IF_ERROR(CheckRoom(database, request));
  RETURN_IF_ERROR(database
                      .Prepare("INSERT INTO recording (display_name, content_digest, kernel_name, problem, "
                               "device_name, file_name, result_count, valid_count, stored_bytes, imported_at_ms, "
                               "is_complete) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)")
                      .Bind(recording.display_name, recording.content_digest, recording.kernel_name, recording.problem,
                            recording.device_name, recording.file_name, recording.result_count, recording.valid_count,
                            BytesOf(request), recording.imported_at_ms)
                      .Run());
  const int64_t id = database.LastInsertId();
  RETURN_IF_ERROR(database.Prepare("INSERT INTO recording_detail (recording_id, detail, parameters) VALUES (?, ?, ?)")
                      .Bind(id, Blob{recording.detail}, Blob{recording.parameters})
                      .Run());
  return PutRecordingResult{id, false};
}

absl::Status PutPart(Database& database, int64_t recording_id, const RecordingPart& part) {
  return database
      .Prepare("INSERT INTO recording_part (recording_id, first_result, result_count, results) VALUES (?, ?, ?, ?)")
      .Bind(recording_id, part.first_result, part.result_count, Blob{part.results})
      .Run();
}

absl::Status CompleteRecording(Database& database, int64_t recording_id) {
  return database.Prepare("UPDATE recording SET is_complete = 1 WHERE recording_id = ?").Bind(recording_id).Run();
}

// Of a recording that nobody sees the next part, or itself when it has none left: what is freed is written over page by
// page, and other writes wait for it. False: that was all.
absl::StatusOr<bool> DropNext(Database& database, int64_t recording_id) {
  RETURN_IF_ERROR(database
                      .Prepare("DELETE FROM recording_part WHERE recording_id = ?1 AND first_result = (SELECT "
                               "min(first_result) FROM recording_part WHERE recording_id = ?1)")
                      .Bind(recording_id)
                      .Run());
  if (database.Changes() > 0) return true;
  RETURN_IF_ERROR(
      database.Prepare("DELETE FROM recording WHERE recording_id = ? AND is_complete = 0").Bind(recording_id).Run());
  return false;
}

absl::StatusOr<std::vector<int64_t>> Incomplete(Database& database) {
  std::vector<int64_t> ids;
  Statement rows = database.Prepare("SELECT recording_id FROM recording WHERE is_complete = 0");
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, rows.Step());
    if (!has_row) return ids;
    ids.push_back(rows.Int(0));
  }
}

absl::StatusOr<Page<RecordingRow>> ListAll(Database& database, const PageRequest& page) {
  constexpr std::string_view kQuery = "recordings";
  ASSIGN_OR_RETURN(const auto after, DecodePageToken(kQuery, page.page_token, 1));
  const auto size = static_cast<size_t>(EffectivePageSize(page.page_size));
  Page<RecordingRow> result;
  Statement rows = database.Prepare("SELECT " TUNEFARM_RECORDING_COLUMNS TUNEFARM_RECORDING_TABLES
                                    "WHERE r.is_complete = 1 AND r.recording_id < ? ORDER BY r.recording_id DESC "
                                    "LIMIT ?");
  // One row more than asked for tells whether there is a next page.
  rows.Bind(after.has_value() ? (*after)[0] : std::numeric_limits<int64_t>::max(), static_cast<int64_t>(size + 1));
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, rows.Step());
    if (!has_row) return result;
    if (result.rows.size() == size) {
      result.next_page_token = EncodePageToken(kQuery, {result.rows.back().recording_id});
      return result;
    }
    result.rows.push_back(ReadRecording(rows));
  }
}

absl::StatusOr<RecordingPart> ReadPart(Database& database, int64_t recording_id, int64_t result) {
  Statement recording =
      database.Prepare("SELECT result_count FROM recording WHERE is_complete = 1 AND recording_id = ?");
  ASSIGN_OR_RETURN(const bool found, recording.Bind(recording_id).Step());
  if (!found) return NotFound("recording {} does not exist", recording_id);
  const int64_t results = recording.Int(0);
  if (result < 0 || result >= results) {
    return OutOfRange("recording {} has {} results; there is none at {}", recording_id, results, result);
  }
  Statement part = database.Prepare(
      "SELECT first_result, result_count, results FROM recording_part WHERE recording_id = ? AND first_result <= ? "
      "ORDER BY first_result DESC LIMIT 1");
  ASSIGN_OR_RETURN(const bool has_part, part.Bind(recording_id, result).Step());
  if (!has_part || part.Int(0) + part.Int(1) <= result) {
    return DataLoss("the results of recording {} lack those at {}", recording_id, result);
  }
  return RecordingPart{part.Int(0), static_cast<int>(part.Int(1)), part.Bytes(2)};
}

}  // namespace

absl::StatusOr<PutRecordingResult> SqliteRecordingStore::PutRecording(const PutRecordingRequest& request) {
  RETURN_IF_ERROR(CheckParts(request));
  const MutexLock lock(&put_mutex_);
  RETURN_IF_ERROR(DropAllIncomplete());
  ASSIGN_OR_RETURN(const PutRecordingResult put,
                   writer_->Call([&](Database& database) { return BeginRecording(database, request); }));
  if (put.was_duplicate) return put;
  const absl::Status written = WriteParts(put.recording_id, request.parts);
  if (written.ok()) return put;
  // Nobody could delete what is there, and the next import may be refused for want of just this room.
  if (const absl::Status dropped = DropIncomplete(put.recording_id); !dropped.ok()) {
    LogWarn("store", "what was written of recording {} stays until the next one or the next start: {}",
            put.recording_id, MessageOf(dropped));
  }
  return written;
}

absl::Status SqliteRecordingStore::WriteParts(int64_t recording_id, const std::vector<RecordingPart>& parts) {
  for (const RecordingPart& part : parts) {
    RETURN_IF_ERROR(writer_->Run([&](Database& database) { return PutPart(database, recording_id, part); }));
  }
  return writer_->Run([&](Database& database) { return CompleteRecording(database, recording_id); });
}

absl::Status SqliteRecordingStore::DropIncomplete(int64_t recording_id) {
  bool has_more = true;
  while (has_more) {
    ASSIGN_OR_RETURN(has_more, writer_->Call([&](Database& database) { return DropNext(database, recording_id); }));
  }
  return absl::OkStatus();
}

absl::Status SqliteRecordingStore::DropAllIncomplete() {
  ASSIGN_OR_RETURN(const std::vector<int64_t> ids, writer_->Call(Incomplete));
  for (const int64_t id : ids) RETURN_IF_ERROR(DropIncomplete(id));
  return absl::OkStatus();
}

absl::Status SqliteRecordingStore::DropLeftovers() {
  const MutexLock lock(&put_mutex_);
  return DropAllIncomplete();
}

absl::StatusOr<RecordingRow> SqliteRecordingStore::GetRecording(int64_t recording_id) {
  return readers_->Read([&](Database& database) -> absl::StatusOr<RecordingRow> {
    Statement row = database.Prepare("SELECT " TUNEFARM_RECORDING_COLUMNS ", d.parameters" TUNEFARM_RECORDING_TABLES
                                     "WHERE r.is_complete = 1 AND r.recording_id = ?");
    ASSIGN_OR_RETURN(const bool found, row.Bind(recording_id).Step());
    if (!found) return NotFound("recording {} does not exist", recording_id);
    RecordingRow recording = ReadRecording(row);
    recording.parameters = row.Bytes(kRecordingColumns);
    return recording;
  });
}

absl::StatusOr<RecordingRow> SqliteRecordingStore::FindRecording(std::string_view display_name) {
  return readers_->Read([&](Database& database) -> absl::StatusOr<RecordingRow> {
    Statement row = database.Prepare("SELECT " TUNEFARM_RECORDING_COLUMNS ", d.parameters" TUNEFARM_RECORDING_TABLES
                                     "WHERE r.is_complete = 1 AND r.display_name = ?");
    ASSIGN_OR_RETURN(const bool found, row.Bind(display_name).Step());
    if (!found) return NotFound("no recording is called \"{}\"", display_name);
    RecordingRow recording = ReadRecording(row);
    recording.parameters = row.Bytes(kRecordingColumns);
    return recording;
  });
}

absl::StatusOr<Page<RecordingRow>> SqliteRecordingStore::ListRecordings(const PageRequest& page) {
  return readers_->Read([&](Database& database) { return ListAll(database, page); });
}

absl::StatusOr<RecordingPart> SqliteRecordingStore::GetRecordingPart(int64_t recording_id, int64_t result) {
  return readers_->Read([&](Database& database) { return ReadPart(database, recording_id, result); });
}

absl::Status SqliteRecordingStore::DeleteRecording(int64_t recording_id) {
  const MutexLock lock(&put_mutex_);
  // Gone at once for everybody, whatever becomes of its parts.
  RETURN_IF_ERROR(writer_->Run([&](Database& database) -> absl::Status {
    // One that is being written is not there yet for anybody but its writer.
    RETURN_IF_ERROR(database.Prepare("UPDATE recording SET is_complete = 0 WHERE is_complete = 1 AND recording_id = ?")
                        .Bind(recording_id)
                        .Run());
    if (database.Changes() == 0) return NotFound("recording {} does not exist", recording_id);
    return absl::OkStatus();
  }));
  return DropIncomplete(recording_id);
}

}  // namespace tunefarm::sqlite
