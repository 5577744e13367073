#include <algorithm>
#include <limits>
#include <set>

#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/checks.h"
#include "server/store/fence_step.h"
#include "server/store/lost_units.h"
#include "server/store/read_rows.h"
#include "server/store/sqlite/facets.h"
#include "server/store/sqlite/operations.h"
#include "server/store/unit_store.h"

namespace tunefarm::sqlite {
namespace {

constexpr int kUnitsPerClaimMax = 256;
// Above the size of any unit but the largest, so that a job with small units does not get less.
constexpr int64_t kTrialsPerTurn = 32;
constexpr int64_t kStudyIdMax = std::numeric_limits<int64_t>::max();
absl::Status ReadPresent(Database& database, ClaimedUnit* claimed) {
  const UnitRow& unit = claimed->unit;
  std::set<std::string> devices;
  const auto read = [&](const SqlRow& row) {
    if (unit.kind == UnitKind::kFinals) devices.insert(row.Bytes(1));
    return row.Int(0);
  };
  ASSIGN_OR_RETURN(claimed->present_ordinals,
                   database.ReadAll(read,
                                    "SELECT ordinal, device_uuid FROM trial_result WHERE study_id = $1 AND ordinal >= "
                                    "$2 AND ordinal < $3 ORDER BY ordinal",
                                    unit.study_id, unit.first_ordinal, unit.first_ordinal + unit.trial_count));
  claimed->present_devices.assign(devices.begin(), devices.end());
  return absl::OkStatus();
}

// What a device answers to, each between line breaks; the empty name too, which stands for any device.
std::string NamesOf(const ClaimRequest& request) {
  std::string names = "\n\n" + request.device_uuid + "\n";
  for (const std::string& name : request.device_names) names += name + "\n";
  return names;
}

// What a claim may take. Parameters $1 class, $2 NamesOf; the index gives the order.
#define TUNEFARM_CLAIMABLE                                                                                      \
  "FROM work_unit u INDEXED BY work_unit_ready CROSS JOIN study s ON s.study_id = u.study_id "                  \
  "CROSS JOIN job j ON j.job_id = s.job_id CROSS JOIN job_spec p ON p.job_id = j.job_id WHERE u.state = 1 "     \
  "AND u.class_id = $1 AND instr($2, char(10) || u.device_selector || char(10)) > 0 AND j.state IN (1, 2) AND " \
  "s.state <> "                                                                                                 \
  "3 "

// All but the ordinals that are present.
#define TUNEFARM_CLAIMED_COLUMNS TUNEFARM_UNIT_COLUMNS ", j.job_id, j.kernel_id, s.problem, p.spec"
ClaimedUnit ReadClaimed(const SqlRow& row) {
  ClaimedUnit claimed;
  claimed.unit = ReadUnit(row);
  claimed.job_id = row.Int(kUnitColumns);
  claimed.kernel_id = row.Bytes(kUnitColumns + 1);
  claimed.problem = row.Bytes(kUnitColumns + 2);
  claimed.job_spec = row.Bytes(kUnitColumns + 3);
  return claimed;
}

// Whose turn it is among the jobs of one class and priority.
struct Turn {
  int64_t first_study_id = 0, last_study_id = 0;  // of the job
  int64_t trials = 0;                             // handed out in this turn
};

absl::StatusOr<Turn> ReadTurn(Database& database, std::string_view class_id, int64_t priority) {
  ASSIGN_OR_RETURN(
      const std::optional<Turn> turn,
      database.ReadOne(
          [](const SqlRow& row) {
            return Turn{row.Int(0), row.Int(1), row.Int(2)};
          },
          "SELECT first_study_id, last_study_id, trials FROM claim_turn WHERE class_id = $1 AND priority = $2",
          class_id, priority));
  return turn.value_or(Turn{});
}

// The first unit of the given priority in the studies from first to last.
absl::StatusOr<std::optional<ClaimedUnit>> FindWithin(Database& database, const ClaimRequest& request, int64_t priority,
                                                      int64_t first_study_id, int64_t last_study_id) {
  return database.ReadOne(
      ReadClaimed,
      "SELECT " TUNEFARM_CLAIMED_COLUMNS " " TUNEFARM_CLAIMABLE
      "AND u.priority = $3 AND u.study_id BETWEEN $4 AND $5 ORDER BY u.study_id, u.claim_seq LIMIT 1",
      request.class_id, NamesOf(request), priority, first_study_id, last_study_id);
}

// Writes down that the unit's job has the turn.
absl::Status NoteTurn(Database& database, const ClaimRequest& request, int64_t priority, const Turn& before,
                      const ClaimedUnit& claimed) {
  const int64_t study_id = claimed.unit.study_id;
  const bool goes_on =
      before.first_study_id <= study_id && study_id <= before.last_study_id && before.trials < kTrialsPerTurn;
  return database.Run(
      "INSERT INTO claim_turn (class_id, priority, first_study_id, last_study_id, trials) "
      "SELECT $1, $2, min(study_id), max(study_id), $4 FROM study WHERE job_id = $3 "
      "ON CONFLICT (class_id, priority) DO UPDATE SET first_study_id = excluded.first_study_id, "
      "last_study_id = excluded.last_study_id, trials = excluded.trials",
      request.class_id, priority, claimed.job_id, (goes_on ? before.trials : 0) + claimed.unit.trial_count);
}

// The READY unit that is next, still unclaimed: of the highest priority; of the job whose turn it is; of its first
// study, so that inputs and reference are built once for many units. A turn is over after kTrialsPerTurn trials, or
// when the job has nothing ready.
absl::StatusOr<std::optional<ClaimedUnit>> FindReady(Database& database, const ClaimRequest& request) {
  ASSIGN_OR_RETURN(
      const std::optional<int64_t> highest,
      database.ReadOne(Sql::ReadInt,
                       "SELECT u.priority " TUNEFARM_CLAIMABLE "ORDER BY u.priority DESC, u.study_id LIMIT 1",
                       request.class_id, NamesOf(request)));
  if (!highest.has_value()) return std::optional<ClaimedUnit>();
  const int64_t priority = *highest;
  ASSIGN_OR_RETURN(const Turn turn, ReadTurn(database, request.class_id, priority));
  std::optional<ClaimedUnit> found;
  if (turn.trials < kTrialsPerTurn) {
    ASSIGN_OR_RETURN(found, FindWithin(database, request, priority, turn.first_study_id, turn.last_study_id));
  }
  if (!found.has_value()) {
    ASSIGN_OR_RETURN(found, FindWithin(database, request, priority, turn.last_study_id + 1, kStudyIdMax));
  }
  if (!found.has_value()) {
    ASSIGN_OR_RETURN(found, FindWithin(database, request, priority, 0, turn.last_study_id));
  }
  if (found.has_value()) RETURN_IF_ERROR(NoteTurn(database, request, priority, turn, *found));
  return found;
}

// Where the part of a unit ends that is handed out after a loss; 0: no suspects are left.
int64_t PartOf(const ClaimedUnit& claimed) {
  const UnitRow& unit = claimed.unit;
  const auto& present = claimed.present_ordinals;
  int left = unit.losses < kAloneFromLoss ? kPartAfterLoss : 1;
  int64_t end = 0;
  for (int64_t ordinal = unit.first_ordinal; ordinal < unit.suspects_end && left > 0; ++ordinal) {
    if (std::binary_search(present.begin(), present.end(), ordinal)) continue;
    end = ordinal + 1;
    --left;
  }
  return end;
}

absl::Status Claim(Database& database, const ClaimRequest& request, int64_t step, ClaimedUnit* claimed) {
  UnitRow& unit = claimed->unit;
  // Token, attempt and owner change together, and only if the unit is still free and the agent still current.
  ASSIGN_OR_RETURN(
      const int64_t changes,
      database.Change(
          "UPDATE work_unit SET state = 2, token = token + $5, attempt = attempt + 1, agent_id = $1, agent_epoch = $2, "
          "claimed_at_ms = $3 WHERE unit_id = $4 AND state = 1 AND EXISTS "
          "(SELECT 1 FROM agent a WHERE a.agent_id = $1 AND a.epoch = $2 AND a.released_at_ms IS NULL)",
          request.agent_id, request.epoch, request.now_ms, unit.unit_id, step));
  if (changes != 1) return Internal("unit {} was claimed twice in one transaction", unit.unit_id);
  unit.state = UnitState::kClaimed;
  unit.token += step;
  unit.attempt += 1;
  LogDebug("store", "claimed unit={} token={} epoch={}", unit.unit_id, unit.token, request.epoch);
  RETURN_IF_ERROR(
      database.Run("UPDATE job SET state = 2, started_at_ms = ifnull(started_at_ms, $1) "
                   "WHERE job_id = $2 AND state = 1",
                   request.now_ms, claimed->job_id));
  RETURN_IF_ERROR(ReadPresent(database, claimed));
  if (unit.losses == 0 || unit.kind != UnitKind::kSearch) return absl::OkStatus();
  unit.handed_end = PartOf(*claimed);
  return database.Run("UPDATE work_unit SET handed_end = $1 WHERE unit_id = $2", unit.handed_end, unit.unit_id);
}

// Everything that makes a report current, for the statement that writes. Parameters $1 to $4.
#define TUNEFARM_FENCE                                                                                     \
  "u.unit_id = $1 AND u.token = $2 AND u.agent_id = $3 AND u.agent_epoch = $4 AND u.state = 2 AND EXISTS " \
  "(SELECT 1 FROM agent a WHERE a.agent_id = u.agent_id AND a.epoch = u.agent_epoch AND a.released_at_ms IS NULL)"

absl::Status InsertTrial(Database& database, const ReportRequest& request, int64_t study_id, const TrialRow& trial) {
  ASSIGN_OR_RETURN(
      const int64_t stored,
      database.Change(
          "INSERT INTO trial_result (study_id, ordinal, attempt, outcome, purpose, config, median_ns, device_uuid, "
          "ended_at_ms, detail, measured_key) "
          "SELECT u.study_id, $5, $6, $7, $8, $9, nullif($10, 0.0), $11, $12, $13, nullif($14, x'') FROM work_unit u "
          "WHERE " TUNEFARM_FENCE " ON CONFLICT (study_id, ordinal) DO NOTHING",
          request.unit_id, request.token, request.agent_id, request.epoch, trial.ordinal, trial.attempt, trial.outcome,
          trial.purpose, trial.config, trial.median_ns, trial.device_uuid, trial.ended_at_ms, Blob{trial.detail},
          Blob{trial.measured_key}));
  if (stored == 0) return absl::OkStatus();  // Stored before: log and samples are the first report's too.
  if (!trial.log.empty()) {
    RETURN_IF_ERROR(database.Run("INSERT INTO trial_log (study_id, ordinal, log) VALUES ($1, $2, $3)", study_id,
                                 trial.ordinal, Blob{trial.log}));
  }
  if (!trial.samples.empty()) {
    RETURN_IF_ERROR(database.Run("INSERT INTO trial_samples (study_id, ordinal, samples) VALUES ($1, $2, $3)", study_id,
                                 trial.ordinal, Blob{trial.samples}));
  }
  if (trial.work == 0) return absl::OkStatus();
  return database.Run(
      "INSERT INTO study_work (study_id, ordinal, work) VALUES ($1, $2, $3) ON CONFLICT (study_id, ordinal) DO UPDATE "
      "SET work = excluded.work, unit_id = NULL, token = NULL",
      study_id, trial.ordinal, trial.work);
}

// Whether the agent holds the trial and has not reported it.
absl::StatusOr<bool> Holds(Database& database, const WorkClaimRequest& request, const WorkClaim& claim) {
  return database.Exists("SELECT 1 FROM work_unit u WHERE " TUNEFARM_FENCE
                         " AND u.study_id = $5 AND $6 >= u.first_ordinal AND $6 < u.first_ordinal + u.trial_count AND "
                         "NOT EXISTS (SELECT 1 FROM trial_result t WHERE t.study_id = $5 AND t.ordinal = $6)",
                         claim.unit_id, claim.token, request.agent_id, request.epoch, claim.study_id, claim.ordinal);
}

absl::StatusOr<WorkAnswer> ClaimWork(Database& database, const WorkClaimRequest& request, const WorkClaim& claim) {
  WorkAnswer answer;
  if (claim.work == 0) return answer;
  ASSIGN_OR_RETURN(const bool holds, Holds(database, request, claim));
  if (!holds) return answer;
  ASSIGN_OR_RETURN(answer.measured,
                   database.ReadOne(ReadTrial,
                                    "SELECT " TUNEFARM_TRIAL_COLUMNS
                                    " FROM study_work w JOIN trial_result t ON t.study_id = w.study_id AND t.ordinal = "
                                    "w.ordinal WHERE w.study_id = $1 AND w.work = $2 AND w.unit_id IS NULL ORDER BY "
                                    "w.ordinal LIMIT 1",
                                    claim.study_id, claim.work));
  if (answer.measured.has_value()) return answer;
  // Void claims first: those that are left are others' or the agent's own.
  RETURN_IF_ERROR(database.Run(
      "DELETE FROM study_work AS w WHERE w.study_id = $1 AND w.work = $2 AND w.unit_id IS NOT NULL AND (NOT "
      "EXISTS (SELECT 1 FROM work_unit u JOIN agent a ON a.agent_id = u.agent_id AND a.epoch = "
      "u.agent_epoch WHERE u.unit_id = w.unit_id AND u.token = w.token AND u.state = 2 AND "
      "a.released_at_ms IS NULL) OR EXISTS (SELECT 1 FROM trial_result t WHERE t.study_id = w.study_id "
      "AND t.ordinal = w.ordinal))",
      claim.study_id, claim.work));
  ASSIGN_OR_RETURN(answer.is_elsewhere,
                   database.Exists("SELECT 1 FROM study_work w JOIN work_unit u ON u.unit_id = w.unit_id WHERE "
                                   "w.study_id = $1 AND w.work = $2 AND u.agent_id <> $3",
                                   claim.study_id, claim.work, request.agent_id));
  if (answer.is_elsewhere) return answer;
  RETURN_IF_ERROR(database.Run(
      "INSERT INTO study_work (study_id, ordinal, work, unit_id, token) VALUES ($1, $2, $3, $4, $5) ON CONFLICT "
      "(study_id, ordinal) DO UPDATE SET work = excluded.work, unit_id = excluded.unit_id, token = excluded.token",
      claim.study_id, claim.ordinal, claim.work, claim.unit_id, claim.token));
  return answer;
}

// One unit of an agent that goes on with others; see ReturnUnits for all of them.
absl::Status ReturnUnit(Database& database, const ReportRequest& request) {
  ASSIGN_OR_RETURN(const int64_t deleted,
                   database.Change("DELETE FROM work_unit AS u WHERE " TUNEFARM_FENCE
                                   " AND study_id IN (SELECT study_id FROM study WHERE state = 3)",
                                   request.unit_id, request.token, request.agent_id, request.epoch));
  if (deleted > 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t claim_seq, NextClaimSequence(database));
  return database.Run(
      "UPDATE work_unit AS u SET state = 1, claim_seq = $5, agent_id = NULL, agent_epoch = NULL, claimed_at_ms = NULL "
      "WHERE " TUNEFARM_FENCE,
      request.unit_id, request.token, request.agent_id, request.epoch, claim_seq);
}

class SqliteUnits final : public Facet<UnitStore> {
 public:
  using Facet::Facet;

