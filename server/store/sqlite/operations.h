#pragma once

// What several facets do inside their transactions.

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/kernel_store.h"
#include "server/store/sqlite/database.h"

namespace tunefarm::sqlite {

// Nothing happens where there is one of the id.
absl::Status InsertKernel(Database& database, const KernelRow& kernel);

// FailedPrecondition (AGENT_EPOCH) unless the epoch is the agent's current one.
absl::Status CheckEpoch(Database& database, std::string_view agent_id, int64_t epoch);

// A place at the end of the queue of units.
absl::StatusOr<int64_t> NextClaimSequence(Database& database);

// A condition on trial_result t: no best config stands on the trial.
#define TUNEFARM_NOT_A_BEST \
  "NOT EXISTS (SELECT 1 FROM best_config b WHERE b.study_id = t.study_id AND b.ordinal = t.ordinal)"

// Runs a DELETE of the rows of one kind that ?1 selects, up to ?2 of them. Returns how many went.
absl::StatusOr<int64_t> DeletePart(Database& database, std::string_view sql, int64_t selector, int rows_max);

}  // namespace tunefarm::sqlite
