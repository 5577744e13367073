#pragma once

// What several facets do inside their transactions. Rows are locked in this order: agent, job, study, unit; then the
// catalog's revision.

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/agent_store.h"
#include "server/store/kernel_store.h"
#include "server/store/postgres/session.h"

namespace tunefarm::postgres {

// Nothing happens where there is one of the id.
absl::Status InsertKernel(Session& session, const KernelRow& kernel);

absl::StatusOr<std::optional<AgentRow>> FindAgent(Session& session, std::string_view agent_id);
// A condition on a table t of trials: no best config stands on the trial.
#define TUNEFARM_PG_NOT_A_BEST \
  "NOT EXISTS (SELECT 1 FROM best_config b WHERE b.study_id = t.study_id AND b.ordinal = t.ordinal) "

}  // namespace tunefarm::postgres
