#include <algorithm>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/lost_units.h"
#include "server/store/sqlite/operations.h"
#include "server/store/sqlite/rows.h"

namespace tunefarm::sqlite {
namespace {

constexpr int64_t kEndedAgentsKeptMs = int64_t{7} * 24 * 3600 * 1000;

absl::Status NoteLoss(Database& database, int64_t unit_id, bool was_alone) {
  return database
      .Prepare(
          "UPDATE work_unit SET losses = CASE WHEN kind = 1 AND handed_end = 0 THEN 1 WHEN losses < ?1 OR ?2 THEN "
          "losses + 1 ELSE losses END, suspects_end = CASE handed_end WHEN 0 THEN first_ordinal + trial_count ELSE "
          "handed_end END WHERE unit_id = ?3")
      .Bind(kAloneFromLoss, was_alone ? 1 : 0, unit_id)
      .Run();
}

// Takes from an agent all that it holds. Units of ended studies go, since nobody will ask for them again; the others go
// to the end of the queue. Returns how many went back. A kept token makes late reports stale: the next claim raises it.
// `was_lost`: see lost_units.h.
absl::StatusOr<int64_t> ReturnUnits(Database& database, std::string_view agent_id, bool was_lost) {
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
    if (was_lost) RETURN_IF_ERROR(NoteLoss(database, unit_id, held.size() == 1));
  }
  return static_cast<int64_t>(held.size());
}

// The first column of every row.
absl::StatusOr<std::vector<std::string>> Names(Statement* rows) {
  std::vector<std::string> names;
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, rows->Step());
    if (!has_row) return names;
    names.push_back(rows->Bytes(0));
  }
}

absl::StatusOr<int64_t> Release(Database& database, std::string_view agent_id, int64_t now_ms, bool was_lost) {
  RETURN_IF_ERROR(database.Prepare("UPDATE agent SET released_at_ms = ? WHERE agent_id = ? AND released_at_ms IS NULL")
                      .Bind(now_ms, agent_id)
                      .Run());
  return ReturnUnits(database, agent_id, was_lost);
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

absl::Status CheckEpoch(Database& database, std::string_view agent_id, int64_t epoch) {
  Statement current =
      database.Prepare("SELECT 1 FROM agent WHERE agent_id = ? AND epoch = ? AND released_at_ms IS NULL");
  ASSIGN_OR_RETURN(const bool is_current, current.Bind(agent_id, epoch).Step());
  if (is_current) return absl::OkStatus();
  return WithReason(FailedPrecondition("epoch {} of agent {} has ended; register again", epoch, agent_id),
                    "AGENT_EPOCH");
}

absl::StatusOr<int64_t> RegisterAgent(Database& database, const AgentRegistration& agent, int64_t step,
                                      int64_t now_ms) {
  RETURN_IF_ERROR(ReturnUnits(database, agent.agent_id, false).status());
  RETURN_IF_ERROR(database
                      .Prepare("INSERT INTO agent (agent_id, host, epoch, registered_at_ms, detail, lease_until_ms) "
                               "VALUES (?1, ?2, ?3, ?4, ?5, ?6) "
                               "ON CONFLICT (agent_id) DO UPDATE SET host = excluded.host, epoch = epoch + ?3, "
                               "registered_at_ms = excluded.registered_at_ms, released_at_ms = NULL, draining = 0, "
                               "detail = excluded.detail, lease_until_ms = excluded.lease_until_ms")
                      .Bind(agent.agent_id, agent.host, step, agent.now_ms, Blob{agent.detail},
                            ZeroAsNull{agent.lease_ms > 0 ? now_ms + agent.lease_ms : 0})
                      .Run());
  Statement epoch = database.Prepare("SELECT epoch FROM agent WHERE agent_id = ?");
  RETURN_IF_ERROR(epoch.Bind(agent.agent_id).Step().status());
  return epoch.Int(0);
}

absl::StatusOr<AgentRow> RenewAgent(Database& database, std::string_view agent_id, int64_t epoch, int64_t lease_ms,
                                    const std::optional<std::string>& detail, int64_t now_ms) {
  if (lease_ms < 1) return InvalidArgument("a lease of {} ms cannot be; it must be at least 1", lease_ms);
  RETURN_IF_ERROR(CheckEpoch(database, agent_id, epoch));
  RETURN_IF_ERROR(database.Prepare("UPDATE agent SET lease_until_ms = ? WHERE agent_id = ?")
                      .Bind(now_ms + lease_ms, agent_id)
                      .Run());
  if (detail.has_value()) {
    RETURN_IF_ERROR(
        database.Prepare("UPDATE agent SET detail = ? WHERE agent_id = ?").Bind(Blob{*detail}, agent_id).Run());
  }
  ASSIGN_OR_RETURN(std::optional<AgentRow> agent, FindAgent(database, agent_id, now_ms));
  return *std::move(agent);
}

absl::StatusOr<std::optional<AgentRow>> FindAgent(Database& database, std::string_view agent_id, int64_t now_ms) {
  Statement row =
      database.Prepare("SELECT " TUNEFARM_AGENT_COLUMNS " FROM agent WHERE agent_id = ? AND released_at_ms IS NULL");
  ASSIGN_OR_RETURN(const bool found, row.Bind(agent_id).Step());
  if (!found) return std::optional<AgentRow>();
  return std::optional<AgentRow>(ReadAgent(row, now_ms));
}

absl::StatusOr<std::vector<AgentRow>> ListAgents(Database& database, int64_t now_ms) {
  std::vector<AgentRow> agents;
  Statement rows =
      database.Prepare("SELECT " TUNEFARM_AGENT_COLUMNS " FROM agent WHERE released_at_ms IS NULL ORDER BY agent_id");
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, rows.Step());
    if (!has_row) return agents;
    agents.push_back(ReadAgent(rows, now_ms));
  }
}

