#include "server/store/postgres/operations.h"

#include "server/base/status_macros.h"
#include "server/store/postgres/rows.h"

namespace tunefarm::postgres {

absl::Status InsertKernel(Session& session, const KernelRow& kernel) {
  // The id covers the whole content: a row with the same id is the same kernel.
  return session
      .Run(
          "INSERT INTO kernel (kernel_id, program_digest, display_name, definition, created_at_ms) VALUES ($1, $2, $3, "
          "$4, $5) ON CONFLICT (kernel_id) DO NOTHING",
          kernel.kernel_id, kernel.program_digest, kernel.display_name, Blob{kernel.definition}, kernel.created_at_ms)
      .status();
}

absl::StatusOr<std::optional<AgentRow>> FindAgent(Session& session, std::string_view agent_id) {
  ASSIGN_OR_RETURN(const Rows rows, session.Query("SELECT " TUNEFARM_PG_AGENT_COLUMNS
                                                  " FROM agent WHERE agent_id = $1 AND released_at_ms IS NULL",
                                                  agent_id));
  if (rows.empty()) return std::optional<AgentRow>();
  return std::optional<AgentRow>(ReadAgent(rows[0]));
}

}  // namespace tunefarm::postgres
