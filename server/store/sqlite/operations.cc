#include "server/store/sqlite/operations.h"

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/checks.h"

namespace tunefarm::sqlite {

absl::Status CheckEpoch(Database& database, std::string_view agent_id, int64_t epoch) {
  ASSIGN_OR_RETURN(const bool is_current,
                   database.Exists("SELECT 1 FROM agent WHERE agent_id = $1 AND epoch = $2 AND released_at_ms IS NULL",
                                   agent_id, epoch));
  if (is_current) return absl::OkStatus();
  return EpochEnded(agent_id, epoch);
}

absl::StatusOr<int64_t> NextClaimSequence(Database& database) {
  ASSIGN_OR_RETURN(
      const std::optional<int64_t> next,
      database.ReadOne(Sql::ReadInt, "UPDATE sequence SET value = value + 1 WHERE name = 'claim_seq' RETURNING value"));
  if (!next.has_value()) return DataLoss("{}: the row claim_seq is missing from table sequence", database.path());
  return *next;
}

}  // namespace tunefarm::sqlite
