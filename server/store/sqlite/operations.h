#pragma once

// What several facets do inside their transactions.

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/sqlite/database.h"

namespace tunefarm::sqlite {

// FailedPrecondition (AGENT_EPOCH) unless the epoch is the agent's current one.
absl::Status CheckEpoch(Database& database, std::string_view agent_id, int64_t epoch);

// A place at the end of the queue of units.
absl::StatusOr<int64_t> NextClaimSequence(Database& database);

}  // namespace tunefarm::sqlite
