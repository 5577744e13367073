#include <algorithm>
#include <array>
#include <set>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/postgres/operations.h"
#include "server/store/postgres/rows.h"
#include "server/store/transitions.h"

namespace tunefarm::postgres {
namespace {

constexpr size_t kUnitsPerStepMax = 4096;

std::string_view NameOf(JobState state) {
  static constexpr std::array<std::string_view, 8> kNames = {"unknown",    "QUEUED",    "RUNNING", "PAUSED",
                                                             "CANCELLING", "SUCCEEDED", "FAILED",  "CANCELLED"};
  const auto index = static_cast<size_t>(state);
  return index < kNames.size() ? kNames[index] : kNames[0];
}

// What a step needs to know of its study, whose row it holds until its end.
struct DrivenStudy {
  std::string class_id;
  std::string device_uuid;
  int64_t next_ordinal = 0;
  int64_t last_event = 0;
  double device_busy_ms = 0;
  int64_t step = 0;
  int64_t job_id = 0;
  int64_t priority = 0;
  JobState job_state = JobState::kQueued;
};

absl::Status CheckDriver(int64_t job_id, int64_t driver_epoch, int64_t current) {
  if (driver_epoch == 0 || driver_epoch == current) return absl::OkStatus();
  return WithReason(
      FailedPrecondition("job {} is driven under epoch {}, no longer under {}", job_id, current, driver_epoch),
      "DRIVER_EPOCH");
}

absl::StatusOr<DrivenStudy> LoadDriven(Session& session, const DriveStep& step) {
  // The job first, and shared: its studies may take steps at the same time, and nobody adopts it meanwhile.
  ASSIGN_OR_RETURN(const Rows job,
                   session.Query("SELECT j.job_id, j.priority, j.driver_epoch, j.state FROM job j WHERE j.job_id = "
                                 "(SELECT s.job_id FROM study s WHERE s.study_id = $1) FOR SHARE",
                                 step.study_id));
  ASSIGN_OR_RETURN(const Rows study,
                   session.Query("SELECT class_id, device_uuid, state FROM study WHERE study_id = $1 FOR NO KEY UPDATE",
                                 step.study_id));
  if (job.empty() || study.empty()) return NotFound("study {} does not exist", step.study_id);
  RETURN_IF_ERROR(CheckDriver(job[0].Int(0), step.driver_epoch, job[0].Int(2)));
  RETURN_IF_ERROR(CheckStep(step.study_id, static_cast<StudyState>(study[0].Int(2)), step.state));
  // With the lock in hand: a statement sees what was there when it began.
  ASSIGN_OR_RETURN(const Rows now, session.Query("SELECT next_ordinal, last_event, device_busy_ms, step FROM study_now "
                                                 "WHERE study_id = $1",
                                                 step.study_id));
  return DrivenStudy{study[0].Bytes(0), study[0].Bytes(1), now[0].Int(0),
                     now[0].Int(1),     now[0].Real(2),    now[0].Int(3),
                     job[0].Int(0),     job[0].Int(1),     static_cast<JobState>(job[0].Int(3))};
}

absl::Status AppendEvents(Session& session, const DriveStep& step, StudyEvent::Kind kind,
                          const std::vector<int64_t>& unit_ids, DrivenStudy* study) {
  const int64_t before = study->last_event;
  study->last_event += static_cast<int64_t>(unit_ids.size());
  return session
      .Run(
          "INSERT INTO study_event (study_id, sequence, kind, unit_id, at_ms) SELECT $1, $2 + e.place, $3, e.unit_id, "
          "$4 FROM unnest($5) WITH ORDINALITY AS e(unit_id, place)",
          step.study_id, before, static_cast<int>(kind), step.now_ms, unit_ids)
      .status();
}

absl::Status Tell(Session& session, const DriveStep& step, DrivenStudy* study) {
  if (step.told_unit_ids.empty()) return absl::OkStatus();
  // By their ids, whatever plans are made for: the study's other indexes hold all that it ever had.
  ASSIGN_OR_RETURN(const Rows told, session.Query("UPDATE work_unit u SET state = 4 WHERE u.unit_id = ANY($2) AND "
                                                  "u.study_id + 0 = $1 AND u.state + 0 = 3 RETURNING u.unit_id",
                                                  step.study_id, step.told_unit_ids));
  std::set<int64_t> left;
  for (int i = 0; i < told.size(); ++i) left.insert(told[i].Int(0));
  for (const int64_t unit_id : step.told_unit_ids) {
    if (left.erase(unit_id) == 1) continue;
    return FailedPrecondition("unit {} is not a DONE unit of study {}: it cannot be told", unit_id, step.study_id);
  }
  return AppendEvents(session, step, StudyEvent::Kind::kTell, step.told_unit_ids, study);
}

// Answers the ids of the new units, in order, and the claim order of the first.
absl::StatusOr<std::vector<int64_t>> Propose(Session& session, const DriveStep& step, DrivenStudy* study,
                                             int64_t* first_seq) {
  if (step.new_units.empty()) return std::vector<int64_t>();
  std::vector<int64_t> kinds, first_ordinals, counts, rounds;
  Blobs payloads;
  for (const UnitRow& unit : step.new_units) {
    // An ordinal names one trial for ever: results are kept under it.
    if (unit.first_ordinal < study->next_ordinal) {
      return FailedPrecondition("study {} has handed out ordinals up to {}; a new unit cannot start at {}",
                                step.study_id, study->next_ordinal - 1, unit.first_ordinal);
    }
    study->next_ordinal = unit.first_ordinal + std::max(unit.trial_count, 0);
    kinds.push_back(static_cast<int64_t>(unit.kind));
    first_ordinals.push_back(unit.first_ordinal);
    counts.push_back(unit.trial_count);
    rounds.push_back(unit.rounds);
    payloads.values.push_back(unit.payload);
  }
  ASSIGN_OR_RETURN(
      const Rows rows,
      session.Query("INSERT INTO work_unit (study_id, claim_seq, kind, state, first_ordinal, trial_count, rounds, "
                    "payload) SELECT $1, nextval('claim_seq'), n.kind, 1, n.first_ordinal, n.trial_count, n.rounds, "
                    "n.payload FROM (SELECT * FROM unnest($2, $3, $4, $5, $6) WITH ORDINALITY AS p(kind, "
                    "first_ordinal, trial_count, rounds, payload, place) ORDER BY place) n "
                    "RETURNING unit_id, first_ordinal, claim_seq",
                    step.study_id, kinds, first_ordinals, counts, rounds, payloads));
  std::vector<std::pair<int64_t, int64_t>> by_ordinal;
  *first_seq = rows[0].Int(2);
  for (int i = 0; i < rows.size(); ++i) {
    by_ordinal.emplace_back(rows[i].Int(1), rows[i].Int(0));
    *first_seq = std::min(*first_seq, rows[i].Int(2));
  }
  std::sort(by_ordinal.begin(), by_ordinal.end());
  std::vector<int64_t> unit_ids;
  for (const auto& [ordinal, unit_id] : by_ordinal) unit_ids.push_back(unit_id);
  RETURN_IF_ERROR(AppendEvents(session, step, StudyEvent::Kind::kPropose, unit_ids, study));
  return unit_ids;
}

// The row before goes by its key: what is dead and not removed yet is not walked over.
absl::Status StoreStep(Session& session, const DriveStep& step, const DrivenStudy& study) {
  return session
      .Run(
          "WITH before AS (DELETE FROM study_step WHERE study_id = $1 AND step = $2) INSERT INTO study_step (study_id, "
          "step, next_ordinal, last_event, device_busy_ms) VALUES ($1, $2 + 1, $3, $4, $5)",
          step.study_id, study.step, std::max(step.next_ordinal, study.next_ordinal), study.last_event,
          std::max(step.device_busy_ms, study.device_busy_ms))
      .status();
}

absl::StatusOr<JobState> LockJob(Session& session, int64_t job_id, int64_t driver_epoch) {
  ASSIGN_OR_RETURN(const Rows rows,
                   session.Query("SELECT state, driver_epoch FROM job WHERE job_id = $1 FOR UPDATE", job_id));
  if (rows.empty()) return NotFound("job {} does not exist", job_id);
  RETURN_IF_ERROR(CheckDriver(job_id, driver_epoch, rows[0].Int(1)));
  return static_cast<JobState>(rows[0].Int(0));
}

// Ends what a terminal job leaves behind. Units in an agent's hands stay: their results are paid for. The studies
// first: a unit that comes back to one of them waits for this, or this for it.
absl::Status EndStudies(Session& session, int64_t job_id) {
  RETURN_IF_ERROR(session.Run("UPDATE study SET state = 3 WHERE job_id = $1", job_id).status());
  RETURN_IF_ERROR(session
                      .Run("DELETE FROM work_unit u USING study s WHERE s.job_id = $1 AND u.study_id = s.study_id AND "
                           "u.state = 1",
                           job_id)
                      .status());
  return session.Run("DELETE FROM study_prior p USING study s WHERE s.job_id = $1 AND p.study_id = s.study_id", job_id)
      .status();
}

}  // namespace

absl::StatusOr<Driven> Drive(Session& session, const DriveStep& step) {
  if (step.new_units.size() > kUnitsPerStepMax) {
    return InvalidArgument("a step brings {} units; at most {} are stored at once", step.new_units.size(),
                           kUnitsPerStepMax);
  }
  ASSIGN_OR_RETURN(DrivenStudy study, LoadDriven(session, step));
  if (!step.priors.empty()) {
    if (study.last_event > 0) {
      return FailedPrecondition("study {} has begun: what it starts from cannot change any more", step.study_id);
    }
    RETURN_IF_ERROR(StorePriors(session, step.study_id, step.priors));
  }
  if (step.device_uuid.has_value()) {
    study.device_uuid = *step.device_uuid;
    RETURN_IF_ERROR(
        session.Run("UPDATE study SET device_uuid = $1 WHERE study_id = $2", study.device_uuid, step.study_id)
            .status());
  }
  Driven driven;
  RETURN_IF_ERROR(Tell(session, step, &study));
  ASSIGN_OR_RETURN(driven.result.unit_ids, Propose(session, step, &study, &driven.first_seq));
  RETURN_IF_ERROR(StoreStep(session, step, study));
  if (step.state.has_value()) {
    RETURN_IF_ERROR(
        session.Run("UPDATE study SET state = $1 WHERE study_id = $2", static_cast<int>(*step.state), step.study_id)
            .status());
  }
  if (step.space_summary.has_value()) {
    RETURN_IF_ERROR(
        session.Run("UPDATE study SET space_summary = $1 WHERE study_id = $2", Blob{*step.space_summary}, step.study_id)
            .status());
  }
  if (step.state == StudyState::kEnded) {
    RETURN_IF_ERROR(session.Run("DELETE FROM work_unit WHERE state = 1 AND study_id = $1", step.study_id).status());
    RETURN_IF_ERROR(session.Run("DELETE FROM study_prior WHERE study_id = $1", step.study_id).status());
    driven.first_seq = 0;
  }
  if (study.job_state != JobState::kQueued && study.job_state != JobState::kRunning) driven.first_seq = 0;
  driven.class_id = study.class_id;
  driven.study = {step.study_id, study.job_id, static_cast<int>(study.priority), study.device_uuid,
                  study.job_state == JobState::kQueued};
  return driven;
}

absl::Status RequireJob(Session& session, int64_t job_id) {
  ASSIGN_OR_RETURN(const Rows rows, session.Query("SELECT 1 FROM job WHERE job_id = $1", job_id));
  return rows.empty() ? NotFound("job {} does not exist", job_id) : absl::OkStatus();
}

absl::Status SetJobState(Session& session, int64_t job_id, const std::vector<JobState>& from, JobState to,
                         std::string_view error, int64_t now_ms, int64_t driver_epoch) {
  ASSIGN_OR_RETURN(const JobState state, LockJob(session, job_id, driver_epoch));
  if (IsTerminal(state)) return FailedPrecondition("job {} is {}: it has ended and stays so", job_id, NameOf(state));
  if (std::find(from.begin(), from.end(), state) == from.end() || !MayBecome(state, to)) {
    return FailedPrecondition("job {} is {}: it cannot become {} now", job_id, NameOf(state), NameOf(to));
  }
  RETURN_IF_ERROR(
      session
          .Run("UPDATE job SET state = $1, error = $2, started_at_ms = CASE WHEN $1 = 2 THEN "
               "coalesce(started_at_ms, $3) ELSE started_at_ms END, ended_at_ms = CASE WHEN $1 IN (5, 6, 7) "
               "THEN $3 END WHERE job_id = $4",
               static_cast<int>(to), error, now_ms, job_id)
          .status());
  if (IsTerminal(to)) return EndStudies(session, job_id);
  return absl::OkStatus();
}

}  // namespace tunefarm::postgres
