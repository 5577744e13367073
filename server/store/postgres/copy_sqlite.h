// Moving a database from SQLite to PostgreSQL.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/store/postgres_store.h"

namespace tunefarm {

struct CopiedTable {
  std::string name;
  int64_t rows = 0;
};

// Puts all that the SQLite file holds into a PostgreSQL database, which is made ready for it and must be empty: with
// the same ids, and numbers that go on where they were. In one transaction, whose rows are counted before it commits:
// on an error the target stays empty. Nobody else uses the file meanwhile. Its catalog is another one afterwards, as
// that of a backup. Settings whose names stand in `renamed` get the second name.
// FailedPrecondition: the file has another schema than this program's, or the target is not empty.
absl::StatusOr<std::vector<CopiedTable>> CopySqliteToPostgres(
    const std::string& sqlite_path, const PostgresOptions& target,
    const std::vector<std::pair<std::string, std::string>>& renamed);

}  // namespace tunefarm
