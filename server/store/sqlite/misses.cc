// Problems that were looked up and had no exact best, as the daemon counts them.

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/sqlite/operations.h"

namespace tunefarm::sqlite {
namespace {

constexpr size_t kRowsAtOnceMax = 1000;

#define TUNEFARM_MISS_COLUMNS                                                                    \
  "kernel_name, problem_key, class_id, class_name, program_digest, problem, asked, last_match, " \
  "last_distance, first_asked_at_ms, last_asked_at_ms"

absl::Status Delete(Database& database, const MissRow& row) {
  return database.Prepare("DELETE FROM miss WHERE kernel_name = ? AND problem_key = ? AND class_id = ?")
      .Bind(row.kernel_name, row.problem_key, row.class_id)
      .Run();
}

absl::Status Put(Database& database, const MissRow& row) {
  return database
      .Prepare("INSERT OR REPLACE INTO miss (" TUNEFARM_MISS_COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
      .Bind(row.kernel_name, row.problem_key, row.class_id, row.class_name, row.program_digest, Blob{row.problem},
            row.asked, row.match, row.distance, row.first_asked_at_ms, row.last_asked_at_ms)
      .Run();
}

absl::Status Add(Database& database, const MissRow& row) {
  return database
      .Prepare("INSERT INTO miss (" TUNEFARM_MISS_COLUMNS
               ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) ON CONFLICT (kernel_name, problem_key, "
               "class_id) DO UPDATE SET asked = asked + ?7, first_asked_at_ms = min(first_asked_at_ms, ?10)")
      .Bind(row.kernel_name, row.problem_key, row.class_id, row.class_name, row.program_digest, Blob{row.problem},
            row.asked, row.match, row.distance, row.first_asked_at_ms, row.last_asked_at_ms)
      .Run();
}

absl::Status NoteLastAnswer(Database& database, const MissRow& row) {
  return database
      .Prepare(
          "UPDATE miss SET class_name = ?4, program_digest = ?5, problem = ?6, last_match = ?7, last_distance = "
          "?8, last_asked_at_ms = ?9 WHERE kernel_name = ?1 AND problem_key = ?2 AND class_id = ?3 AND "
          "last_asked_at_ms < ?9")
      .Bind(row.kernel_name, row.problem_key, row.class_id, row.class_name, row.program_digest, Blob{row.problem},
            row.match, row.distance, row.last_asked_at_ms)
      .Run();
}

}  // namespace

absl::Status WriteMisses(Database& database, const MissChanges& changes) {
  if (changes.gone.size() + changes.present.size() > kRowsAtOnceMax) {
    return InvalidArgument("{} misses are too many for one write; at most {} are written at once",
                           changes.gone.size() + changes.present.size(), kRowsAtOnceMax);
  }
  for (const MissRow& row : changes.gone) RETURN_IF_ERROR(Delete(database, row));
  for (const MissRow& row : changes.present) {
    if (!changes.adds) {
      RETURN_IF_ERROR(Put(database, row));
      continue;
    }
    RETURN_IF_ERROR(Add(database, row));
    RETURN_IF_ERROR(NoteLastAnswer(database, row));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<MissRow>> LoadMisses(Database& database) {
  std::vector<MissRow> misses;
  Statement rows =
      database.Prepare("SELECT " TUNEFARM_MISS_COLUMNS " FROM miss ORDER BY kernel_name, problem_key, class_id");
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, rows.Step());
    if (!has_row) return misses;
    MissRow row;
    row.kernel_name = rows.Bytes(0);
    row.problem_key = rows.Bytes(1);
    row.class_id = rows.Bytes(2);
    row.class_name = rows.Bytes(3);
    row.program_digest = rows.Bytes(4);
    row.problem = rows.Bytes(5);
    row.asked = rows.Int(6);
    row.match = static_cast<int>(rows.Int(7));
    row.distance = rows.Real(8);
    row.first_asked_at_ms = rows.Int(9);
    row.last_asked_at_ms = rows.Int(10);
    misses.push_back(std::move(row));
  }
}

}  // namespace tunefarm::sqlite