  absl::StatusOr<std::vector<ClaimedUnit>> ClaimUnits(const ClaimRequest& request) override {
    const int64_t step = FenceStep(entropy_);
    return writer_->Call([&](Database& database) -> absl::StatusOr<std::vector<ClaimedUnit>> {
      RETURN_IF_ERROR(CheckEpoch(database, request.agent_id, request.epoch));
      std::vector<ClaimedUnit> units;
      ASSIGN_OR_RETURN(const int64_t draining,
                       database.QueryInt("SELECT draining FROM agent WHERE agent_id = $1", request.agent_id));
      if (draining != 0) return units;
      int64_t trials = 0;
      for (int i = 0; i < std::clamp(request.units_max, 0, kUnitsPerClaimMax); ++i) {
        if (request.trials_max > 0 && trials >= request.trials_max) break;
        ASSIGN_OR_RETURN(std::optional<ClaimedUnit> unit, FindReady(database, request));
        if (!unit.has_value()) break;
        trials += unit->unit.trial_count;
        RETURN_IF_ERROR(Claim(database, request, step, &*unit));
        units.push_back(*std::move(unit));
      }
      return units;
    });
  }

  absl::StatusOr<std::vector<ClaimedUnit>> ClaimsOf(std::string_view agent_id, int64_t epoch) override {
    return readers_->Read([&](Database& database) -> absl::StatusOr<std::vector<ClaimedUnit>> {
      ASSIGN_OR_RETURN(
          std::vector<ClaimedUnit> units,
          database.ReadAll(
              ReadClaimed,
              "SELECT " TUNEFARM_CLAIMED_COLUMNS " FROM work_unit u JOIN study s ON s.study_id = u.study_id JOIN job j "
              "ON j.job_id = s.job_id JOIN job_spec p ON p.job_id = j.job_id JOIN agent a ON a.agent_id = u.agent_id "
              "AND a.epoch = u.agent_epoch WHERE u.agent_id = $1 AND u.agent_epoch = $2 AND u.state = 2 AND "
              "a.released_at_ms IS NULL ORDER BY u.unit_id",
              agent_id, epoch));
      for (ClaimedUnit& claimed : units) {
        RETURN_IF_ERROR(ReadPresent(database, &claimed));
      }
      return units;
    });
  }

