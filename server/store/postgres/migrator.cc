#include "server/store/postgres/migrator.h"

#include "server/base/check.h"
#include "server/base/embedded_file.h"
#include "server/base/failpoint.h"
#include "server/base/hash.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {

extern const EmbeddedFile kPostgresMigrations[];
extern const size_t kPostgresMigrationsCount;

namespace postgres {
namespace {

constexpr int64_t kMigrationLock = 0x746e666d6d696772;  // any number that nobody else takes: "tnfmmigr"
constexpr int64_t kOldestServer = 140'000;

// 0: an empty database.
absl::StatusOr<int> ReadVersion(Session* session) {
  ASSIGN_OR_RETURN(const int64_t is_ours,
                   session->QueryInt("SELECT count(*) FROM pg_class WHERE relname = 'schema_migration' AND relkind = "
                                     "'r' AND relnamespace = current_schema()::regnamespace"));
  if (is_ours != 0) {
    ASSIGN_OR_RETURN(const int64_t version, session->QueryInt("SELECT coalesce(max(number), 0) FROM schema_migration"));
    if (version > 0) return static_cast<int>(version);
  }
  ASSIGN_OR_RETURN(const int64_t others, session->QueryInt("SELECT count(*) FROM pg_class WHERE relkind IN ('r', 'p', "
                                                           "'v', 'm') AND relnamespace = "
                                                           "current_schema()::regnamespace"));
  if (others == 0) return 0;
  return FailedPrecondition("{} holds the tables of another program; create a database of its own for tunefarm",
                            session->server());
}

// That the database's migrations are those of this program, as far as it knows them.
absl::Status CheckApplied(Session* session, const std::vector<Migration>& migrations, int version) {
  ASSIGN_OR_RETURN(const Rows applied,
                   session->Query("SELECT number, name, sha256 FROM schema_migration ORDER BY number"));
  for (int i = 0; i < applied.size(); ++i) {
    const Row row = applied[i];
    if (row.Int(0) != i + 1) {
      return DataLoss("{}: the list of applied migrations is damaged at number {}; restore a backup", session->server(),
                      row.Int(0));
    }
    if (static_cast<size_t>(i) >= migrations.size()) return absl::OkStatus();  // a newer schema
    RETURN_IF_ERROR(CheckMigration(session->server(), migrations[static_cast<size_t>(i)], row.Bytes(1), row.Bytes(2)));
  }
  if (applied.size() != version) {
    return DataLoss("{}: the list of applied migrations lacks some of {}; restore a backup", session->server(),
                    version);
  }
  return absl::OkStatus();
}

absl::Status ApplyInTransaction(Session* session, const Migration& migration) {
  // A table that somebody else holds: the start fails rather than keep everybody waiting behind it.
  RETURN_IF_ERROR(session->Script("SET LOCAL lock_timeout = '10s'; SET LOCAL statement_timeout = 0"));
  RETURN_IF_ERROR(session->Script(std::string(migration.text)));
  RETURN_IF_ERROR(session->Run("INSERT INTO schema_migration (number, name, sha256) VALUES ($1, $2, $3)",
                               migration.number, migration.name, Sha256(migration.text).Hex()));
  RETURN_IF_ERROR(Failpoint("store.migrate.before"));
  return session->Commit();
}

absl::Status Apply(Session* session, const Migration& migration) {
  RETURN_IF_ERROR(session->Begin());
  const absl::Status status = ApplyInTransaction(session, migration);
  if (!status.ok()) session->Rollback();
  if (status.ok()) PassFailpoint("store.migrate.after");
  return status;
}

absl::Status MigrateLocked(Session* session, const std::vector<Migration>& migrations) {
  ASSIGN_OR_RETURN(const int version, ReadVersion(session));
  const int latest = static_cast<int>(migrations.size());
  if (version > 0) RETURN_IF_ERROR(CheckApplied(session, migrations, version));
  if (version > latest) {
    return FailedPrecondition(
        "{} has schema {}, but this program knows schemas up to {}: a newer tunefarm wrote it; upgrade this program",
        session->server(), version, latest);
  }
  for (int number = version + 1; number <= latest; ++number) {
    const Migration& migration = migrations[static_cast<size_t>(number - 1)];
    RETURN_IF_ERROR(Annotate(Apply(session, migration), "migration {}", migration.name));
  }
  if (version > 0 && version < latest) LogInfo("store", "migrated from={} to={}", version, latest);
  return absl::OkStatus();
}

// Several databases speak its protocol and answer otherwise where it matters: to FOR UPDATE SKIP LOCKED, to what a
// transaction sees, to advisory locks.
bool IsPostgres(std::string_view version) {
  if (version.substr(0, 11) != "PostgreSQL ") return false;
  for (const std::string_view other : {"CockroachDB", "Redshift", "-YB-", "Yugabyte", "Greenplum", "Materialize"}) {
    if (version.find(other) != std::string_view::npos) return false;
  }
  return true;
}

}  // namespace

std::vector<Migration> EmbeddedMigrations() { return MigrationsOf(kPostgresMigrations, kPostgresMigrationsCount); }

absl::StatusOr<bool> IsEmpty(Session* session) {
  ASSIGN_OR_RETURN(const int version, ReadVersion(session));
  return version == 0;
}

absl::Status Migrate(Session* session, const std::vector<Migration>& migrations) {
  for (size_t i = 0; i < migrations.size(); ++i) TUNEFARM_CHECK(migrations[i].number == static_cast<int>(i) + 1);
  // Whoever else starts now waits here, for as long as migrations may take.
  session->set_call_max(Session::kLongCallMax);
  RETURN_IF_ERROR(session->Script("SET lock_timeout = '10min'; SET statement_timeout = '10min'"));
  RETURN_IF_ERROR(session->Run("SELECT pg_advisory_lock($1)", kMigrationLock));
  const absl::Status status = MigrateLocked(session, migrations);
  if (!session->is_broken()) RETURN_IF_ERROR(session->Run("SELECT pg_advisory_unlock($1)", kMigrationLock));
  return status;
}

absl::StatusOr<ServerFacts> ReadFacts(Session* session) {
  ServerFacts facts;
  ASSIGN_OR_RETURN(const Rows version, session->Query("SELECT version()"));
  facts.version = version[0].Bytes(0);
  // Of others nothing is known, not even that they know these settings.
  if (!IsPostgres(facts.version)) return facts;
  ASSIGN_OR_RETURN(const Rows rows,
                   session->Query("SELECT coalesce(current_setting('server_version_num', true), "
                                  "'0')::bigint, pg_is_in_recovery(), current_setting('transaction_read_only') = 'on', "
                                  "current_setting('fsync') = 'on', current_setting('full_page_writes') = 'on'"));
  const Row row = rows[0];
  facts.version_number = row.Int(0);
  facts.is_in_recovery = row.Int(1) != 0;
  facts.is_read_only = row.Int(2) != 0;
  facts.has_fsync = row.Int(3) != 0;
  facts.has_full_page_writes = row.Int(4) != 0;
  return facts;
}

absl::Status CheckServer(const ServerFacts& facts, std::string_view server) {
  const std::string_view version = std::string_view(facts.version).substr(0, 100);
  if (!IsPostgres(version)) {
    return FailedPrecondition("{} is not PostgreSQL itself but speaks its protocol ({}); name a PostgreSQL 14 or newer",
                              server, version);
  }
  if (facts.version_number < kOldestServer) {
    return FailedPrecondition("{} is {}; PostgreSQL 14 or newer is needed", server, version);
  }
  if (facts.is_in_recovery) {
    return FailedPrecondition("{} is a standby, which cannot be written; name the primary server", server);
  }
  if (facts.is_read_only) {
    return FailedPrecondition("{} allows only reading; name a server and a user that may write", server);
  }
  return absl::OkStatus();
}

std::string DurabilityWarning(const ServerFacts& facts) {
  if (!facts.has_fsync) return "fsync is off: a crash of its machine loses acknowledged work, or the whole database";
  if (!facts.has_full_page_writes) return "full_page_writes is off: a crash of its machine can damage the database";
  return "";
}

absl::StatusOr<std::string> DumpSchema(Session* session) {
  ASSIGN_OR_RETURN(
      const Rows rows,
      session->Query(
          "SELECT line FROM ("
          "SELECT c.relname::text AS name, 1 AS part, lpad(a.attnum::text, 4, '0') AS place, 'column ' || c.relname || "
          "'.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || coalesce(' collate ' || (SELECT "
          "l.collname FROM pg_collation l WHERE l.oid = a.attcollation AND l.collname <> 'default'), '') || CASE WHEN "
          "a.attnotnull THEN ' not null' ELSE '' END || CASE WHEN a.attidentity <> '' THEN ' identity' ELSE '' END || "
          "coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '') AS line "
          "FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid "
          "AND d.adnum = a.attnum WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p', "
          "'v') "
          "AND NOT c.relispartition AND a.attnum > 0 AND NOT a.attisdropped "
          "UNION ALL SELECT c.relname::text, 2, t.conname::text, 'constraint ' || c.relname || ' ' || t.conname || ' ' "
          "|| pg_get_constraintdef(t.oid) FROM pg_constraint t JOIN pg_class c ON c.oid = t.conrelid WHERE "
          "c.relnamespace = current_schema()::regnamespace AND NOT c.relispartition "
          "UNION ALL SELECT c.relname::text, 3, i.relname::text, regexp_replace(pg_get_indexdef(i.oid), ' ON (ONLY "
          ")?[^ ]*\\.', ' ON ') FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class c ON c.oid = "
          "x.indrelid WHERE c.relnamespace = current_schema()::regnamespace AND NOT c.relispartition "
          "UNION ALL SELECT p.relname::text, 4, c.relname::text, 'partition ' || c.relname || ' of ' || p.relname || "
          "' ' || pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits h JOIN pg_class c ON c.oid = h.inhrelid JOIN "
          "pg_class p ON p.oid = h.inhparent WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' "
          "UNION ALL SELECT c.relname::text, 5, '', 'options ' || c.relname || ' ' || array_to_string(c.reloptions, ', "
          "') FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace AND c.reloptions IS NOT NULL "
          "UNION ALL SELECT c.relname::text, 6, '', 'sequence ' || c.relname FROM pg_class c WHERE c.relnamespace = "
          "current_schema()::regnamespace AND c.relkind = 'S') o ORDER BY name COLLATE \"C\", part, place COLLATE "
          "\"C\""));
  std::string dump;
  for (int i = 0; i < rows.size(); ++i) dump += rows[i].Bytes(0) + "\n";
  return dump;
}

}  // namespace postgres
}  // namespace tunefarm
