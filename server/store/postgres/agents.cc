// Agents, their epochs and leases. Leases run by the database's clock.

#include <algorithm>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/agent_store.h"
#include "server/store/checks.h"
#include "server/store/fence_step.h"
#include "server/store/lost_units.h"
#include "server/store/postgres/facets.h"
#include "server/store/postgres/operations.h"

namespace tunefarm::postgres {
namespace {

constexpr int64_t kEndedAgentsKeptMs = int64_t{7} * 24 * 3600 * 1000;

// Takes from an agent all that it holds. Units of ended studies go, since nobody will ask for them again; the others go
// to the end of the queue. Returns how many went back. A kept token makes late reports stale: the next claim raises it.
// The caller has changed the agent's row, so that nothing more is claimed for it meanwhile. `was_lost`: see
// lost_units.h.
absl::StatusOr<int64_t> ReturnUnits(Session& session, std::string_view agent_id, bool was_lost) {
  // Studies before units: they must not end while units come back to them.
  RETURN_IF_ERROR(
      session.Run("SELECT 1 FROM study s WHERE s.study_id IN (SELECT u.study_id FROM work_unit u WHERE "
                  "u.agent_id = $1 AND u.state = 2) ORDER BY s.study_id FOR SHARE",
                  agent_id));
  RETURN_IF_ERROR(
      session.Run("DELETE FROM work_unit u USING study s WHERE u.agent_id = $1 AND u.state = 2 AND "
                  "s.study_id = u.study_id AND s.state = 3",
                  agent_id));
  if (was_lost) {
    RETURN_IF_ERROR(session.Run(
        "UPDATE work_unit u SET losses = CASE WHEN u.kind = 1 AND u.handed_end = 0 THEN 1 WHEN u.losses < $2 OR "
        "(SELECT count(*) FROM work_unit w WHERE w.agent_id = $1 AND w.state = 2) = 1 THEN u.losses + 1 ELSE "
        "u.losses END, suspects_end = CASE u.handed_end WHEN 0 THEN u.first_ordinal + u.trial_count ELSE "
        "u.handed_end END WHERE u.agent_id = $1 AND u.state = 2",
        agent_id, kAloneFromLoss));
  }
  return session.Change(
      "UPDATE work_unit u SET state = 1, claim_seq = n.seq, agent_id = NULL, agent_epoch = NULL, claimed_at_ms = NULL "
      "FROM (SELECT o.unit_id, nextval('claim_seq') AS seq FROM (SELECT w.unit_id FROM work_unit w WHERE "
      "w.agent_id = $1 AND w.state = 2 ORDER BY w.claim_seq) o) n "
      "WHERE u.unit_id = n.unit_id AND u.agent_id = $1 AND u.state = 2",
      agent_id);
}

absl::StatusOr<int64_t> Release(Session& session, std::string_view agent_id, int64_t now_ms, bool was_lost) {
  RETURN_IF_ERROR(session.Run("UPDATE agent SET released_at_ms = $1 WHERE agent_id = $2 AND released_at_ms IS NULL",
                              now_ms, agent_id));
  return ReturnUnits(session, agent_id, was_lost);
}

class PostgresAgents final : public Facet<AgentStore> {
 public:
  using Facet::Facet;

  absl::StatusOr<int64_t> RegisterAgent(const AgentRegistration& agent) override {
    const int64_t step = FenceStep(entropy_);
    absl::StatusOr<int64_t> result = pool_->Call(&Pool::Write, [&](Session& session) -> absl::StatusOr<int64_t> {
      ASSIGN_OR_RETURN(
          const int64_t epoch,
          session.QueryInt(
              "INSERT INTO agent AS a (agent_id, host, epoch, registered_at_ms, detail, lease_until) VALUES ($1, $2, "
              "$6, $3, $4, CASE WHEN $5 > 0 THEN clock_timestamp() + $5 * interval '1 millisecond' END) ON CONFLICT "
              "(agent_id) DO UPDATE SET host = excluded.host, epoch = a.epoch + $6, registered_at_ms = "
              "excluded.registered_at_ms, released_at_ms = NULL, draining = false, detail = excluded.detail, "
              "lease_until = excluded.lease_until RETURNING epoch",
              agent.agent_id, agent.host, agent.now_ms, Blob{agent.detail}, agent.lease_ms, step));
      RETURN_IF_ERROR(ReturnUnits(session, agent.agent_id, false).status());
      return epoch;
    });
    board_->Invalidate();
    return result;
  }

