// Handing out units, and taking their results. Which study is asked next is ClaimBoard's to say; here is the statement
// that decides. A report is one statement too, which checks in the same breath that it is current.

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_split.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/agent_store.h"
#include "server/store/checks.h"
#include "server/store/fence_step.h"
#include "server/store/lost_units.h"
#include "server/store/postgres/facets.h"
#include "server/store/postgres/operations.h"
#include "server/store/postgres/work_claims.h"
#include "server/store/unit_store.h"

namespace tunefarm::postgres {
namespace {

constexpr int kUnitsPerClaimMax = 256;

struct ClaimStep {
  const ClaimRequest* request = nullptr;
  ClaimBoard::Pick pick;
  int units_max = 1;
  int64_t nonce = 0;
  int64_t token_step = 1;
};

struct ClaimStepResult {
  std::vector<UnitRow> units;
  std::vector<std::vector<int64_t>> present;  // of each
  std::vector<std::vector<std::string>> devices;
  int64_t last_seq = 0;
  int64_t trials = 0;
};

// What is present: only a unit that was claimed before can have results.
#define TUNEFARM_PG_PRESENT                                                                                          \
  "CASE WHEN u.attempt > 1 THEN (SELECT array_agg(t.ordinal ORDER BY t.ordinal) FROM trial_result t "                \
  "WHERE t.study_id = u.study_id AND t.ordinal >= u.first_ordinal AND t.ordinal < u.first_ordinal + u.trial_count) " \
  "END"

// The devices that the results of a final name, each on a line.
#define TUNEFARM_PG_DEVICES                                                                                  \
  "CASE WHEN u.kind = 3 THEN (SELECT string_agg(DISTINCT t.device_uuid, chr(10)) FROM trial_result t WHERE " \
  "t.study_id = u.study_id AND t.ordinal >= u.first_ordinal AND t.ordinal < u.first_ordinal + u.trial_count) END"

// Where the part of a unit ends that is handed out after a loss (lost_units.h); 0: it is handed out whole. $11
// kAloneFromLoss, $12 kPartAfterLoss.
#define TUNEFARM_PG_PART                                                                                               \
  "CASE WHEN w.losses = 0 OR w.kind <> 1 THEN 0 ELSE coalesce((SELECT max(s.o) + 1 FROM (SELECT o.o FROM "             \
  "generate_series(w.first_ordinal, w.suspects_end - 1) AS o(o) WHERE NOT EXISTS (SELECT 1 FROM trial_result t WHERE " \
  "t.study_id = w.study_id AND t.ordinal = o.o) ORDER BY o.o LIMIT CASE WHEN w.losses < $11 THEN $12 ELSE 1 END) s), " \
  "0) END"

// The agent's row is locked first: an epoch cannot end between here and the commit, leaving units with nobody. $1
// agent, $2 epoch, $3 study, $4 cursor, $5 units, $6 trials left in the turn, $7 now, $8 nonce, $9 lowest state of the
// job, $10 what the device answers to, $13 by how much tokens grow.
constexpr std::string_view kClaim =
    "WITH me AS MATERIALIZED (SELECT a.draining FROM agent a WHERE a.agent_id = $1 AND a.epoch = $2 AND "
    "a.released_at_ms IS NULL FOR SHARE), "
    "next AS MATERIALIZED (SELECT w.unit_id, w.claim_seq, w.trial_count FROM work_unit w WHERE w.study_id = $3 AND "
    "w.state = 1 AND w.claim_seq > $4 AND EXISTS (SELECT 1 FROM me WHERE NOT me.draining) AND EXISTS (SELECT 1 FROM "
    "study s JOIN job j ON j.job_id = s.job_id WHERE s.study_id = $3 AND s.state < 3 AND j.state BETWEEN $9 AND 2 AND "
    "s.device_selector = ANY($10)) "
    "ORDER BY w.claim_seq LIMIT $5 FOR UPDATE OF w SKIP LOCKED), "
    "turn AS (SELECT n.unit_id, sum(n.trial_count) OVER (ORDER BY n.claim_seq) - n.trial_count AS handed FROM next n), "
    "u AS (UPDATE work_unit w SET state = 2, token = w.token + $13, attempt = w.attempt + 1, agent_id = $1, "
    "agent_epoch = $2, claimed_at_ms = $7, claim_nonce = $8, handed_end = " TUNEFARM_PG_PART
    " FROM turn WHERE w.unit_id = turn.unit_id AND "
    "turn.handed < $6 RETURNING w.*) SELECT " TUNEFARM_UNIT_COLUMNS ", u.claim_seq, " TUNEFARM_PG_PRESENT
    ", " TUNEFARM_PG_DEVICES ", (SELECT count(*) FROM me) FROM (SELECT 1) one LEFT JOIN u ON true ORDER BY u.claim_seq";
constexpr int kIsCurrent = kUnitColumns + 3;

std::vector<std::string> Lines(const std::string& text) {
  if (text.empty()) return {};
  return absl::StrSplit(text, '\n');
}

ClaimStepResult ReadStep(const Rows& rows) {
  ClaimStepResult result;
  for (int i = 0; i < rows.size(); ++i) {
    const Row row = rows[i];
    if (row.IsNull(0)) continue;
    result.units.push_back(ReadUnit(row));
    result.last_seq = std::max(result.last_seq, row.Int(kUnitColumns));
    result.present.push_back(row.Ints(kUnitColumns + 1));
    result.devices.push_back(Lines(row.Bytes(kUnitColumns + 2)));
    result.trials += result.units.back().trial_count;
  }
  return result;
}

absl::StatusOr<ClaimStepResult> RunClaim(Session& session, const ClaimStep& step, int lowest_job_state) {
  const ClaimRequest& request = *step.request;
  Texts names{{"", request.device_uuid}};
  names.values.insert(names.values.end(), request.device_names.begin(), request.device_names.end());
  ASSIGN_OR_RETURN(const Rows rows,
                   session.Query(kClaim, request.agent_id, request.epoch, step.pick.study_id, step.pick.after_seq,
                                 step.units_max, step.pick.trials_left, request.now_ms, step.nonce, lowest_job_state,
                                 names, kAloneFromLoss, kPartAfterLoss, step.token_step));
  if (rows[0].Int(kIsCurrent) == 0) return EpochEnded(request.agent_id, request.epoch);
  return ReadStep(rows);
}

// One statement: units of one study. FailedPrecondition if the epoch has ended.
absl::StatusOr<ClaimStepResult> ClaimOfStudy(Session& session, const ClaimStep& step) {
  return RunClaim(session, step, static_cast<int>(JobState::kRunning));
}

// The same for a job that is QUEUED, which becomes RUNNING if anything is claimed.
absl::StatusOr<ClaimStepResult> ClaimOfQueued(Session& session, const ClaimStep& step) {
  // The job before its units, as everybody.
  RETURN_IF_ERROR(session.Run("SELECT 1 FROM agent WHERE agent_id = $1 FOR SHARE", step.request->agent_id));
  RETURN_IF_ERROR(session.Run("SELECT 1 FROM job WHERE job_id = $1 FOR UPDATE", step.pick.job_id));
  ASSIGN_OR_RETURN(ClaimStepResult result, RunClaim(session, step, static_cast<int>(JobState::kQueued)));
  if (result.units.empty()) return result;
  RETURN_IF_ERROR(session.Run(
      "UPDATE job SET state = 2, started_at_ms = coalesce(started_at_ms, $1) WHERE job_id = $2 AND state = 1",
      step.request->now_ms, step.pick.job_id));
  return result;
}

// What a call with this nonce has claimed.
absl::StatusOr<ClaimStepResult> FindClaimed(Session& session, const ClaimStep& step) {
  ASSIGN_OR_RETURN(
      const Rows rows,
      session.Query("SELECT " TUNEFARM_UNIT_COLUMNS ", u.claim_seq, " TUNEFARM_PG_PRESENT ", " TUNEFARM_PG_DEVICES
                    " FROM work_unit u WHERE u.agent_id = $1 AND u.agent_epoch = $2 AND u.state = 2 AND "
                    "u.claim_nonce = $3 ORDER BY u.claim_seq",
                    step.request->agent_id, step.request->epoch, step.nonce));
  return ReadStep(rows);
}

absl::StatusOr<StudyFacts> LoadFacts(Session& session, int64_t study_id) {
  ASSIGN_OR_RETURN(
      const Rows rows,
      session.Query("SELECT j.job_id, j.kernel_id, s.problem, p.spec FROM study s JOIN job j ON j.job_id = "
                    "s.job_id JOIN job_spec p ON p.job_id = j.job_id WHERE s.study_id = $1",
                    study_id));
  if (rows.empty()) return NotFound("study {} does not exist", study_id);
  return StudyFacts{rows[0].Int(0), rows[0].Bytes(1), rows[0].Bytes(2), rows[0].Bytes(3)};
}

// The studies of a class that have READY units behind their floor.
absl::StatusOr<std::vector<ReadyStudy>> LoadReady(Session& session, std::string_view class_id,
                                                  const ClaimBoard::Floors& floors) {
  // The newest unit first: what is dead and not removed yet lies before it.
  ASSIGN_OR_RETURN(
      const Rows rows,
      session.Query("SELECT s.study_id, s.job_id, j.priority, s.device_selector, j.state FROM study s JOIN job j ON "
                    "j.job_id = s.job_id LEFT JOIN unnest($2, $3) AS f(study_id, seq) ON f.study_id = s.study_id WHERE "
                    "s.class_id = $1 AND s.state < 3 AND j.state IN (1, 2) AND (SELECT u.claim_seq FROM work_unit u "
                    "WHERE u.study_id = s.study_id AND u.state = 1 AND u.claim_seq > coalesce(f.seq, 0) ORDER BY "
                    "u.claim_seq DESC LIMIT 1) IS NOT NULL",
                    class_id, floors.study_ids, floors.seqs));
  std::vector<ReadyStudy> ready;
  for (int i = 0; i < rows.size(); ++i) {
    const Row row = rows[i];
    ready.push_back({row.Int(0), row.Int(1), static_cast<int>(row.Int(2)), row.Bytes(3), row.Int(4) == 1});
  }
  return ready;
}

// Everything that makes a report current. Parameters $1 to $4. The unit is found by its id: by work_unit_claimed, which
// a plan may prefer while the table is small, all that the agent ever held would be walked over, as long as an old
// snapshot keeps vacuum from removing it. A partial index is of no use to a condition that is written otherwise.
#define TUNEFARM_PG_FENCE                                                                                      \
  "u.unit_id = $1 AND u.token = $2 AND u.agent_id = $3 AND u.agent_epoch = $4 AND u.state + 0 = 2 AND EXISTS " \
  "(SELECT 1 FROM agent a WHERE a.agent_id = u.agent_id AND a.epoch = u.agent_epoch AND a.released_at_ms IS NULL)"
// And that its trials, if any ($5 <= $6), are the unit's. $7: the study that they name; 0: none.
#define TUNEFARM_PG_OWN_TRIALS \
  "($5 > $6 OR (u.first_ordinal <= $5 AND $6 < u.first_ordinal + u.trial_count)) AND $7 IN (0, u.study_id)"

#define TUNEFARM_PG_STORE                                                                                            \
  "stored AS (INSERT INTO trial_result (study_id, ordinal, attempt, outcome, purpose, config, median_ns, "           \
  "device_uuid, ended_at_ms, detail, measured_key) SELECT f.study_id, t.ordinal, t.attempt, t.outcome, "             \
  "t.purpose, t.config, nullif(t.median_ns, 0), t.device_uuid, t.ended_at_ms, t.detail, t.measured_key FROM f, "     \
  "unnest($9, $10, $11, $12, $13, $14, $15, $16, $17, $18) AS t(ordinal, attempt, outcome, purpose, config, "        \
  "median_ns, device_uuid, ended_at_ms, detail, measured_key) ON CONFLICT DO NOTHING RETURNING study_id, ordinal), " \
  "works AS (INSERT INTO study_work (study_id, ordinal, work) SELECT s.study_id, s.ordinal, l.work FROM stored s "   \
  "JOIN unnest($9, $19) AS l(ordinal, work) ON l.ordinal = s.ordinal WHERE l.work <> 0 ON CONFLICT (study_id, "      \
  "ordinal) DO UPDATE SET work = excluded.work, unit_id = NULL, token = NULL)"
// Only of trials that were not stored before: log and samples are the first report's too.
#define TUNEFARM_PG_STORE_DATA                                                                                       \
  ", logs AS (INSERT INTO trial_log (study_id, ordinal, log) SELECT s.study_id, s.ordinal, l.log FROM stored s "     \
  "JOIN unnest($20, $21) AS l(ordinal, log) ON l.ordinal = s.ordinal ON CONFLICT DO NOTHING), "                      \
  "samples AS (INSERT INTO trial_samples (study_id, ordinal, samples) SELECT s.study_id, s.ordinal, l.samples FROM " \
  "stored s JOIN unnest($22, $23) AS l(ordinal, samples) ON l.ordinal = s.ordinal ON CONFLICT DO NOTHING) "
#define TUNEFARM_PG_VERDICT "SELECT (SELECT count(*) FROM f), (SELECT count(*) FROM stored), $8"

#define TUNEFARM_PG_DONE                                                                               \
  "WITH f AS (UPDATE work_unit u SET state = 3, agent_id = NULL, agent_epoch = NULL, done_at_ms = $8 " \
  "WHERE " TUNEFARM_PG_FENCE " AND " TUNEFARM_PG_OWN_TRIALS " RETURNING u.study_id), "
#define TUNEFARM_PG_PARTIAL                                                                                            \
  "WITH f AS MATERIALIZED (SELECT u.study_id FROM work_unit u WHERE " TUNEFARM_PG_FENCE " AND " TUNEFARM_PG_OWN_TRIALS \
  " FOR NO KEY UPDATE), "

constexpr std::string_view kDone = TUNEFARM_PG_DONE TUNEFARM_PG_STORE " " TUNEFARM_PG_VERDICT;
constexpr std::string_view kDoneWithData =
    TUNEFARM_PG_DONE TUNEFARM_PG_STORE TUNEFARM_PG_STORE_DATA TUNEFARM_PG_VERDICT;
constexpr std::string_view kPartial = TUNEFARM_PG_PARTIAL TUNEFARM_PG_STORE " " TUNEFARM_PG_VERDICT;
constexpr std::string_view kPartialWithData =
    TUNEFARM_PG_PARTIAL TUNEFARM_PG_STORE TUNEFARM_PG_STORE_DATA TUNEFARM_PG_VERDICT;

// The trials as columns.
struct Columns {
  std::vector<int64_t> ordinals, attempts, outcomes, purposes, ended, works;
  std::vector<double> medians;
  Texts configs, devices;
  Blobs details;
  Blobs keys{{}, true};
  std::vector<int64_t> log_ordinals, sample_ordinals;
  Blobs logs, samples;
  int64_t first = 1, last = 0;
  int64_t study_id = 0;  // that they name
};

Columns ToColumns(const ReportRequest& request) {
  Columns c;
  for (const TrialRow& trial : request.trials) {
    c.first = c.ordinals.empty() ? trial.ordinal : std::min(c.first, trial.ordinal);
    c.last = c.ordinals.empty() ? trial.ordinal : std::max(c.last, trial.ordinal);
    if (trial.study_id != 0) c.study_id = trial.study_id;
    c.ordinals.push_back(trial.ordinal);
    c.attempts.push_back(trial.attempt);
    c.outcomes.push_back(trial.outcome);
    c.purposes.push_back(trial.purpose);
    c.ended.push_back(trial.ended_at_ms);
    c.medians.push_back(trial.median_ns);
    c.configs.values.push_back(trial.config);
    c.devices.values.push_back(trial.device_uuid);
    c.details.values.push_back(trial.detail);
    c.keys.values.push_back(trial.measured_key);
    c.works.push_back(trial.work);
    if (!trial.log.empty()) {
      c.log_ordinals.push_back(trial.ordinal);
      c.logs.values.push_back(trial.log);
    }
    if (!trial.samples.empty()) {
      c.sample_ordinals.push_back(trial.ordinal);
      c.samples.values.push_back(trial.samples);
    }
  }
  return c;
}

// Whether the trials name more than one study, or hold what no statement is needed to refuse.
bool IsSuspect(const ReportRequest& request, int64_t study_id) {
  return std::any_of(request.trials.begin(), request.trials.end(), [&](const TrialRow& trial) {
    return (trial.study_id != 0 && trial.study_id != study_id) || trial.log.size() > kLogBytesMax ||
           !std::isfinite(trial.median_ns) || trial.median_ns < 0;
  });
}

// Why nothing was stored.
absl::StatusOr<ReportVerdict> Explain(Session& session, const ReportRequest& request, bool is_repeat) {
  ASSIGN_OR_RETURN(const Rows fence,
                   session.Query("SELECT " TUNEFARM_UNIT_COLUMNS " FROM work_unit u WHERE " TUNEFARM_PG_FENCE,
                                 request.unit_id, request.token, request.agent_id, request.epoch));
  if (!fence.empty()) {
    const UnitRow unit = ReadUnit(fence[0]);
    for (const TrialRow& trial : request.trials) RETURN_IF_ERROR(CheckTrial(unit, trial));
    // Current now, and not a moment ago: nobody else can have made it so.
    return Internal("a report of unit {} found it neither current nor stale", request.unit_id);
  }
  if (is_repeat && request.unit_done) {
    // Nobody else has this token: if the unit is done under it, the first try did that.
    ASSIGN_OR_RETURN(
        const int64_t is_done,
        session.QueryInt("SELECT count(*) FROM work_unit WHERE unit_id = $1 AND token = $2 AND state IN (3, 4)",
                         request.unit_id, request.token));
    if (is_done != 0) return ReportVerdict::kAccepted;
  }
  return ReportVerdict::kStale;
}

absl::StatusOr<ReportVerdict> StoreTrials(Session& session, const ReportRequest& request, bool is_done,
                                          bool is_repeat) {
  const Columns c = ToColumns(request);
  if (IsSuspect(request, c.study_id)) return Explain(session, request, is_repeat);
  const auto verdict = [&](std::string_view sql, const auto&... data) -> absl::StatusOr<ReportVerdict> {
    ASSIGN_OR_RETURN(const Rows rows,
                     session.Query(sql, request.unit_id, request.token, request.agent_id, request.epoch, c.first,
                                   c.last, c.study_id, request.now_ms, c.ordinals, c.attempts, c.outcomes, c.purposes,
                                   c.configs, c.medians, c.devices, c.ended, c.details, c.keys, c.works, data...));
    if (rows[0].Int(0) == 0) return Explain(session, request, is_repeat);
    return ReportVerdict::kAccepted;
  };
  if (c.logs.values.empty() && c.samples.values.empty()) return verdict(is_done ? kDone : kPartial);
  return verdict(is_done ? kDoneWithData : kPartialWithData, c.log_ordinals, c.logs, c.sample_ordinals, c.samples);
}

// One statement, unless something is to be found out. `is_repeat`: it may have been stored already.
absl::StatusOr<ReportVerdict> StoreReport(Session& session, const ReportRequest& request, bool is_repeat) {
  ASSIGN_OR_RETURN(const ReportVerdict verdict, StoreTrials(session, request, request.unit_done, is_repeat));
  if (verdict == ReportVerdict::kAccepted) {
    LogDebug("store", "accepted unit={} token={} epoch={}", request.unit_id, request.token, request.epoch);
  }
  return verdict;
}

// For a unit that is given back: a transaction.
absl::StatusOr<ReportVerdict> ReportAndReturn(Session& session, const ReportRequest& request) {
  // The study before its unit: it must not end while one comes back to it.
  ASSIGN_OR_RETURN(const Rows study,
                   session.Query("SELECT s.state FROM study s WHERE s.study_id = (SELECT w.study_id FROM work_unit w "
                                 "WHERE w.unit_id = $1) FOR SHARE",
                                 request.unit_id));
  ASSIGN_OR_RETURN(const ReportVerdict verdict, StoreTrials(session, request, false, false));
  if (verdict == ReportVerdict::kStale) return verdict;
  const bool has_ended = study.empty() || study[0].Int(0) == static_cast<int>(StudyState::kEnded);
  RETURN_IF_ERROR(session.Run(has_ended
                                  ? "DELETE FROM work_unit u WHERE " TUNEFARM_PG_FENCE
                                  : "UPDATE work_unit u SET state = 1, claim_seq = nextval('claim_seq'), agent_id = "
                                    "NULL, agent_epoch = NULL, claimed_at_ms = NULL WHERE " TUNEFARM_PG_FENCE,
                              request.unit_id, request.token, request.agent_id, request.epoch));
  return verdict;
}

class PostgresUnits final : public Facet<UnitStore> {
 public:
  using Facet::Facet;

