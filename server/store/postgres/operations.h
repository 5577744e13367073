#pragma once

// What several facets do inside their transactions. Rows are locked in this order: agent, job, study, unit; then the
// catalog's revision.

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/agent_store.h"
#include "server/store/postgres/session.h"
#include "server/store/read_rows.h"

namespace tunefarm::postgres {

#define TUNEFARM_PG_AGENT_COLUMNS \
  TUNEFARM_AGENT_COLUMNS "(extract(epoch FROM lease_until - clock_timestamp()) * 1000)::bigint"
absl::StatusOr<std::optional<AgentRow>> FindAgent(Session& session, std::string_view agent_id);
}  // namespace tunefarm::postgres