  absl::StatusOr<ReportVerdict> ReportTrials(const ReportRequest& request) override {
    return writer_->Call([&](Database& database) -> absl::StatusOr<ReportVerdict> {
      ASSIGN_OR_RETURN(
          const std::optional<UnitRow> unit,
          database.ReadOne(ReadUnit, "SELECT " TUNEFARM_UNIT_COLUMNS " FROM work_unit u WHERE " TUNEFARM_FENCE,
                           request.unit_id, request.token, request.agent_id, request.epoch));
      if (!unit.has_value()) return ReportVerdict::kStale;
      for (const TrialRow& trial : request.trials) {
        RETURN_IF_ERROR(CheckTrial(*unit, trial));
        RETURN_IF_ERROR(InsertTrial(database, request, unit->study_id, trial));
      }
      if (request.unit_done) {
        RETURN_IF_ERROR(
            database.Run("UPDATE work_unit AS u SET state = 3, agent_id = NULL, agent_epoch = NULL, done_at_ms = $5 "
                         "WHERE " TUNEFARM_FENCE,
                         request.unit_id, request.token, request.agent_id, request.epoch, request.now_ms));
      } else if (request.unit_returned) {
        RETURN_IF_ERROR(ReturnUnit(database, request));
      }
      LogDebug("store", "accepted unit={} token={} epoch={}", request.unit_id, request.token, request.epoch);
      return ReportVerdict::kAccepted;
    });
  }

  absl::StatusOr<std::vector<WorkAnswer>> ClaimWorks(const WorkClaimRequest& request) override {
    RETURN_IF_ERROR(CheckWorkClaims(request));
    return writer_->Call([&](Database& database) -> absl::StatusOr<std::vector<WorkAnswer>> {
      std::vector<WorkAnswer> answers;
      for (const WorkClaim& claim : request.claims) {
        ASSIGN_OR_RETURN(WorkAnswer answer, ClaimWork(database, request, claim));
        answers.push_back(std::move(answer));
      }
      return answers;
    });
  }

  absl::StatusOr<bool> HasWorks(int64_t study_id) override {
    return readers_->Read([&](Database& database) {
      return database.Exists("SELECT 1 FROM study_work WHERE study_id = $1 LIMIT 1", study_id);
    });
  }
};

}  // namespace

std::unique_ptr<UnitStore> NewUnitStore(const Shared& shared) { return std::make_unique<SqliteUnits>(shared); }

}  // namespace tunefarm::sqlite
