#include "server/store/postgres/recordings.h"

#include <limits>

#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/page_token.h"

namespace tunefarm::postgres {
namespace {

constexpr int64_t kWriterLock = 0x746e666d7265636f;  // any number that nobody else takes: "tnfmreco"

#define TUNEFARM_PG_RECORDING_COLUMNS                                                                        \
  "r.recording_id, r.display_name, r.content_digest, r.kernel_name, r.problem, r.device_name, r.file_name, " \
  "r.result_count, r.valid_count, r.stored_bytes, r.imported_at_ms, d.detail"
#define TUNEFARM_PG_RECORDING_TABLES " FROM recording r JOIN recording_detail d ON d.recording_id = r.recording_id "
constexpr int kRecordingColumns = 12;

RecordingRow ReadRecording(const Row& row) {
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

RecordingRow ReadWithParameters(const Row& row) {
  RecordingRow recording = ReadRecording(row);
  recording.parameters = row.Bytes(kRecordingColumns);
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

absl::Status CheckRoom(Session& session, const PutRecordingRequest& request) {
  ASSIGN_OR_RETURN(const int64_t recordings, session.QueryInt("SELECT count(*) FROM recording"));
  ASSIGN_OR_RETURN(const int64_t bytes,
                   session.QueryInt("SELECT coalesce(sum(stored_bytes), 0)::bigint FROM recording"));
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
absl::StatusOr<PutRecordingResult> BeginRecording(Session& session, const PutRecordingRequest& request) {
  const RecordingRow& recording = request.recording;
  ASSIGN_OR_RETURN(const Rows same, session.Query("SELECT recording_id FROM recording WHERE content_digest = $1",
                                                  recording.content_digest));
  if (!same.empty()) return PutRecordingResult{same[0].Int(0), true};
  ASSIGN_OR_RETURN(const Rows named,
                   session.Query("SELECT recording_id FROM recording WHERE display_name = $1", recording.display_name));
  if (!named.empty()) {
    return WithReason(
        AlreadyExists("the name {} is that of recording {}; choose another", recording.display_name, named[0].Int(0)),
        "RECORDING_NAME_TAKEN");
  }
  RETURN_IF_ERROR(CheckRoom(session, request));
  ASSIGN_OR_RETURN(
      const int64_t id,
      session.QueryInt(
          "INSERT INTO recording (display_name, content_digest, kernel_name, problem, device_name, "
          "file_name, result_count, valid_count, stored_bytes, imported_at_ms, is_complete) VALUES ($1, $2, "
          "$3, $4, $5, $6, $7, $8, $9, $10, false) RETURNING recording_id",
          recording.display_name, recording.content_digest, recording.kernel_name, recording.problem,
          recording.device_name, recording.file_name, recording.result_count, recording.valid_count, BytesOf(request),
          recording.imported_at_ms));
  RETURN_IF_ERROR(session
                      .Run("INSERT INTO recording_detail (recording_id, detail, parameters) VALUES ($1, $2, $3)", id,
                           Blob{recording.detail}, Blob{recording.parameters})
                      .status());
  return PutRecordingResult{id, false};
}

// One step of a longer piece of work on the session that holds the writer's lock: a transaction of its own, not
// repeated, since the lock is gone with the session.
template <typename F>
auto Step(Session& session, F operation) -> std::invoke_result_t<F> {
  RETURN_IF_ERROR(session.Begin());
  auto result = operation();
  const absl::Status status = [&] {
    if constexpr (std::is_same_v<std::invoke_result_t<F>, absl::Status>) {
      return result;
    } else {
      return result.status();
    }
  }();
  if (!status.ok()) {
    session.Rollback();
    return result;
  }
  RETURN_IF_ERROR(session.Commit());
  return result;
}

// Of a recording that nobody sees the parts, some at a time, and then itself.
absl::Status DropIncomplete(Session& session, int64_t recording_id) {
  while (true) {
    ASSIGN_OR_RETURN(const int64_t parts,
                     session.Run("DELETE FROM recording_part WHERE recording_id = $1 AND first_result IN (SELECT "
                                 "first_result FROM recording_part WHERE recording_id = $1 ORDER BY first_result LIMIT "
                                 "16)",
                                 recording_id));
    if (parts == 0) break;
  }
  return session.Run("DELETE FROM recording WHERE recording_id = $1 AND NOT is_complete", recording_id).status();
}

absl::Status DropAllIncomplete(Session& session) {
  ASSIGN_OR_RETURN(const Rows rows, session.Query("SELECT recording_id FROM recording WHERE NOT is_complete"));
  for (int i = 0; i < rows.size(); ++i) RETURN_IF_ERROR(DropIncomplete(session, rows[i].Int(0)));
  return absl::OkStatus();
}

// With the lock of the only writer, on a session of its own.
absl::Status AsWriter(Pool* pool, bool may_wait, const std::function<absl::Status(Session&)>& work) {
  return pool->Use([&](Session& session) -> absl::Status {
    ASSIGN_OR_RETURN(const Rows taken,
                     may_wait ? session.Query("SELECT true FROM (SELECT pg_advisory_lock($1)) l", kWriterLock)
                              : session.Query("SELECT pg_try_advisory_lock($1)", kWriterLock));
    if (taken[0].Int(0) == 0) return absl::OkStatus();
    const absl::Status status = work(session);
    if (!session.is_broken()) {
      const absl::Status unlocked = session.Run("SELECT pg_advisory_unlock($1)", kWriterLock).status();
      if (!unlocked.ok()) LogWarn("store", "the lock of recordings stays with its session: {}", MessageOf(unlocked));
    }
    return status;
  });
}

absl::Status WriteParts(Session& session, int64_t recording_id, const std::vector<RecordingPart>& parts) {
  for (const RecordingPart& part : parts) {
    RETURN_IF_ERROR(session
                        .Run("INSERT INTO recording_part (recording_id, first_result, result_count, results) VALUES "
                             "($1, $2, $3, $4)",
                             recording_id, part.first_result, part.result_count, Blob{part.results})
                        .status());
  }
  return session.Run("UPDATE recording SET is_complete = true WHERE recording_id = $1", recording_id).status();
}

absl::StatusOr<Page<RecordingRow>> ListAll(Session& session, const PageRequest& page) {
  constexpr std::string_view kQuery = "recordings";
  ASSIGN_OR_RETURN(const auto after, DecodePageToken(kQuery, page.page_token, 1));
  const int size = EffectivePageSize(page.page_size);
  // One row more than asked for tells whether there is a next page.
  ASSIGN_OR_RETURN(const Rows rows,
                   session.Query("SELECT " TUNEFARM_PG_RECORDING_COLUMNS TUNEFARM_PG_RECORDING_TABLES
                                 "WHERE r.is_complete AND r.recording_id < $1 ORDER BY r.recording_id DESC LIMIT $2",
                                 after.has_value() ? (*after)[0] : std::numeric_limits<int64_t>::max(), size + 1));
  Page<RecordingRow> result;
  for (int i = 0; i < rows.size() && i < size; ++i) result.rows.push_back(ReadRecording(rows[i]));
  if (rows.size() > size) result.next_page_token = EncodePageToken(kQuery, {result.rows.back().recording_id});
  return result;
}

absl::StatusOr<RecordingPart> ReadPart(Session& session, int64_t recording_id, int64_t result) {
  ASSIGN_OR_RETURN(
      const Rows recording,
      session.Query("SELECT result_count FROM recording WHERE is_complete AND recording_id = $1", recording_id));
  if (recording.empty()) return NotFound("recording {} does not exist", recording_id);
  const int64_t results = recording[0].Int(0);
  if (result < 0 || result >= results) {
    return OutOfRange("recording {} has {} results; there is none at {}", recording_id, results, result);
  }
  ASSIGN_OR_RETURN(const Rows part,
                   session.Query("SELECT first_result, result_count, results FROM recording_part WHERE recording_id = "
                                 "$1 AND first_result <= $2 ORDER BY first_result DESC LIMIT 1",
                                 recording_id, result));
  if (part.empty() || part[0].Int(0) + part[0].Int(1) <= result) {
    return DataLoss("the results of recording {} lack those at {}", recording_id, result);
  }
  return RecordingPart{part[0].Int(0), static_cast<int>(part[0].Int(1)), part[0].Bytes(2)};
}

}  // namespace

absl::StatusOr<PutRecordingResult> PostgresRecordingStore::PutRecording(const PutRecordingRequest& request) {
  RETURN_IF_ERROR(CheckParts(request));
  PutRecordingResult put;
  RETURN_IF_ERROR(AsWriter(pool_, true, [&](Session& session) -> absl::Status {
    RETURN_IF_ERROR(DropAllIncomplete(session));
    ASSIGN_OR_RETURN(put, Step(session, [&] { return BeginRecording(session, request); }));
    if (put.was_duplicate) return absl::OkStatus();
    const absl::Status written = WriteParts(session, put.recording_id, request.parts);
    if (written.ok()) return written;
    // Nobody could delete what is there, and the next import may be refused for want of just this room.
    if (const absl::Status dropped = DropIncomplete(session, put.recording_id); !dropped.ok()) {
      LogWarn("store", "what was written of recording {} stays until the next one or the next start: {}",
              put.recording_id, MessageOf(dropped));
    }
    return written;
  }));
  return put;
}

absl::Status PostgresRecordingStore::DropLeftovers() { return AsWriter(pool_, false, DropAllIncomplete); }

absl::StatusOr<RecordingRow> PostgresRecordingStore::GetRecording(int64_t recording_id) {
  return pool_->Call(&Pool::Read, [&](Session& session) -> absl::StatusOr<RecordingRow> {
    ASSIGN_OR_RETURN(const Rows rows,
                     session.Query("SELECT " TUNEFARM_PG_RECORDING_COLUMNS ", d.parameters" TUNEFARM_PG_RECORDING_TABLES
                                   "WHERE r.is_complete AND r.recording_id = $1",
                                   recording_id));
    if (rows.empty()) return NotFound("recording {} does not exist", recording_id);
    return ReadWithParameters(rows[0]);
  });
}

absl::StatusOr<RecordingRow> PostgresRecordingStore::FindRecording(std::string_view display_name) {
  return pool_->Call(&Pool::Read, [&](Session& session) -> absl::StatusOr<RecordingRow> {
    ASSIGN_OR_RETURN(const Rows rows,
                     session.Query("SELECT " TUNEFARM_PG_RECORDING_COLUMNS ", d.parameters" TUNEFARM_PG_RECORDING_TABLES
                                   "WHERE r.is_complete AND r.display_name = $1",
                                   display_name));
    if (rows.empty()) return NotFound("no recording is called \"{}\"", display_name);
    return ReadWithParameters(rows[0]);
  });
}

absl::StatusOr<Page<RecordingRow>> PostgresRecordingStore::ListRecordings(const PageRequest& page) {
  return pool_->Call(&Pool::Read, [&](Session& session) { return ListAll(session, page); });
}

absl::StatusOr<RecordingPart> PostgresRecordingStore::GetRecordingPart(int64_t recording_id, int64_t result) {
  return pool_->Call(&Pool::ReadSnapshot, [&](Session& session) { return ReadPart(session, recording_id, result); });
}

absl::Status PostgresRecordingStore::DeleteRecording(int64_t recording_id) {
  return AsWriter(pool_, true, [&](Session& session) -> absl::Status {
    // Gone at once for everybody, whatever becomes of its parts.
    ASSIGN_OR_RETURN(
        const int64_t changes,
        session.Run("UPDATE recording SET is_complete = false WHERE is_complete AND recording_id = $1", recording_id));
    if (changes == 0) return NotFound("recording {} does not exist", recording_id);
    return DropIncomplete(session, recording_id);
  });
}

}  // namespace tunefarm::postgres