  absl::StatusOr<std::vector<ClaimedUnit>> ClaimUnits(const ClaimRequest& request) override {
    std::vector<ClaimedUnit> units;
    uint64_t readings = board_->readings(request.class_id);
    if (board_->IsStale(request.class_id)) RETURN_IF_ERROR(ReadReady(request.class_id, readings, false));
    absl::Status status = ClaimKnown(request, &units);
    if (status.ok() && units.empty()) {
      // Nothing known is not nothing there.
      readings = board_->readings(request.class_id);
      status = ReadReady(request.class_id, readings, true);
      if (status.ok()) status = ClaimKnown(request, &units);
      // Nor has anybody looked yet whether this agent may be given anything.
      if (status.ok() && units.empty()) {
        ASSIGN_OR_RETURN(const std::optional<AgentRow> agent, pool_->Call(&Pool::Read, [&](Session& session) {
          return FindAgent(session, request.agent_id);
        }));
        if (!agent.has_value() || agent->epoch != request.epoch) return EpochEnded(request.agent_id, request.epoch);
      }
    }
    // What was claimed before something went wrong is claimed.
    if (!status.ok() && units.empty()) return status;
    return units;
  }

  absl::StatusOr<std::vector<ClaimedUnit>> ClaimsOf(std::string_view agent_id, int64_t epoch) override {
    return pool_->Call(&Pool::Read, [&](Session& session) -> absl::StatusOr<std::vector<ClaimedUnit>> {
      ASSIGN_OR_RETURN(
          const Rows rows,
          session.Query("SELECT " TUNEFARM_UNIT_COLUMNS
                        ", j.job_id, j.kernel_id, s.problem, p.spec, (SELECT array_agg(t.ordinal ORDER BY t.ordinal) "
                        "FROM trial_result t WHERE t.study_id = u.study_id AND t.ordinal >= u.first_ordinal AND "
                        "t.ordinal < u.first_ordinal + u.trial_count), " TUNEFARM_PG_DEVICES
                        " FROM work_unit u JOIN study s ON s.study_id = u.study_id JOIN job j ON j.job_id = s.job_id "
                        "JOIN job_spec p ON p.job_id = j.job_id JOIN agent a ON a.agent_id = u.agent_id AND a.epoch = "
                        "u.agent_epoch WHERE u.agent_id = $1 AND u.agent_epoch = $2 AND u.state = 2 AND "
                        "a.released_at_ms IS NULL ORDER BY u.unit_id",
                        agent_id, epoch));
      std::vector<ClaimedUnit> units;
      for (int i = 0; i < rows.size(); ++i) {
        const Row row = rows[i];
        units.push_back({ReadUnit(row), row.Int(kUnitColumns), row.Bytes(kUnitColumns + 1), row.Bytes(kUnitColumns + 2),
                         row.Bytes(kUnitColumns + 3), row.Ints(kUnitColumns + 4), Lines(row.Bytes(kUnitColumns + 5))});
      }
      return units;
    });
  }

