#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/store/migration.h"
#include "server/store/sqlite/database.h"

namespace tunefarm::sqlite {

// "TnFm": tells our files from other people's databases.
inline constexpr int64_t kApplicationId = 0x546e466d;

// Those of migrations/sqlite, in order.
std::vector<Migration> EmbeddedMigrations();

// What an opened file holds, found out without changing it. FailedPrecondition when it is not a database of ours.
// `version`: of the schema; 0 for a new, empty file.
absl::StatusOr<int> IdentifySchema(Database* database);

// That the migrations which the schema `version` lists are those of this program, as far as it knows them.
// FailedPrecondition: another text was applied, or the database is from before the first release. DataLoss: the list is
// damaged.
absl::Status CheckApplied(Database* database, const std::vector<Migration>& migrations, int version);

// Brings the schema up to the last migration: each one and its row in schema_migration in one transaction. Before the
// first one a copy of a database that is not new goes to `backup_directory`. The caller is the only user of the file.
// FailedPrecondition, with nothing changed: the schema is newer than the last migration, an applied migration has
// another text today, or there is no backup directory for a copy that is needed.
absl::Status Migrate(Database* database, const std::vector<Migration>& migrations, const std::string& backup_directory,
                     Clock* clock);

// The CREATE statements of the database, tables before indexes, by name: what migrations/sqlite/schema.sql records.
absl::StatusOr<std::string> DumpSchema(Database* database);

}  // namespace tunefarm::sqlite
