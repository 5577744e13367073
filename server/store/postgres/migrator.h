#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/migration.h"
#include "server/store/postgres/session.h"

namespace tunefarm::postgres {

// Those of migrations/postgres, in order.
std::vector<Migration> EmbeddedMigrations();

// Whether the database holds no tables yet. FailedPrecondition: another program's.
absl::StatusOr<bool> IsEmpty(Session* session);

// Brings the schema up to the last migration: each one and its row in schema_migration in one transaction. Daemons that
// start at once wait for each other. FailedPrecondition, with nothing changed: the schema is newer than the last
// migration, an applied migration has another text today, or the database holds another program's tables.
absl::Status Migrate(Session* session, const std::vector<Migration>& migrations);

// What a server is, as it says itself.
struct ServerFacts {
  std::string version;         // select version(); the rest is known only of PostgreSQL itself
  int64_t version_number = 0;  // server_version_num
  bool is_in_recovery = false;
  bool is_read_only = false;
  bool has_fsync = true, has_full_page_writes = true;
};
absl::StatusOr<ServerFacts> ReadFacts(Session* session);
// FailedPrecondition unless it is a PostgreSQL, new enough, that can be written. `server` is its name in the message.
absl::Status CheckServer(const ServerFacts& facts, std::string_view server);
// What makes acknowledged work less than durable there; empty: nothing.
std::string DurabilityWarning(const ServerFacts& facts);

// The schema as the catalog of the database describes it: what migrations/postgres/schema.txt records.
absl::StatusOr<std::string> DumpSchema(Session* session);

}  // namespace tunefarm::postgres
