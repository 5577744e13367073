// Deleting what is no longer wanted, in parts small enough that other writes do not wait for them.

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/sqlite/operations.h"
#include "server/store/sqlite/rows.h"

namespace tunefarm::sqlite {
namespace {

// Copies of the trials that bests of the job stand on.
absl::Status KeepBestTrials(Database& database, int64_t job_id) {
  return database
      .Prepare(
          "INSERT OR REPLACE INTO best_trial (program_digest, problem_key, class_id, job_id, study_id, study_number, "
          "ordinal, attempt, outcome, purpose, config, median_ns, device_uuid, ended_at_ms, detail, log, samples) "
          "SELECT b.program_digest, b.problem_key, b.class_id, s.job_id, s.study_id, s.number, t.ordinal, t.attempt, "
          "t.outcome, t.purpose, t.config, t.median_ns, t.device_uuid, t.ended_at_ms, t.detail, l.log, p.samples "
          "FROM study s JOIN best_config b ON b.study_id = s.study_id "
          "JOIN trial_result t ON t.study_id = b.study_id AND t.ordinal = b.ordinal "
          "LEFT JOIN trial_log l ON l.study_id = t.study_id AND l.ordinal = t.ordinal "
          "LEFT JOIN trial_samples p ON p.study_id = t.study_id AND p.ordinal = t.ordinal WHERE s.job_id = ?")
      .Bind(job_id)
      .Run();
}

// Up to rows_max rows of one kind; how many went.
absl::StatusOr<int64_t> DeletePart(Database& database, std::string_view sql, int64_t job_id, int rows_max) {
  RETURN_IF_ERROR(database.Prepare(sql).Bind(job_id, rows_max).Run());
  return database.Changes();
}

// What a best rests on stays with it.
#define TUNEFARM_NOT_A_BEST \
  "NOT EXISTS (SELECT 1 FROM best_config b WHERE b.study_id = t.study_id AND b.ordinal = t.ordinal)"

}  // namespace

absl::StatusOr<bool> DeleteJobPart(Database& database, int64_t job_id, int rows_max) {
  Statement state = database.Prepare("SELECT state FROM job WHERE job_id = ?");
  ASSIGN_OR_RETURN(const bool found, state.Bind(job_id).Step());
  if (!found) return NotFound("job {} does not exist", job_id);
  if (!IsTerminal(static_cast<JobState>(state.Int(0)))) {
    return FailedPrecondition("job {} has not ended: cancel it and wait for its end before deleting it", job_id);
  }
  RETURN_IF_ERROR(KeepBestTrials(database, job_id));
  // Bests' trials last, together with the job: until then a repeated first part finds them again.
  ASSIGN_OR_RETURN(
      const int64_t trials,
      DeletePart(database,
                 "DELETE FROM trial_result WHERE rowid IN (SELECT t.rowid FROM study s JOIN trial_result t ON "
                 "t.study_id = s.study_id WHERE s.job_id = ?1 AND " TUNEFARM_NOT_A_BEST " LIMIT ?2)",
                 job_id, rows_max));
  if (trials == rows_max) return false;
  ASSIGN_OR_RETURN(const int64_t units,
                   DeletePart(database,
                              "DELETE FROM work_unit WHERE unit_id IN (SELECT u.unit_id FROM study s JOIN work_unit u "
                              "ON u.study_id = s.study_id WHERE s.job_id = ?1 LIMIT ?2)",
                              job_id, rows_max));
  if (units == rows_max) return false;
  // What is left of its studies, their events and their trials goes with it.
  RETURN_IF_ERROR(database.Prepare("DELETE FROM job WHERE job_id = ?").Bind(job_id).Run());
  return true;
}

absl::StatusOr<std::vector<JobRow>> EndedJobs(Database& database, int64_t ended_before_ms, int64_t after_job_id,
                                              int limit) {
  std::vector<JobRow> jobs;
  Statement rows = database.Prepare("SELECT " TUNEFARM_JOB_COLUMNS
                                    " FROM job WHERE ended_at_ms < ? AND job_id > ? ORDER BY job_id LIMIT ?");
  rows.Bind(ended_before_ms, after_job_id, limit);
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, rows.Step());
    if (!has_row) return jobs;
    jobs.push_back(ReadJob(rows));
  }
}

// Rows of both tables grow with time: the lowest are the oldest.
#define TUNEFARM_PRUNE(table)                                                                                 \
  "DELETE FROM " table " WHERE rowid IN (SELECT x.rowid FROM " table                                          \
  " x JOIN trial_result t ON t.study_id = x.study_id AND t.ordinal = x.ordinal JOIN study s ON s.study_id = " \
  "t.study_id JOIN job j ON j.job_id = s.job_id WHERE j.ended_at_ms < ?1 AND " TUNEFARM_NOT_A_BEST            \
  " ORDER BY x.rowid LIMIT ?2)"

absl::StatusOr<int64_t> PruneTrialData(Database& database, int64_t ended_before_ms, int rows_max) {
  ASSIGN_OR_RETURN(const int64_t logs, DeletePart(database, TUNEFARM_PRUNE("trial_log"), ended_before_ms, rows_max));
  ASSIGN_OR_RETURN(const int64_t samples,
                   DeletePart(database, TUNEFARM_PRUNE("trial_samples"), ended_before_ms, rows_max));
  return logs + samples;
}

absl::StatusOr<int64_t> DeleteUnusedKernels(Database& database, int64_t created_before_ms) {
  RETURN_IF_ERROR(database
                      .Prepare("DELETE FROM kernel WHERE created_at_ms < ? "
                               "AND EXISTS (SELECT 1 FROM kernel n WHERE n.display_name = kernel.display_name AND "
                               "n.kernel_seq > kernel.kernel_seq) "
                               "AND NOT EXISTS (SELECT 1 FROM job j WHERE j.kernel_id = kernel.kernel_id) "
                               "AND NOT EXISTS (SELECT 1 FROM best_config b WHERE b.kernel_id = kernel.kernel_id)")
                      .Bind(created_before_ms)
                      .Run());
  return database.Changes();
}

absl::StatusOr<QueueCounts> CountQueue(Database& database) {
  QueueCounts counts;
  Statement jobs = database.Prepare("SELECT state, count(*) FROM job GROUP BY state");
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, jobs.Step());
    if (!has_row) break;
    const auto state = static_cast<size_t>(jobs.Int(0));
    if (state < counts.jobs.size()) counts.jobs[state] = jobs.Int(1);
  }
  ASSIGN_OR_RETURN(counts.ready_units, database.QueryInt("SELECT count(*) FROM work_unit WHERE state = 1"));
  ASSIGN_OR_RETURN(counts.claimed_units, database.QueryInt("SELECT count(*) FROM work_unit WHERE state = 2"));
  return counts;
}

absl::Status CheckWritable(Database& database) {
  // The same value again: SQLite writes the page all the same, and the commit is synced.
  return database.Prepare("UPDATE setting SET value = value WHERE name = 'store.open'").Run();
}

}  // namespace tunefarm::sqlite
