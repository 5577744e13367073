// Handing out units. Which study is asked next is ClaimBoard's to say; here is the statement that decides.

#include <algorithm>
#include <utility>

#include "absl/strings/str_split.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/lost_units.h"
#include "server/store/postgres/operations.h"
#include "server/store/postgres/rows.h"

namespace tunefarm::postgres {
namespace {

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
    "s.device_uuid = ANY($10)) "
    "ORDER BY w.claim_seq LIMIT $5 FOR UPDATE OF w SKIP LOCKED), "
    "turn AS (SELECT n.unit_id, sum(n.trial_count) OVER (ORDER BY n.claim_seq) - n.trial_count AS handed FROM next n), "
    "u AS (UPDATE work_unit w SET state = 2, token = w.token + $13, attempt = w.attempt + 1, agent_id = $1, "
    "agent_epoch = $2, claimed_at_ms = $7, claim_nonce = $8, handed_end = " TUNEFARM_PG_PART
    " FROM turn WHERE w.unit_id = turn.unit_id AND "
    "turn.handed < $6 RETURNING w.*) "
    "SELECT " TUNEFARM_PG_UNIT_COLUMNS ", u.claim_seq, " TUNEFARM_PG_PRESENT ", " TUNEFARM_PG_DEVICES
    ", (SELECT count(*) FROM me) FROM (SELECT 1) one LEFT JOIN u ON true ORDER BY u.claim_seq";
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

}  // namespace

absl::StatusOr<ClaimStepResult> ClaimOfStudy(Session& session, const ClaimStep& step) {
  return RunClaim(session, step, static_cast<int>(JobState::kRunning));
}

absl::StatusOr<ClaimStepResult> ClaimOfQueued(Session& session, const ClaimStep& step) {
  // The job before its units, as everybody.
  RETURN_IF_ERROR(session.Run("SELECT 1 FROM agent WHERE agent_id = $1 FOR SHARE", step.request->agent_id).status());
  RETURN_IF_ERROR(session.Run("SELECT 1 FROM job WHERE job_id = $1 FOR UPDATE", step.pick.job_id).status());
  ASSIGN_OR_RETURN(ClaimStepResult result, RunClaim(session, step, static_cast<int>(JobState::kQueued)));
  if (result.units.empty()) return result;
  RETURN_IF_ERROR(session
                      .Run("UPDATE job SET state = 2, started_at_ms = coalesce(started_at_ms, $1) WHERE job_id = $2 "
                           "AND state = 1",
                           step.request->now_ms, step.pick.job_id)
                      .status());
  return result;
}

absl::StatusOr<ClaimStepResult> FindClaimed(Session& session, const ClaimStep& step) {
  ASSIGN_OR_RETURN(
      const Rows rows,
      session.Query("SELECT " TUNEFARM_PG_UNIT_COLUMNS ", u.claim_seq, " TUNEFARM_PG_PRESENT ", " TUNEFARM_PG_DEVICES
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

absl::StatusOr<std::vector<ReadyStudy>> LoadReady(Session& session, std::string_view class_id,
                                                  const ClaimBoard::Floors& floors) {
  // The newest unit first: what is dead and not removed yet lies before it.
  ASSIGN_OR_RETURN(
      const Rows rows,
      session.Query("SELECT s.study_id, s.job_id, j.priority, s.device_uuid, j.state FROM study s JOIN job j ON "
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

absl::StatusOr<std::vector<ClaimedUnit>> ClaimsOf(Session& session, std::string_view agent_id, int64_t epoch) {
  ASSIGN_OR_RETURN(
      const Rows rows,
      session.Query("SELECT " TUNEFARM_PG_UNIT_COLUMNS
                    ", j.job_id, j.kernel_id, s.problem, p.spec, (SELECT array_agg(t.ordinal ORDER BY t.ordinal) FROM "
                    "trial_result t WHERE t.study_id = u.study_id AND t.ordinal >= u.first_ordinal AND t.ordinal < "
                    "u.first_ordinal + u.trial_count), " TUNEFARM_PG_DEVICES
                    " FROM work_unit u JOIN study s ON s.study_id = u.study_id "
                    "JOIN job j ON j.job_id = s.job_id JOIN job_spec p ON p.job_id = j.job_id "
                    "JOIN agent a ON a.agent_id = u.agent_id AND a.epoch = u.agent_epoch "
                    "WHERE u.agent_id = $1 AND u.agent_epoch = $2 AND u.state = 2 AND a.released_at_ms IS NULL "
                    "ORDER BY u.unit_id",
                    agent_id, epoch));
  std::vector<ClaimedUnit> units;
  for (int i = 0; i < rows.size(); ++i) {
    const Row row = rows[i];
    units.push_back({ReadUnit(row), row.Int(kUnitColumns), row.Bytes(kUnitColumns + 1), row.Bytes(kUnitColumns + 2),
                     row.Bytes(kUnitColumns + 3), row.Ints(kUnitColumns + 4), Lines(row.Bytes(kUnitColumns + 5))});
  }
  return units;
}

}  // namespace tunefarm::postgres