  absl::StatusOr<ReportVerdict> ReportTrials(const ReportRequest& request) override {
    // Asked within a session: the count includes the database of that session.
    const auto check = [&] {
      if (pool_->replacements() == request.replacements) return absl::OkStatus();
      return Unavailable("the database was replaced after unit {} was claimed; try again", request.unit_id);
    };
    absl::StatusOr<ReportVerdict> verdict = absl::UnknownError("not run");
    if (request.unit_returned && !request.unit_done) {
      const absl::Status returned = pool_->Write([&](Session& session) {
        RETURN_IF_ERROR(check());
        verdict = ReportAndReturn(session, request);
        return verdict.status();
      });
      board_->Invalidate();
      RETURN_IF_ERROR(returned);
      return verdict;
    }
    RETURN_IF_ERROR(pool_->WriteStatement([&](Session& session, bool is_repeat) {
      RETURN_IF_ERROR(check());
      verdict = StoreReport(session, request, is_repeat);
      return verdict.status();
    }));
    return verdict;
  }

  absl::StatusOr<std::vector<WorkAnswer>> ClaimWorks(const WorkClaimRequest& request) override {
    RETURN_IF_ERROR(CheckWorkClaims(request));
    return pool_->Call(&Pool::Write, [&](Session& session) { return StoreWorkClaims(session, request); });
  }

