#include "server/store/postgres/operations.h"

namespace tunefarm::postgres {

absl::StatusOr<std::optional<AgentRow>> FindAgent(Session& session, std::string_view agent_id) {
  return session.ReadOne(
      ReadAgent, "SELECT " TUNEFARM_PG_AGENT_COLUMNS " FROM agent WHERE agent_id = $1 AND released_at_ms IS NULL",
      agent_id);
}

}  // namespace tunefarm::postgres
