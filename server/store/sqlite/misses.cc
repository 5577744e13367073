// Problems that were looked up and had no exact best, as the daemon counts them.

#include "server/base/status_macros.h"
#include "server/store/checks.h"
#include "server/store/miss_store.h"
#include "server/store/sqlite/facets.h"
#include "server/store/sqlite/rows.h"

namespace tunefarm::sqlite {
namespace {

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

class SqliteMisses final : public Facet<MissStore> {
 public:
  using Facet::Facet;

  absl::Status WriteMisses(const MissChanges& changes) override {
    return writer_->Run([&](Database& database) -> absl::Status {
      RETURN_IF_ERROR(CheckMisses(changes));
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
    });
  }

  absl::StatusOr<std::vector<MissRow>> LoadMisses() override {
    return readers_->Read([](Database& database) -> absl::StatusOr<std::vector<MissRow>> {
      Statement rows =
          database.Prepare("SELECT " TUNEFARM_MISS_COLUMNS " FROM miss ORDER BY kernel_name, problem_key, class_id");
      return ReadAll(rows, ReadMiss<Statement>);
    });
  }
};

}  // namespace

std::unique_ptr<MissStore> NewMissStore(const Shared& shared) { return std::make_unique<SqliteMisses>(shared); }

}  // namespace tunefarm::sqlite
