#include <algorithm>
#include <array>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/sqlite/operations.h"
#include "server/store/sqlite/rows.h"
#include "server/store/transitions.h"

namespace tunefarm::sqlite {
namespace {

constexpr size_t kUnitsPerStepMax = 4096;

std::string_view NameOf(JobState state) {
  static constexpr std::array<std::string_view, 8> kNames = {"unknown",    "QUEUED",    "RUNNING", "PAUSED",
                                                             "CANCELLING", "SUCCEEDED", "FAILED",  "CANCELLED"};
  const auto index = static_cast<size_t>(state);
  return index < kNames.size() ? kNames[index] : kNames[0];
}

// What a step needs to know of its study.
struct DrivenStudy {
  std::string class_id;
  std::string device_uuid;
  int64_t priority = 0;
  int64_t next_ordinal = 0;
  int64_t last_event = 0;
};

absl::Status CheckDriver(int64_t job_id, int64_t driver_epoch, int64_t current) {
  if (driver_epoch == 0 || driver_epoch == current) return absl::OkStatus();
  return WithReason(
      FailedPrecondition("job {} is driven under epoch {}, no longer under {}", job_id, current, driver_epoch),
      "DRIVER_EPOCH");
}

absl::StatusOr<DrivenStudy> LoadDriven(Database& database, const DriveStep& step) {
  Statement row = database.Prepare(
      "SELECT s.class_id, s.device_uuid, j.priority, s.next_ordinal, s.state, "
      "(SELECT ifnull(max(e.sequence), 0) FROM study_event e WHERE e.study_id = s.study_id), "
      "j.job_id, j.driver_epoch FROM study s JOIN job j ON j.job_id = s.job_id WHERE s.study_id = ?");
  ASSIGN_OR_RETURN(const bool found, row.Bind(step.study_id).Step());
  if (!found) return NotFound("study {} does not exist", step.study_id);
  RETURN_IF_ERROR(CheckDriver(row.Int(6), step.driver_epoch, row.Int(7)));
  RETURN_IF_ERROR(CheckStep(step.study_id, static_cast<StudyState>(row.Int(4)), step.state));
  return DrivenStudy{row.Bytes(0), row.Bytes(1), row.Int(2), row.Int(3), row.Int(5)};
}

absl::Status AppendEvent(Database& database, const DriveStep& step, StudyEvent::Kind kind, int64_t unit_id,
                         DrivenStudy* study) {
  study->last_event += 1;
  return database.Prepare("INSERT INTO study_event (study_id, sequence, kind, unit_id, at_ms) VALUES (?, ?, ?, ?, ?)")
      .Bind(step.study_id, study->last_event, static_cast<int>(kind), unit_id, step.now_ms)
      .Run();
}

absl::Status Tell(Database& database, const DriveStep& step, int64_t unit_id, DrivenStudy* study) {
  RETURN_IF_ERROR(database.Prepare("UPDATE work_unit SET state = 4 WHERE unit_id = ? AND study_id = ? AND state = 3")
                      .Bind(unit_id, step.study_id)
                      .Run());
  if (database.Changes() != 1) {
    return FailedPrecondition("unit {} is not a DONE unit of study {}: it cannot be told", unit_id, step.study_id);
  }
  return AppendEvent(database, step, StudyEvent::Kind::kTell, unit_id, study);
}

absl::StatusOr<int64_t> Propose(Database& database, const DriveStep& step, const UnitRow& unit, DrivenStudy* study) {
  // An ordinal names one trial for ever: results are kept under it.
  if (unit.first_ordinal < study->next_ordinal) {
    return FailedPrecondition("study {} has handed out ordinals up to {}; a new unit cannot start at {}", step.study_id,
                              study->next_ordinal - 1, unit.first_ordinal);
  }
  ASSIGN_OR_RETURN(const int64_t claim_seq, NextClaimSequence(database));
  RETURN_IF_ERROR(database
                      .Prepare("INSERT INTO work_unit (study_id, class_id, device_uuid, priority, claim_seq, kind, "
                               "state, first_ordinal, "
                               "trial_count, rounds, payload) VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?)")
                      .Bind(step.study_id, study->class_id, study->device_uuid, study->priority, claim_seq,
                            static_cast<int>(unit.kind), unit.first_ordinal, unit.trial_count, unit.rounds,
                            Blob{unit.payload})
                      .Run());
  const int64_t unit_id = database.LastInsertId();
  study->next_ordinal = unit.first_ordinal + unit.trial_count;
  RETURN_IF_ERROR(AppendEvent(database, step, StudyEvent::Kind::kPropose, unit_id, study));
  return unit_id;
}

// Ends what a terminal job leaves behind. Units in an agent's hands stay: their results are paid for.
absl::Status EndStudies(Database& database, int64_t job_id) {
  RETURN_IF_ERROR(database
                      .Prepare("DELETE FROM work_unit WHERE state = 1 AND study_id IN "
                               "(SELECT study_id FROM study WHERE job_id = ?)")
                      .Bind(job_id)
                      .Run());
  RETURN_IF_ERROR(
      database.Prepare("DELETE FROM study_prior WHERE study_id IN (SELECT study_id FROM study WHERE job_id = ?)")
          .Bind(job_id)
          .Run());
  return database.Prepare("UPDATE study SET state = 3 WHERE job_id = ?").Bind(job_id).Run();
}

absl::StatusOr<JobState> LoadState(Database& database, int64_t job_id, int64_t driver_epoch) {
  Statement row = database.Prepare("SELECT state, driver_epoch FROM job WHERE job_id = ?");
  ASSIGN_OR_RETURN(const bool found, row.Bind(job_id).Step());
  if (!found) return NotFound("job {} does not exist", job_id);
  RETURN_IF_ERROR(CheckDriver(job_id, driver_epoch, row.Int(1)));
  return static_cast<JobState>(row.Int(0));
}

}  // namespace

absl::StatusOr<DriveResult> Drive(Database& database, const DriveStep& step) {
  if (step.new_units.size() > kUnitsPerStepMax) {
    return InvalidArgument("a step brings {} units; at most {} are stored at once", step.new_units.size(),
                           kUnitsPerStepMax);
  }
  ASSIGN_OR_RETURN(DrivenStudy study, LoadDriven(database, step));
  if (!step.priors.empty()) {
    if (study.last_event > 0) {
      return FailedPrecondition("study {} has begun: what it starts from cannot change any more", step.study_id);
    }
    RETURN_IF_ERROR(StorePriors(database, step.study_id, step.priors));
  }
  if (step.device_uuid.has_value()) {
    study.device_uuid = *step.device_uuid;
    for (const char* const change : {"UPDATE study SET device_uuid = ? WHERE study_id = ?",
                                     "UPDATE work_unit SET device_uuid = ? WHERE study_id = ? AND state = 1"}) {
      RETURN_IF_ERROR(database.Prepare(change).Bind(study.device_uuid, step.study_id).Run());
    }
  }
  DriveResult result;
  for (const int64_t unit_id : step.told_unit_ids) RETURN_IF_ERROR(Tell(database, step, unit_id, &study));
  for (const UnitRow& unit : step.new_units) {
    ASSIGN_OR_RETURN(const int64_t unit_id, Propose(database, step, unit, &study));
    result.unit_ids.push_back(unit_id);
  }
  RETURN_IF_ERROR(database
                      .Prepare("UPDATE study SET next_ordinal = ?, state = ifnull(nullif(?, 0), state), "
                               "device_busy_ms = max(device_busy_ms, ?) WHERE study_id = ?")
                      .Bind(std::max(step.next_ordinal, study.next_ordinal),
                            step.state.has_value() ? static_cast<int>(*step.state) : 0, step.device_busy_ms,
                            step.study_id)
                      .Run());
  if (step.space_summary.has_value()) {
    RETURN_IF_ERROR(database.Prepare("UPDATE study SET space_summary = ? WHERE study_id = ?")
                        .Bind(Blob{*step.space_summary}, step.study_id)
                        .Run());
  }
  if (step.state == StudyState::kEnded) {
    RETURN_IF_ERROR(
        database.Prepare("DELETE FROM work_unit WHERE state = 1 AND study_id = ?").Bind(step.study_id).Run());
    RETURN_IF_ERROR(database.Prepare("DELETE FROM study_prior WHERE study_id = ?").Bind(step.study_id).Run());
  }
  return result;
}

absl::Status RequireJob(Database& database, int64_t job_id) { return LoadState(database, job_id, 0).status(); }

absl::Status SetJobState(Database& database, int64_t job_id, const std::vector<JobState>& from, JobState to,
                         std::string_view error, int64_t now_ms, int64_t driver_epoch) {
  ASSIGN_OR_RETURN(const JobState state, LoadState(database, job_id, driver_epoch));
  if (IsTerminal(state)) return FailedPrecondition("job {} is {}: it has ended and stays so", job_id, NameOf(state));
  if (std::find(from.begin(), from.end(), state) == from.end() || !MayBecome(state, to)) {
    return FailedPrecondition("job {} is {}: it cannot become {} now", job_id, NameOf(state), NameOf(to));
  }
  RETURN_IF_ERROR(
      database
          .Prepare("UPDATE job SET state = ?1, error = ?2, "
                   "started_at_ms = CASE WHEN ?1 = 2 THEN ifnull(started_at_ms, ?3) ELSE started_at_ms END, "
                   "ended_at_ms = CASE WHEN ?1 IN (5, 6, 7) THEN ?3 END WHERE job_id = ?4")
          .Bind(static_cast<int>(to), error, now_ms, job_id)
          .Run());
  if (IsTerminal(to)) return EndStudies(database, job_id);
  return absl::OkStatus();
}

}  // namespace tunefarm::sqlite
