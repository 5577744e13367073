#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/store/sqlite/migrator.h"
#include "server/store/store.h"

namespace tunefarm::sqlite {

// OpenSqliteStore with a chosen list of migrations: how tests play an older, a newer and an altered program.
absl::StatusOr<std::unique_ptr<Store>> OpenStore(const SqliteOptions& options,
                                                 const std::vector<Migration>& migrations);

}  // namespace tunefarm::sqlite