absl::Status SetAgentDraining(Database& database, std::string_view agent_id, bool draining) {
  RETURN_IF_ERROR(database.Prepare("UPDATE agent SET draining = ? WHERE agent_id = ? AND released_at_ms IS NULL")
                      .Bind(draining ? 1 : 0, agent_id)
                      .Run());
  if (database.Changes() == 1) return absl::OkStatus();
  return NotFound("agent {} is not registered", agent_id);
}

absl::Status ReleaseAgent(Database& database, std::string_view agent_id, int64_t now_ms, bool was_lost) {
  Statement known = database.Prepare("SELECT 1 FROM agent WHERE agent_id = ?");
  ASSIGN_OR_RETURN(const bool found, known.Bind(agent_id).Step());
  if (!found) return NotFound("agent {} has never registered", agent_id);
  return Release(database, agent_id, now_ms, was_lost).status();
}

absl::StatusOr<int64_t> ReleaseOtherAgents(Database& database, const std::vector<std::string>& keep, int64_t now_ms) {
  Statement live = database.Prepare(
      "SELECT agent_id FROM agent WHERE released_at_ms IS NULL AND lease_until_ms IS NULL ORDER BY agent_id");
  ASSIGN_OR_RETURN(const std::vector<std::string> agents, Names(&live));
  int64_t returned = 0;
  for (const std::string& agent_id : agents) {
    if (std::find(keep.begin(), keep.end(), agent_id) != keep.end()) continue;
    ASSIGN_OR_RETURN(const int64_t count, Release(database, agent_id, now_ms, false));
    returned += count;
  }
  return returned;
}

absl::StatusOr<std::vector<std::string>> ReapAgents(Database& database, int64_t released_at_ms, int64_t now_ms) {
  Statement expired = database.Prepare(
      "SELECT agent_id FROM agent WHERE released_at_ms IS NULL AND lease_until_ms <= ? ORDER BY agent_id");
  expired.Bind(now_ms);
  ASSIGN_OR_RETURN(std::vector<std::string> agents, Names(&expired));
  for (const std::string& agent_id : agents) {
    RETURN_IF_ERROR(Release(database, agent_id, released_at_ms, true).status());
  }
  // A process has a fresh id, so what ended long ago is never asked for again.
  RETURN_IF_ERROR(
      database.Prepare("DELETE FROM agent WHERE released_at_ms < ?").Bind(released_at_ms - kEndedAgentsKeptMs).Run());
  return agents;
}

}  // namespace tunefarm::sqlite
