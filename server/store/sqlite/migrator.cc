#include "server/store/sqlite/migrator.h"

#include <fmt/core.h>

#include "server/base/check.h"
#include "server/base/embedded_file.h"
#include "server/base/failpoint.h"
#include "server/base/file.h"
#include "server/base/hash.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/sqlite/transaction.h"

namespace tunefarm {

extern const EmbeddedFile kStoreMigrations[];
extern const size_t kStoreMigrationsCount;

namespace sqlite {
namespace {

absl::Status Apply(Database* database, const Migration& migration, Clock* clock) {
  Transaction transaction(database);
  RETURN_IF_ERROR(transaction.Begin(Transaction::Kind::kWrite));
  RETURN_IF_ERROR(database->Execute(std::string(migration.text)));
  RETURN_IF_ERROR(
      database->Run("INSERT INTO schema_migration (number, name, sha256, applied_at_ms) VALUES ($1, $2, $3, $4)",
                    migration.number, migration.name, Sha256(migration.text).Hex(), clock->WallMs()));
  RETURN_IF_ERROR(database->Execute(
      fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", kApplicationId, migration.number)));
  RETURN_IF_ERROR(Failpoint("store.migrate.before"));
  RETURN_IF_ERROR(transaction.Commit());
  PassFailpoint("store.migrate.after");
  return absl::OkStatus();
}

absl::Status BackUpBeforeMigrating(Database* database, const std::string& directory, int version, Clock* clock) {
  if (directory.empty()) {
    return FailedPrecondition("{} must be migrated from schema {}, which needs a directory for a backup; name one",
                              database->path(), version);
  }
  RETURN_IF_ERROR(MakeDirectories(directory, 0700));
  const std::string path = fmt::format("{}/tunefarm-schema{}-{}.db", directory, version, clock->WallMs());
  RETURN_IF_ERROR(database->CopyTo(path));
  LogInfo("store", "backed up before migrating path={}", path);
  return absl::OkStatus();
}

}  // namespace

std::vector<Migration> EmbeddedMigrations() { return MigrationsOf(kStoreMigrations, kStoreMigrationsCount); }

absl::StatusOr<int> IdentifySchema(Database* database) {
  const absl::StatusOr<int64_t> application_id = database->QueryInt("PRAGMA application_id");
  if (absl::IsDataLoss(application_id.status())) {
    return FailedPrecondition(
        "{} is not a tunefarm database (or its first page is damaged); name another file, or restore a backup",
        database->path());
  }
  RETURN_IF_ERROR(application_id.status());
  ASSIGN_OR_RETURN(const int64_t version, database->QueryInt("PRAGMA user_version"));
  ASSIGN_OR_RETURN(const int64_t objects, database->QueryInt("SELECT count(*) FROM sqlite_schema"));
  if (*application_id == kApplicationId && version >= 1) {
    if (objects > 0) return static_cast<int>(version);
    return DataLoss("{} has lost its tables; move it aside and restore the newest backup", database->path());
  }
  if (*application_id == 0 && version == 0 && objects == 0) return 0;
  return FailedPrecondition("{} is a database of another program (application id {:#x}); name another file",
                            database->path(), *application_id);
}

absl::Status CheckApplied(Database* database, const std::vector<Migration>& migrations, int version) {
  struct Applied {
    int64_t number = 0;
    std::string name, sha256;
  };
  ASSIGN_OR_RETURN(const std::vector<Applied> all,
                   database->ReadAll(
                       [](const SqlRow& row) {
                         return Applied{row.Int(0), row.Bytes(1), row.Bytes(2)};
                       },
                       "SELECT number, name, sha256 FROM schema_migration ORDER BY number"));
  int count = 0;
  for (const auto& [number, name, sha256] : all) {
    if (number != ++count || number > version) {
      return DataLoss("{}: the list of applied migrations is damaged at number {}; restore the newest backup",
                      database->path(), number);
    }
    if (number > static_cast<int64_t>(migrations.size())) return absl::OkStatus();  // a newer schema
    RETURN_IF_ERROR(CheckMigration(database->path(), migrations[static_cast<size_t>(number - 1)], name, sha256));
  }
  if (count != version && version <= static_cast<int>(migrations.size())) {
    return DataLoss("{} says that its schema is {}, but lists {} migrations; restore the newest backup",
                    database->path(), version, count);
  }
  return absl::OkStatus();
}

absl::Status Migrate(Database* database, const std::vector<Migration>& migrations, const std::string& backup_directory,
                     Clock* clock) {
  for (size_t i = 0; i < migrations.size(); ++i) TUNEFARM_CHECK(migrations[i].number == static_cast<int>(i) + 1);
  ASSIGN_OR_RETURN(const int version, IdentifySchema(database));
  const int latest = static_cast<int>(migrations.size());
  if (version > 0) RETURN_IF_ERROR(CheckApplied(database, migrations, version));
  if (version > latest) {
    return FailedPrecondition(
        "{} has schema {}, but this program knows schemas up to {}: a newer tunefarm wrote it; upgrade this program, "
        "or restore a backup of the older schema",
        database->path(), version, latest);
  }
  if (version == latest) return absl::OkStatus();
  if (version > 0) RETURN_IF_ERROR(BackUpBeforeMigrating(database, backup_directory, version, clock));
  for (int number = version + 1; number <= latest; ++number) {
    const Migration& migration = migrations[static_cast<size_t>(number - 1)];
    RETURN_IF_ERROR(Annotate(Apply(database, migration, clock), "migration {}", migration.name));
  }
  if (version > 0) LogInfo("store", "migrated from={} to={}", version, latest);
  return absl::OkStatus();
}

absl::StatusOr<std::string> DumpSchema(Database* database) {
  ASSIGN_OR_RETURN(
      const std::vector<std::string> objects,
      database->ReadAll(Sql::ReadBytes,
                        "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite!_%' ESCAPE '!' "
                        "ORDER BY type = 'index', name"));
  std::string dump;
  for (const std::string& object : objects) dump += object + ";\n";
  return dump;
}

}  // namespace sqlite
}  // namespace tunefarm