  absl::StatusOr<AgentRow> RenewAgent(std::string_view agent_id, int64_t epoch, int64_t lease_ms,
                                      const std::optional<std::string>& detail) override {
    return pool_->Call(&Pool::Write, [&](Session& session) -> absl::StatusOr<AgentRow> {
      if (lease_ms < 1) return InvalidArgument("a lease of {} ms cannot be; it must be at least 1", lease_ms);
      ASSIGN_OR_RETURN(
          std::optional<AgentRow> agent,
          session.ReadOne(ReadAgent,
                          "UPDATE agent SET lease_until = clock_timestamp() + $3 * interval '1 "
                          "millisecond', detail = CASE WHEN $4 THEN $5 ELSE detail END WHERE agent_id = $1 "
                          "AND epoch = $2 AND released_at_ms IS NULL RETURNING " TUNEFARM_PG_AGENT_COLUMNS,
                          agent_id, epoch, lease_ms, detail.has_value(),
                          Blob{detail.has_value() ? std::string_view(*detail) : std::string_view()}));
      if (!agent.has_value()) return EpochEnded(agent_id, epoch);
      return *std::move(agent);
    });
  }

  absl::StatusOr<std::optional<AgentRow>> FindAgent(std::string_view agent_id) override {
    return pool_->Call(&Pool::Read, [&](Session& session) { return postgres::FindAgent(session, agent_id); });
  }

  absl::StatusOr<std::vector<AgentRow>> ListAgents() override {
    return pool_->Call(&Pool::Read, [](Session& session) {
      return session.ReadAll(
          ReadAgent, "SELECT " TUNEFARM_PG_AGENT_COLUMNS " FROM agent WHERE released_at_ms IS NULL ORDER BY agent_id");
    });
  }

  absl::Status SetAgentDraining(std::string_view agent_id, bool draining) override {
    absl::Status result = pool_->Write([&](Session& session) -> absl::Status {
      ASSIGN_OR_RETURN(const int64_t changes,
                       session.Change("UPDATE agent SET draining = $1 WHERE agent_id = $2 AND released_at_ms IS NULL",
                                      draining, agent_id));
      if (changes == 1) return absl::OkStatus();
      return NotFound("agent {} is not registered", agent_id);
    });
    board_->Invalidate();
    return result;
  }

  absl::Status ReleaseAgent(std::string_view agent_id, int64_t now_ms, bool was_lost) override {
    absl::Status result = pool_->Write([&](Session& session) -> absl::Status {
      ASSIGN_OR_RETURN(const bool found, session.Exists("SELECT 1 FROM agent WHERE agent_id = $1", agent_id));
      if (!found) return NotFound("agent {} has never registered", agent_id);
      return Release(session, agent_id, now_ms, was_lost).status();
    });
    board_->Invalidate();
    return result;
  }

  absl::StatusOr<int64_t> ReleaseOtherAgents(const std::vector<std::string>& keep, int64_t now_ms) override {
    absl::StatusOr<int64_t> result = pool_->Call(&Pool::Write, [&](Session& session) -> absl::StatusOr<int64_t> {
      ASSIGN_OR_RETURN(const std::vector<std::string> live,
                       session.ReadAll(Sql::ReadBytes,
                                       "SELECT agent_id FROM agent WHERE released_at_ms IS NULL AND "
                                       "lease_until IS NULL ORDER BY agent_id FOR UPDATE"));
      int64_t returned = 0;
      for (const std::string& agent_id : live) {
        if (std::find(keep.begin(), keep.end(), agent_id) != keep.end()) continue;
        ASSIGN_OR_RETURN(const int64_t count, Release(session, agent_id, now_ms, false));
        returned += count;
      }
      return returned;
    });
    board_->Invalidate();
    return result;
  }

  absl::StatusOr<std::vector<std::string>> ReapAgents(int64_t now_ms) override {
    absl::StatusOr<std::vector<std::string>> result =
        pool_->Call(&Pool::Write, [&](Session& session) -> absl::StatusOr<std::vector<std::string>> {
          // One that is renewing its lease just now is left for the next time.
          ASSIGN_OR_RETURN(std::vector<std::string> agents,
                           session.ReadAll(Sql::ReadBytes,
                                           "SELECT agent_id FROM agent WHERE released_at_ms IS NULL AND lease_until <= "
                                           "clock_timestamp() ORDER BY agent_id FOR UPDATE SKIP LOCKED"));
          for (const std::string& agent_id : agents) {
            RETURN_IF_ERROR(Release(session, agent_id, now_ms, true).status());
          }
          // A process has a fresh id, so what ended long ago is never asked for again.
          RETURN_IF_ERROR(session.Run("DELETE FROM agent WHERE released_at_ms < $1", now_ms - kEndedAgentsKeptMs));
          return agents;
        });
    board_->Invalidate();
    return result;
  }
};

}  // namespace

std::unique_ptr<AgentStore> NewAgentStore(const Shared& shared) { return std::make_unique<PostgresAgents>(shared); }

}  // namespace tunefarm::postgres
