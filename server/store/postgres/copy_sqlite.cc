#include "server/store/postgres/copy_sqlite.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstring>
#include <map>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/postgres/open.h"
#include "server/store/postgres/parameters.h"
#include "server/store/read_rows.h"
#include "server/store/sqlite/database.h"
#include "server/store/sqlite/migrator.h"
#include "server/store/sqlite/transaction.h"

namespace tunefarm {
namespace postgres {
namespace {

constexpr size_t kChunkBytes = size_t{256} << 10;
constexpr int64_t kEpochOfPostgresMs = 946'684'800'000;  // 2000-01-01, in UTC milliseconds since 1970

// A table of the target and where its rows come from. Columns go by their order.
struct Table {
  const char* name;
  const char* columns;
  const char* rows = "";                 // which of the source's, in which order
  const char* source_columns = nullptr;  // where they are others than the target's
};

constexpr Table kTables[] = {
    {"setting", "name, value", "WHERE name NOT LIKE 'store.%' AND name <> 'catalog.id'"},
    {"kernel", "kernel_seq, deleted_at_ms, " TUNEFARM_KERNEL_COLUMNS, "ORDER BY 1"},
    {"device_class", "class_id, display_name, properties"},
    {"device", "uuid, class_id, properties, seen_at_ms"},
    {"agent", "agent_id, host, detail, epoch, draining, registered_at_ms, released_at_ms, lease_until", "",
     "agent_id, host, detail, epoch, draining, registered_at_ms, released_at_ms, lease_until_ms"},
    {"lease", "name, holder, detail, epoch, lease_until", "", "name, holder, detail, epoch, until_ms"},
    {"device_order", TUNEFARM_DEVICE_ORDER_COLUMNS},
    {"job",
     "job_id, uid, kernel_id, state, priority, state_reason, driver, driver_epoch, created_at_ms, started_at_ms, "
     "ended_at_ms, label, submitted_by",
     "ORDER BY 1"},
    {"job_spec", "job_id, spec", "ORDER BY 1"},
    {"study",
     "study_id, job_id, number, problem_key, problem, class_id, device_selector, detail, state, next_ordinal, "
     "device_busy_ms, toolkit, last_event",
     "ORDER BY 1",
     "study_id, job_id, number, problem_key, problem, class_id, device_selector, detail, state, next_ordinal, "
     "device_busy_ms, toolkit, (SELECT ifnull(max(e.sequence), 0) FROM study_event e WHERE e.study_id = "
     "study.study_id)"},
    {"study_event", "study_id, sequence, kind, unit_id, at_ms", "ORDER BY 1, 2"},
    {"study_prior", "study_id, position, source_rank, payload", "ORDER BY 1, 2"},
    {"study_work", "study_id, ordinal, work, unit_id, token", "ORDER BY 1, 2"},
    {"work_unit",
     "unit_id, study_id, claim_seq, kind, state, first_ordinal, trial_count, rounds, token, attempt, agent_id, "
     "agent_epoch, claimed_at_ms, done_at_ms, payload, losses, suspects_end, handed_end",
     "ORDER BY 1"},
    {"trial_result",
     "study_id, ordinal, ended_at_ms, median_ns, attempt, outcome, purpose, config, device_uuid, measured_key, detail",
     "ORDER BY 1, 2"},
    {"trial_log", "study_id, ordinal, log", "ORDER BY 1, 2"},
    {"trial_samples", "study_id, ordinal, samples", "ORDER BY 1, 2"},
    {"config_poison", "key_sha, " TUNEFARM_POISON_COLUMNS},
    {"best_config", "key_sha, " TUNEFARM_BEST_COLUMNS, "ORDER BY revision"},
    {"best_trial",
     "key_sha, job_id, study_id, study_number, ordinal, attempt, outcome, purpose, config, median_ns, device_uuid, "
     "ended_at_ms, detail, log, samples"},
    {"best_change", "key_sha, " TUNEFARM_BEST_CHANGE_COLUMNS, "ORDER BY revision"},
    {"best_removal", "key_sha, program_digest, problem_key, class_id, kernel_name, revision"},
    {"miss", "key_sha, " TUNEFARM_MISS_COLUMNS},
    {"agreed_run", TUNEFARM_AGREED_RUN_COLUMNS ", answers, answer_bytes"},
    {"agreed_answer", "run_id, question_sha, answer, agreed_at_ms"},
    {"access_token", TUNEFARM_TOKEN_COLUMNS},
    {"request_dedup", "request_id, body_digest, job_id, created_at_ms"},
};

// Numbers that are never given twice: the table and column, and the table that SQLite counts them for.
struct Sequence {
  const char* table;
  const char* column;
};
constexpr Sequence kSequences[] = {
    {"kernel", "kernel_seq"}, {"job", "job_id"}, {"study", "study_id"}, {"work_unit", "unit_id"}};

void AppendField(std::string* out, std::string_view bytes) {
  Append(out, static_cast<uint32_t>(bytes.size()));
  out->append(bytes);
}

// A value in the binary form of a column's type.
absl::Status AppendValue(std::string* out, const sqlite::Statement& row, int column, std::string_view type) {
  if (row.IsNull(column)) {
    Append(out, static_cast<uint32_t>(-1));
  } else if (type == "text" || type == "bytea") {
    AppendField(out, row.Bytes(column));
  } else if (type == "int8") {
    Append(out, uint32_t{8});
    Append(out, static_cast<uint64_t>(row.Int(column)));
  } else if (type == "int4") {
    Append(out, uint32_t{4});
    Append(out, static_cast<uint32_t>(row.Int(column)));
  } else if (type == "int2") {
    Append(out, uint32_t{2});
    Append(out, static_cast<uint16_t>(row.Int(column)));
  } else if (type == "bool") {
    AppendField(out, row.Int(column) != 0 ? std::string_view("\1", 1) : std::string_view("\0", 1));
  } else if (type == "float8") {
    const double value = row.Real(column);
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    Append(out, uint32_t{8});
    Append(out, bits);
  } else if (type == "timestamptz") {
    Append(out, uint32_t{8});
    Append(out, static_cast<uint64_t>((row.Int(column) - kEpochOfPostgresMs) * 1000));
  } else {
    return Internal("no way to copy a column of type {}", type);
  }
  return absl::OkStatus();
}

std::vector<std::string> Split(const std::string& columns) {
  std::vector<std::string> names(1);
  for (const char c : columns) {
    if (c == ',') {
      names.emplace_back();
    } else if (c != ' ') {
      names.back().push_back(c);
    }
  }
  return names;
}

absl::StatusOr<std::vector<std::string>> TypesOf(Session* session, const std::string& table,
                                                 const std::vector<std::string>& columns) {
  const auto read = [](const SqlRow& row) { return std::pair(row.Bytes(0), row.Bytes(1)); };
  ASSIGN_OR_RETURN(
      const auto rows,
      session->ReadAll(read,
                       "SELECT a.attname::text, t.typname::text FROM pg_attribute a JOIN pg_type t ON t.oid = "
                       "a.atttypid WHERE a.attrelid = to_regclass($1) AND a.attnum > 0",
                       table));
  std::map<std::string, std::string> by_name(rows.begin(), rows.end());
  std::vector<std::string> types;
  for (const std::string& column : columns) {
    if (by_name.count(column) == 0) return Internal("table {} has no column {}", table, column);
    types.push_back(by_name[column]);
  }
  return types;
}

absl::StatusOr<int64_t> CopyTable(sqlite::Database* source, Session* session, const Table& table) {
  const std::vector<std::string> columns = Split(table.columns);
  ASSIGN_OR_RETURN(const std::vector<std::string> types, TypesOf(session, table.name, columns));
  RETURN_IF_ERROR(
      session->BeginCopy(fmt::format("COPY {} ({}) FROM STDIN (FORMAT binary)", table.name, table.columns)));
  std::string chunk("PGCOPY\n\xff\r\n\0", 11);
  Append(&chunk, uint32_t{0});
  Append(&chunk, uint32_t{0});
  int64_t count = 0;
  sqlite::Statement rows = source->Prepare(
      fmt::format("SELECT {} FROM {} {}", table.source_columns != nullptr ? table.source_columns : table.columns,
                  table.name, table.rows));
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, rows.Step());
    if (!has_row) break;
    ++count;
    Append(&chunk, static_cast<uint16_t>(columns.size()));
    for (size_t i = 0; i < columns.size(); ++i) {
      RETURN_IF_ERROR(AppendValue(&chunk, rows, static_cast<int>(i), types[i]));
    }
    if (chunk.size() < kChunkBytes) continue;
    RETURN_IF_ERROR(session->PutCopy(chunk));
    chunk.clear();
  }
  Append(&chunk, static_cast<uint16_t>(-1));
  RETURN_IF_ERROR(session->PutCopy(chunk));
  RETURN_IF_ERROR(session->EndCopy());
  return count;
}

absl::Status CopySequences(sqlite::Database* source, Session* session) {
  for (const Sequence& sequence : kSequences) {
    ASSIGN_OR_RETURN(const std::optional<int64_t> last,
                     source->ReadOne(Sql::ReadInt, "SELECT seq FROM sqlite_sequence WHERE name = $1", sequence.table));
    RETURN_IF_ERROR(session->Run("SELECT setval(pg_get_serial_sequence($1, $2), greatest($3, 1), $3 > 0)",
                                 sequence.table, sequence.column, last.value_or(0)));
  }
  ASSIGN_OR_RETURN(const int64_t claim_seq, source->QueryInt("SELECT value FROM sequence WHERE name = 'claim_seq'"));
  RETURN_IF_ERROR(session->Run("SELECT setval('claim_seq', greatest($1, 1), $1 > 0)", claim_seq));
  ASSIGN_OR_RETURN(const int64_t revision, source->QueryInt("SELECT revision FROM catalog_rev"));
  return session->Run("UPDATE catalog_rev SET revision = $1", revision);
}

absl::Status CheckEmpty(Session* session) {
  for (const Table& table : kTables) {
    ASSIGN_OR_RETURN(
        const int64_t rows,
        session->QueryInt("SELECT count(*) FROM " + std::string(table.name) +
                          (std::string_view(table.name) == "setting" ? " WHERE name NOT LIKE 'store.%'" : "")));
    if (rows != 0) {
      return FailedPrecondition("{} is not empty: its table {} has {} rows; name another database", session->server(),
                                table.name, rows);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<CopiedTable>> CopyAll(sqlite::Database* source, Session* session,
                                                 const std::vector<std::pair<std::string, std::string>>& renamed) {
  // Nobody else writes meanwhile, and a second copy finds the database in use.
  RETURN_IF_ERROR(session->Script("LOCK TABLE setting, job, kernel, agent IN ACCESS EXCLUSIVE MODE"));
  RETURN_IF_ERROR(CheckEmpty(session));
  std::vector<CopiedTable> copied;
  for (const Table& table : kTables) {
    const absl::StatusOr<int64_t> result = CopyTable(source, session, table);
    if (!result.ok()) return Annotate(result.status(), "copying the table {}", table.name);
    const int64_t rows = *result;
    ASSIGN_OR_RETURN(
        const int64_t there,
        session->QueryInt("SELECT count(*) FROM " + std::string(table.name) +
                          (std::string_view(table.name) == "setting" ? " WHERE name NOT LIKE 'store.%'" : "")));
    if (rows != there) {
      return DataLoss("of the {} rows of table {} {} have arrived; nothing was kept", rows, table.name, there);
    }
    copied.push_back({table.name, rows});
  }
  for (const auto& [from, to] : renamed) {
    RETURN_IF_ERROR(session->Run("UPDATE setting SET name = $2 WHERE name = $1", from, to));
  }
  RETURN_IF_ERROR(CopySequences(source, session));
  return copied;
}

}  // namespace
}  // namespace postgres

absl::StatusOr<std::vector<CopiedTable>> CopySqliteToPostgres(
    const std::string& sqlite_path, const PostgresOptions& target,
    const std::vector<std::pair<std::string, std::string>>& renamed) {
  if (access(sqlite_path.c_str(), F_OK) != 0)
    return NotFound("{} does not exist: there is nothing to copy", sqlite_path);
  ASSIGN_OR_RETURN(const std::unique_ptr<sqlite::Database> source,
                   sqlite::Database::Open(sqlite_path, sqlite::Database::Mode::kReadOnly));
  ASSIGN_OR_RETURN(const int version, sqlite::IdentifySchema(source.get()));
  const std::vector<Migration> migrations = sqlite::EmbeddedMigrations();
  const auto latest = static_cast<int>(migrations.size());
  if (version > 0) RETURN_IF_ERROR(sqlite::CheckApplied(source.get(), migrations, version));
  if (version != latest) {
    return FailedPrecondition("{} has schema {}, and this program copies schema {}; start its daemon once on it first",
                              sqlite_path, version, latest);
  }
  // Made ready, and checked to be what a store needs.
  RETURN_IF_ERROR(OpenPostgresStore(target).status());
  postgres::SessionOptions options = postgres::ToSessionOptions(target);
  options.statement_timeout_ms = 0;
  options.idle_in_transaction_ms = 0;
  ASSIGN_OR_RETURN(const std::unique_ptr<postgres::Session> session, postgres::Session::Open(options));
  sqlite::Transaction reading(source.get());
  RETURN_IF_ERROR(reading.Begin(sqlite::Transaction::Kind::kRead));
  RETURN_IF_ERROR(session->Begin());
  absl::StatusOr<std::vector<CopiedTable>> copied = postgres::CopyAll(source.get(), session.get(), renamed);
  if (!copied.ok()) {
    session->Rollback();
    return copied;
  }
  RETURN_IF_ERROR(session->Commit());
  return copied;
}

}  // namespace tunefarm
