#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/store/postgres/session.h"
#include "server/store/unit_store.h"

namespace tunefarm::postgres {

// The claims of works in study_work (UnitStore::ClaimWorks); a report's verdicts are written where it is stored
// (units.cc). For the thread that holds the session.

// How long a claim waits for another one of works of the same study: longer than several of them take one after
// another, and less than agents wait for an answer (5 s).
inline constexpr Duration kWorkLockMax = std::chrono::seconds(2);

// In a transaction, for a request that CheckWorkClaims has passed; the transaction's timeouts are shorter from then on.
// Unavailable after kWorkLockMax for one study; other errors are those of the session.
absl::StatusOr<std::vector<WorkAnswer>> StoreWorkClaims(Session& session, const WorkClaimRequest& request);
// UnitStore::HasWorks.
absl::StatusOr<bool> HasWorksOf(Session& session, int64_t study_id);

}  // namespace tunefarm::postgres