  absl::StatusOr<bool> HasWorks(int64_t study_id) override {
    return pool_->Call(&Pool::Read, [&](Session& session) { return HasWorksOf(session, study_id); });
  }

 private:
  absl::StatusOr<StudyFactsCache::Facts> FactsOf(int64_t study_id) {
    if (StudyFactsCache::Facts known = facts_->Find(study_id); known != nullptr) return known;
    ASSIGN_OR_RETURN(StudyFacts facts,
                     pool_->Call(&Pool::Read, [&](Session& session) { return LoadFacts(session, study_id); }));
    return facts_->Keep(study_id, std::move(facts));
  }

  // Reads which studies of the class have units, unless somebody has begun to after there had been so many readings.
  absl::Status ReadReady(std::string_view class_id, uint64_t readings_before, bool found_nothing) {
    MutexLock lock(board_->reading_mutex());
    if (board_->readings(class_id) > readings_before) return absl::OkStatus();
    const ClaimBoard::Reading reading = board_->BeginReading(class_id, found_nothing);
    absl::StatusOr<std::vector<ReadyStudy>> ready =
        pool_->Call(&Pool::Read, [&](Session& session) { return LoadReady(session, class_id, reading.floors); });
    if (!ready.ok()) {
      board_->Invalidate();
      return ready.status();
    }
    board_->EndReading(class_id, reading, *ready);
    return absl::OkStatus();
  }

