#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/sqlite/operations.h"
#include "server/store/sqlite/rows.h"

namespace tunefarm::sqlite {

absl::StatusOr<std::vector<BestRow>> LoadBests(Database& database, int64_t after_revision) {
  std::vector<BestRow> bests;
  Statement rows =
      database.Prepare("SELECT " TUNEFARM_BEST_COLUMNS " FROM best_config WHERE revision > ? ORDER BY revision");
  rows.Bind(after_revision);
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, rows.Step());
    if (!has_row) return bests;
    bests.push_back(ReadBest(rows));
  }
}

absl::StatusOr<std::optional<BestRow>> FindBest(Database& database, std::string_view program_digest,
                                                std::string_view problem_key, std::string_view class_id) {
  Statement row = database.Prepare("SELECT " TUNEFARM_BEST_COLUMNS
                                   " FROM best_config WHERE program_digest = ? AND problem_key = ? AND class_id = ?");
  ASSIGN_OR_RETURN(const bool found, row.Bind(program_digest, problem_key, class_id).Step());
  if (!found) return std::optional<BestRow>();
  return std::optional<BestRow>(ReadBest(row));
}

absl::Status RecordPoison(Database& database, const PoisonRow& row) {
  return database
      .Prepare(
          "INSERT INTO config_poison (program_digest, class_id, config, problem_key, toolkit, outcome, crashes) "
          "VALUES (?, ?, ?, ?, ?, ?, 1) ON CONFLICT DO UPDATE SET outcome = excluded.outcome, crashes = crashes + 1")
      .Bind(row.program_digest, row.class_id, row.config, row.problem_key, row.toolkit, row.outcome)
      .Run();
}

absl::StatusOr<std::vector<PoisonRow>> LoadPoison(Database& database, std::string_view program_digest,
                                                  std::string_view class_id) {
  std::vector<PoisonRow> poison;
  Statement rows = database.Prepare(
      "SELECT config, problem_key, toolkit, outcome, crashes FROM config_poison WHERE program_digest = ? AND class_id "
      "= ? "
      "ORDER BY config, problem_key, toolkit");
  rows.Bind(program_digest, class_id);
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, rows.Step());
    if (!has_row) return poison;
    PoisonRow row;
    row.program_digest = program_digest;
    row.class_id = class_id;
    row.config = rows.Bytes(0);
    row.problem_key = rows.Bytes(1);
    row.toolkit = rows.Bytes(2);
    row.outcome = static_cast<int>(rows.Int(3));
    row.crashes = static_cast<int>(rows.Int(4));
    poison.push_back(std::move(row));
  }
}

absl::StatusOr<std::optional<std::string>> FindSetting(Database& database, std::string_view name) {
  Statement row = database.Prepare("SELECT value FROM setting WHERE name = ?");
  ASSIGN_OR_RETURN(const bool has_row, row.Bind(name).Step());
  return has_row ? std::optional<std::string>(row.Bytes(0)) : std::nullopt;
}

absl::Status PutSetting(Database& database, std::string_view name, std::string_view value) {
  return database.Prepare("INSERT OR REPLACE INTO setting (name, value) VALUES (?, ?)").Bind(name, value).Run();
}

absl::StatusOr<std::string> GetOrPutSetting(Database& database, std::string_view name,
                                            std::string_view value_if_absent) {
  RETURN_IF_ERROR(database.Prepare("INSERT INTO setting (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING")
                      .Bind(name, value_if_absent)
                      .Run());
  ASSIGN_OR_RETURN(std::optional<std::string> value, FindSetting(database, name));
  if (!value.has_value()) return Internal("setting {} is gone", name);
  return *std::move(value);
}

}  // namespace tunefarm::sqlite
