#include <algorithm>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/sqlite/operations.h"

namespace tunefarm::sqlite {
namespace {

// Takes from an agent all that it holds. Units of ended studies go, since nobody will ask for them again; the others go
// to the end of the queue. Returns how many went back. A kept token makes late reports stale: the next claim raises it.
absl::StatusOr<int64_t> ReturnUnits(Database& database, std::string_view agent_id) {
  RETURN_IF_ERROR(database
                      .Prepare("DELETE FROM work_unit WHERE agent_id = ?1 AND state = 2 AND study_id IN "
                               "(SELECT study_id FROM study WHERE state = 3)")
                      .Bind(agent_id)
                      .Run());
  std::vector<int64_t> held;
  {
    Statement units =
        database.Prepare("SELECT unit_id FROM work_unit WHERE agent_id = ? AND state = 2 ORDER BY claim_seq");
    units.Bind(agent_id);
    while (true) {
      ASSIGN_OR_RETURN(const bool has_row, units.Step());
      if (!has_row) break;
      held.push_back(units.Int(0));
    }
  }
  for (const int64_t unit_id : held) {
    ASSIGN_OR_RETURN(const int64_t claim_seq, NextClaimSequence(database));
    RETURN_IF_ERROR(database
                        .Prepare("UPDATE work_unit SET state = 1, claim_seq = ?, agent_id = NULL, agent_epoch = NULL, "
                                 "claimed_at_ms = NULL WHERE unit_id = ?")
                        .Bind(claim_seq, unit_id)
                        .Run());
  }
  return static_cast<int64_t>(held.size());
}

absl::StatusOr<int64_t> Release(Database& database, std::string_view agent_id, int64_t now_ms) {
  RETURN_IF_ERROR(database.Prepare("UPDATE agent SET released_at_ms = ? WHERE agent_id = ? AND released_at_ms IS NULL")
                      .Bind(now_ms, agent_id)
                      .Run());
  return ReturnUnits(database, agent_id);
}

}  // namespace

absl::StatusOr<int64_t> NextClaimSequence(Database& database) {
  Statement next = database.Prepare("UPDATE sequence SET value = value + 1 WHERE name = 'claim_seq' RETURNING value");
  ASSIGN_OR_RETURN(const bool has_row, next.Step());
  if (!has_row) return DataLoss("{}: the row claim_seq is missing from table sequence", database.path());
  const int64_t value = next.Int(0);
  // The change counts as made only once the statement is done.
  RETURN_IF_ERROR(next.Run());
  return value;
}

absl::StatusOr<int64_t> RegisterAgent(Database& database, std::string_view agent_id, std::string_view host,
                                      int64_t now_ms) {
  RETURN_IF_ERROR(ReturnUnits(database, agent_id).status());
  RETURN_IF_ERROR(database
                      .Prepare("INSERT INTO agent (agent_id, host, epoch, registered_at_ms) VALUES (?, ?, 1, ?) "
                               "ON CONFLICT (agent_id) DO UPDATE SET host = excluded.host, epoch = epoch + 1, "
                               "registered_at_ms = excluded.registered_at_ms, released_at_ms = NULL")
                      .Bind(agent_id, host, now_ms)
                      .Run());
  Statement epoch = database.Prepare("SELECT epoch FROM agent WHERE agent_id = ?");
  RETURN_IF_ERROR(epoch.Bind(agent_id).Step().status());
  return epoch.Int(0);
}

absl::Status ReleaseAgent(Database& database, std::string_view agent_id, int64_t now_ms) {
  Statement known = database.Prepare("SELECT 1 FROM agent WHERE agent_id = ?");
  ASSIGN_OR_RETURN(const bool found, known.Bind(agent_id).Step());
  if (!found) return NotFound("agent {} has never registered", agent_id);
  return Release(database, agent_id, now_ms).status();
}

absl::StatusOr<int64_t> ReleaseOtherAgents(Database& database, const std::vector<std::string>& keep, int64_t now_ms) {
  std::vector<std::string> agents;
  {
    Statement live = database.Prepare("SELECT agent_id FROM agent WHERE released_at_ms IS NULL ORDER BY agent_id");
    while (true) {
      ASSIGN_OR_RETURN(const bool has_row, live.Step());
      if (!has_row) break;
      agents.push_back(live.Bytes(0));
    }
  }
  int64_t returned = 0;
  for (const std::string& agent_id : agents) {
    if (std::find(keep.begin(), keep.end(), agent_id) != keep.end()) continue;
    ASSIGN_OR_RETURN(const int64_t count, Release(database, agent_id, now_ms));
    returned += count;
  }
  return returned;
}

}  // namespace tunefarm::sqlite
