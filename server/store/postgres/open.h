#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/store/postgres/migrator.h"
#include "server/store/postgres_store.h"

namespace tunefarm::postgres {

// OpenPostgresStore with other migrations than the program's own, for tests.
absl::StatusOr<std::unique_ptr<Store>> OpenStore(const PostgresOptions& options,
                                                 const std::vector<Migration>& migrations);

// How sessions of the store are opened.
SessionOptions ToSessionOptions(const PostgresOptions& options);

}  // namespace tunefarm::postgres
