#include <algorithm>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/agent_store.h"
#include "server/store/checks.h"
#include "server/store/fence_step.h"
#include "server/store/lost_units.h"
#include "server/store/sqlite/facets.h"
#include "server/store/sqlite/operations.h"
#include "server/store/sqlite/rows.h"

namespace tunefarm::sqlite {
namespace {

#define TUNEFARM_AGENT_COLUMNS "agent_id, host, detail, epoch, draining, registered_at_ms, lease_until_ms"
AgentRow ReadAgent(const Statement& row, int64_t now_ms) {
  AgentRow agent;
  agent.agent_id = row.Bytes(0);
  agent.host = row.Bytes(1);
  agent.detail = row.Bytes(2);
  agent.epoch = row.Int(3);
  agent.draining = row.Int(4) != 0;
  agent.registered_at_ms = row.Int(5);
  if (!row.IsNull(6)) agent.lease_left_ms = row.Int(6) - now_ms;
  return agent;
}

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

absl::StatusOr<std::optional<AgentRow>> Find(Database& database, std::string_view agent_id, int64_t now_ms) {
  Statement row =
      database.Prepare("SELECT " TUNEFARM_AGENT_COLUMNS " FROM agent WHERE agent_id = ? AND released_at_ms IS NULL");
  ASSIGN_OR_RETURN(const bool found, row.Bind(agent_id).Step());
  if (!found) return std::optional<AgentRow>();
  return std::optional<AgentRow>(ReadAgent(row, now_ms));
}

class SqliteAgents final : public Facet<AgentStore> {
 public:
  using Facet::Facet;

  absl::StatusOr<int64_t> RegisterAgent(const AgentRegistration& agent) override {
    const int64_t step = FenceStep(entropy_);
    return writer_->Call([&](Database& database) -> absl::StatusOr<int64_t> {
      const int64_t now_ms = clock_->NowMs();
      RETURN_IF_ERROR(ReturnUnits(database, agent.agent_id, false).status());
      RETURN_IF_ERROR(
          database
              .Prepare("INSERT INTO agent (agent_id, host, epoch, registered_at_ms, detail, lease_until_ms) VALUES "
                       "(?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (agent_id) DO UPDATE SET host = excluded.host, epoch = "
                       "epoch + ?3, registered_at_ms = excluded.registered_at_ms, released_at_ms = NULL, draining = 0, "
                       "detail = excluded.detail, lease_until_ms = excluded.lease_until_ms")
              .Bind(agent.agent_id, agent.host, step, agent.now_ms, Blob{agent.detail},
                    ZeroAsNull{agent.lease_ms > 0 ? now_ms + agent.lease_ms : 0})
              .Run());
      Statement epoch = database.Prepare("SELECT epoch FROM agent WHERE agent_id = ?");
      RETURN_IF_ERROR(epoch.Bind(agent.agent_id).Step().status());
      return epoch.Int(0);
    });
  }

  absl::StatusOr<AgentRow> RenewAgent(std::string_view agent_id, int64_t epoch, int64_t lease_ms,
                                      const std::optional<std::string>& detail) override {
    return writer_->Call([&](Database& database) -> absl::StatusOr<AgentRow> {
      const int64_t now_ms = clock_->NowMs();
      if (lease_ms < 1) return InvalidArgument("a lease of {} ms cannot be; it must be at least 1", lease_ms);
      RETURN_IF_ERROR(CheckEpoch(database, agent_id, epoch));
      RETURN_IF_ERROR(database.Prepare("UPDATE agent SET lease_until_ms = ? WHERE agent_id = ?")
                          .Bind(now_ms + lease_ms, agent_id)
                          .Run());
      if (detail.has_value()) {
        RETURN_IF_ERROR(
            database.Prepare("UPDATE agent SET detail = ? WHERE agent_id = ?").Bind(Blob{*detail}, agent_id).Run());
      }
      ASSIGN_OR_RETURN(std::optional<AgentRow> agent, Find(database, agent_id, now_ms));
      return *std::move(agent);
    });
  }

  absl::StatusOr<std::optional<AgentRow>> FindAgent(std::string_view agent_id) override {
    return readers_->Read([&](Database& database) { return Find(database, agent_id, clock_->NowMs()); });
  }

  absl::StatusOr<std::vector<AgentRow>> ListAgents() override {
    return readers_->Read([this](Database& database) -> absl::StatusOr<std::vector<AgentRow>> {
      const int64_t now_ms = clock_->NowMs();
      Statement rows = database.Prepare("SELECT " TUNEFARM_AGENT_COLUMNS
                                        " FROM agent WHERE released_at_ms IS NULL ORDER BY agent_id");
      return ReadAll(rows, [&](const Statement& row) { return ReadAgent(row, now_ms); });
    });
  }

  absl::Status SetAgentDraining(std::string_view agent_id, bool draining) override {
    return writer_->Run([&](Database& database) -> absl::Status {
      RETURN_IF_ERROR(database.Prepare("UPDATE agent SET draining = ? WHERE agent_id = ? AND released_at_ms IS NULL")
                          .Bind(draining ? 1 : 0, agent_id)
                          .Run());
      if (database.Changes() == 1) return absl::OkStatus();
      return NotFound("agent {} is not registered", agent_id);
    });
  }

  absl::Status ReleaseAgent(std::string_view agent_id, int64_t now_ms, bool was_lost) override {
    return writer_->Run([&](Database& database) -> absl::Status {
      Statement known = database.Prepare("SELECT 1 FROM agent WHERE agent_id = ?");
      ASSIGN_OR_RETURN(const bool found, known.Bind(agent_id).Step());
      if (!found) return NotFound("agent {} has never registered", agent_id);
      return Release(database, agent_id, now_ms, was_lost).status();
    });
  }

  absl::StatusOr<int64_t> ReleaseOtherAgents(const std::vector<std::string>& keep, int64_t now_ms) override {
    return writer_->Call([&](Database& database) -> absl::StatusOr<int64_t> {
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
    });
  }

  absl::StatusOr<std::vector<std::string>> ReapAgents(int64_t now_ms) override {
    return writer_->Call([&](Database& database) -> absl::StatusOr<std::vector<std::string>> {
      Statement expired = database.Prepare(
          "SELECT agent_id FROM agent WHERE released_at_ms IS NULL AND lease_until_ms <= ? ORDER BY agent_id");
      expired.Bind(clock_->NowMs());
      ASSIGN_OR_RETURN(std::vector<std::string> agents, Names(&expired));
      for (const std::string& agent_id : agents) {
        RETURN_IF_ERROR(Release(database, agent_id, now_ms, true).status());
      }
      // A process has a fresh id, so what ended long ago is never asked for again.
      RETURN_IF_ERROR(
          database.Prepare("DELETE FROM agent WHERE released_at_ms < ?").Bind(now_ms - kEndedAgentsKeptMs).Run());
      return agents;
    });
  }
};

}  // namespace

std::unique_ptr<AgentStore> NewAgentStore(const Shared& shared) { return std::make_unique<SqliteAgents>(shared); }

}  // namespace tunefarm::sqlite
