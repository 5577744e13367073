#include <algorithm>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/agent_store.h"
#include "server/store/checks.h"
#include "server/store/fence_step.h"
#include "server/store/lost_units.h"
#include "server/store/read_rows.h"
#include "server/store/sqlite/facets.h"
#include "server/store/sqlite/operations.h"

namespace tunefarm::sqlite {
namespace {

// As of $1.
#define TUNEFARM_SQLITE_AGENT_COLUMNS TUNEFARM_AGENT_COLUMNS "lease_until_ms - $1"

constexpr int64_t kEndedAgentsKeptMs = int64_t{7} * 24 * 3600 * 1000;

absl::Status NoteLoss(Database& database, int64_t unit_id, bool was_alone) {
  return database.Run(
      "UPDATE work_unit SET losses = CASE WHEN kind = 1 AND handed_end = 0 THEN 1 WHEN losses < $1 OR $2 THEN "
      "losses + 1 ELSE losses END, suspects_end = CASE handed_end WHEN 0 THEN first_ordinal + trial_count ELSE "
      "handed_end END WHERE unit_id = $3",
      kAloneFromLoss, was_alone ? 1 : 0, unit_id);
}

// Takes from an agent all that it holds. Units of ended studies go, since nobody will ask for them again; the others go
// to the end of the queue. Returns how many went back. A kept token makes late reports stale: the next claim raises it.
// `was_lost`: see lost_units.h.
absl::StatusOr<int64_t> ReturnUnits(Database& database, std::string_view agent_id, bool was_lost) {
  RETURN_IF_ERROR(
      database.Run("DELETE FROM work_unit WHERE agent_id = $1 AND state = 2 AND study_id IN "
                   "(SELECT study_id FROM study WHERE state = 3)",
                   agent_id));
  ASSIGN_OR_RETURN(
      const std::vector<int64_t> held,
      database.ReadAll(Sql::ReadInt,
                       "SELECT unit_id FROM work_unit WHERE agent_id = $1 AND state = 2 ORDER BY claim_seq", agent_id));
  for (const int64_t unit_id : held) {
    ASSIGN_OR_RETURN(const int64_t claim_seq, NextClaimSequence(database));
    RETURN_IF_ERROR(
        database.Run("UPDATE work_unit SET state = 1, claim_seq = $1, agent_id = NULL, agent_epoch = NULL, "
                     "claimed_at_ms = NULL WHERE unit_id = $2",
                     claim_seq, unit_id));
    if (was_lost) RETURN_IF_ERROR(NoteLoss(database, unit_id, held.size() == 1));
  }
  return static_cast<int64_t>(held.size());
}

absl::StatusOr<int64_t> Release(Database& database, std::string_view agent_id, int64_t now_ms, bool was_lost) {
  RETURN_IF_ERROR(database.Run("UPDATE agent SET released_at_ms = $1 WHERE agent_id = $2 AND released_at_ms IS NULL",
                               now_ms, agent_id));
  return ReturnUnits(database, agent_id, was_lost);
}

absl::StatusOr<std::optional<AgentRow>> Find(Database& database, std::string_view agent_id, int64_t now_ms) {
  return database.ReadOne(
      ReadAgent, "SELECT " TUNEFARM_SQLITE_AGENT_COLUMNS " FROM agent WHERE agent_id = $2 AND released_at_ms IS NULL",
      now_ms, agent_id);
}

class SqliteAgents final : public Facet<AgentStore> {
 public:
  using Facet::Facet;

  absl::StatusOr<int64_t> RegisterAgent(const AgentRegistration& agent) override {
    const int64_t step = FenceStep(entropy_);
    return writer_->Call([&](Database& database) -> absl::StatusOr<int64_t> {
      const int64_t now_ms = clock_->NowMs();
      RETURN_IF_ERROR(ReturnUnits(database, agent.agent_id, false).status());
      return database.QueryInt(
          "INSERT INTO agent (agent_id, host, epoch, registered_at_ms, detail, lease_until_ms) VALUES "
          "($1, $2, $3, $4, $5, $6) ON CONFLICT (agent_id) DO UPDATE SET host = excluded.host, epoch = "
          "epoch + $3, registered_at_ms = excluded.registered_at_ms, released_at_ms = NULL, draining = 0, "
          "detail = excluded.detail, lease_until_ms = excluded.lease_until_ms RETURNING epoch",
          agent.agent_id, agent.host, step, agent.now_ms, Blob{agent.detail},
          ZeroAsNull{agent.lease_ms > 0 ? now_ms + agent.lease_ms : 0});
    });
  }