  absl::StatusOr<ClaimStepResult> ClaimOnce(const ClaimRequest& request, const ClaimBoard::Pick& pick, int units_max) {
    ClaimStep step{&request, pick, units_max, 0, FenceStep(entropy_)};
    entropy_->Fill(&step.nonce, sizeof(step.nonce));
    if (pick.job_is_queued) {
      return pool_->Call(&Pool::Write, [&](Session& session) { return ClaimOfQueued(session, step); });
    }
    absl::StatusOr<ClaimStepResult> result = absl::UnknownError("not run");
    RETURN_IF_ERROR(pool_->WriteStatement([&](Session& session, bool is_repeat) {
      if (is_repeat) {
        result = FindClaimed(session, step);
        if (!result.ok() || !result->units.empty()) return result.status();
      }
      result = ClaimOfStudy(session, step);
      return result.status();
    }));
    return result;
  }

  // Claims what is known of, up to the request's number of units.
  absl::Status ClaimKnown(const ClaimRequest& request, std::vector<ClaimedUnit>* units) {
    const auto units_max = static_cast<size_t>(std::clamp(request.units_max, 0, kUnitsPerClaimMax));
    std::set<std::string_view> names = {"", request.device_uuid};
    names.insert(request.device_names.begin(), request.device_names.end());
    int64_t trials = 0;
    while (units->size() < units_max && (request.trials_max == 0 || trials < request.trials_max)) {
      std::optional<ClaimBoard::Pick> pick = board_->Next(request.class_id, names);
      if (!pick.has_value()) break;
      if (request.trials_max > 0) pick->trials_left = std::min<int64_t>(pick->trials_left, request.trials_max - trials);
      const absl::StatusOr<StudyFactsCache::Facts> facts = FactsOf(pick->study_id);
      if (absl::IsNotFound(facts.status())) {
        board_->Missed(request.class_id, *pick);
        continue;
      }
      RETURN_IF_ERROR(facts.status());
      ASSIGN_OR_RETURN(ClaimStepResult step, ClaimOnce(request, *pick, static_cast<int>(units_max - units->size())));
      if (step.units.empty()) {
        board_->Missed(request.class_id, *pick);
        continue;
      }
      board_->Claimed(request.class_id, *pick, step.trials, step.last_seq);
      trials += step.trials;
      for (size_t i = 0; i < step.units.size(); ++i) {
        const StudyFacts& known = **facts;
        LogDebug("store", "claimed unit={} token={} epoch={}", step.units[i].unit_id, step.units[i].token,
                 request.epoch);
        units->push_back({std::move(step.units[i]), known.job_id, known.kernel_id, known.problem, known.job_spec,
                          std::move(step.present[i]), std::move(step.devices[i])});
      }
    }
    return absl::OkStatus();
  }
};

}  // namespace

std::unique_ptr<UnitStore> NewUnitStore(const Shared& shared) { return std::make_unique<PostgresUnits>(shared); }

}  // namespace tunefarm::postgres