  absl::StatusOr<AgentRow> RenewAgent(std::string_view agent_id, int64_t epoch, int64_t lease_ms,
                                      const std::optional<std::string>& detail) override {
    return writer_->Call([&](Database& database) -> absl::StatusOr<AgentRow> {
      const int64_t now_ms = clock_->NowMs();
      if (lease_ms < 1) return InvalidArgument("a lease of {} ms cannot be; it must be at least 1", lease_ms);
      RETURN_IF_ERROR(CheckEpoch(database, agent_id, epoch));
      RETURN_IF_ERROR(
          database.Run("UPDATE agent SET lease_until_ms = $1 WHERE agent_id = $2", now_ms + lease_ms, agent_id));
      if (detail.has_value()) {
        RETURN_IF_ERROR(database.Run("UPDATE agent SET detail = $1 WHERE agent_id = $2", Blob{*detail}, agent_id));
      }
      ASSIGN_OR_RETURN(std::optional<AgentRow> agent, Find(database, agent_id, now_ms));
      return *std::move(agent);
    });
  }

  absl::StatusOr<std::optional<AgentRow>> FindAgent(std::string_view agent_id) override {
    return readers_->Read([&](Database& database) { return Find(database, agent_id, clock_->NowMs()); });
  }

  absl::StatusOr<std::vector<AgentRow>> ListAgents() override {
    return readers_->Read([this](Database& database) {
      return database.ReadAll(ReadAgent,
                              "SELECT " TUNEFARM_SQLITE_AGENT_COLUMNS
                              " FROM agent WHERE released_at_ms IS NULL ORDER BY agent_id",
                              clock_->NowMs());
    });
  }

  absl::Status SetAgentDraining(std::string_view agent_id, bool draining) override {
    return writer_->Run([&](Database& database) -> absl::Status {
      ASSIGN_OR_RETURN(const int64_t changes,
                       database.Change("UPDATE agent SET draining = $1 WHERE agent_id = $2 AND released_at_ms IS NULL",
                                       draining, agent_id));
      if (changes == 1) return absl::OkStatus();
      return NotFound("agent {} is not registered", agent_id);
    });
  }

  absl::Status ReleaseAgent(std::string_view agent_id, int64_t now_ms, bool was_lost) override {
    return writer_->Run([&](Database& database) -> absl::Status {
      ASSIGN_OR_RETURN(const bool found, database.Exists("SELECT 1 FROM agent WHERE agent_id = $1", agent_id));
      if (!found) return NotFound("agent {} has never registered", agent_id);
      return Release(database, agent_id, now_ms, was_lost).status();
    });
  }

  absl::StatusOr<int64_t> ReleaseOtherAgents(const std::vector<std::string>& keep, int64_t now_ms) override {
    return writer_->Call([&](Database& database) -> absl::StatusOr<int64_t> {
      ASSIGN_OR_RETURN(
          const std::vector<std::string> agents,
          database.ReadAll(
              Sql::ReadBytes,
              "SELECT agent_id FROM agent WHERE released_at_ms IS NULL AND lease_until_ms IS NULL ORDER BY agent_id"));
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
      ASSIGN_OR_RETURN(
          std::vector<std::string> agents,
          database.ReadAll(
              Sql::ReadBytes,
              "SELECT agent_id FROM agent WHERE released_at_ms IS NULL AND lease_until_ms <= $1 ORDER BY agent_id",
              clock_->NowMs()));
      for (const std::string& agent_id : agents) {
        RETURN_IF_ERROR(Release(database, agent_id, now_ms, true).status());
      }
      // A process has a fresh id, so what ended long ago is never asked for again.
      RETURN_IF_ERROR(database.Run("DELETE FROM agent WHERE released_at_ms < $1", now_ms - kEndedAgentsKeptMs));
      return agents;
    });
  }
};

}  // namespace

std::unique_ptr<AgentStore> NewAgentStore(const Shared& shared) { return std::make_unique<SqliteAgents>(shared); }

}  // namespace tunefarm::sqlite
