// Deleting what is no longer wanted, in parts small enough that other writes do not wait for them; and counting.

#include <algorithm>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/postgres/operations.h"
#include "server/store/postgres/rows.h"

namespace tunefarm::postgres {
namespace {

// Copies of the trials that bests of the job stand on.
absl::Status KeepBestTrials(Session& session, int64_t job_id) {
  return session
      .Run(
          "INSERT INTO best_trial (key_sha, job_id, study_id, study_number, ordinal, attempt, outcome, purpose, "
          "config, "
          "median_ns, device_uuid, ended_at_ms, detail, log, samples) "
          "SELECT b.key_sha, s.job_id, s.study_id, s.number, t.ordinal, t.attempt, t.outcome, t.purpose, t.config, "
          "t.median_ns, t.device_uuid, t.ended_at_ms, t.detail, l.log, p.samples "
          "FROM study s JOIN best_config b ON b.study_id = s.study_id "
          "JOIN trial_result t ON t.study_id = b.study_id AND t.ordinal = b.ordinal "
          "LEFT JOIN trial_log l ON l.study_id = t.study_id AND l.ordinal = t.ordinal "
          "LEFT JOIN trial_samples p ON p.study_id = t.study_id AND p.ordinal = t.ordinal WHERE s.job_id = $1 "
          "ON CONFLICT (key_sha) DO UPDATE SET job_id = excluded.job_id, study_id = excluded.study_id, study_number = "
          "excluded.study_number, ordinal = excluded.ordinal, attempt = excluded.attempt, outcome = excluded.outcome, "
          "purpose = excluded.purpose, config = excluded.config, median_ns = excluded.median_ns, device_uuid = "
          "excluded.device_uuid, ended_at_ms = excluded.ended_at_ms, detail = excluded.detail, log = excluded.log, "
          "samples = excluded.samples",
          job_id)
      .status();
}

// What a best rests on stays with it.
#define TUNEFARM_PG_NOT_A_BEST \
  "NOT EXISTS (SELECT 1 FROM best_config b WHERE b.study_id = t.study_id AND b.ordinal = t.ordinal) "

// Up to $2 rows of the job's studies; `keys` name a row besides its study.
#define TUNEFARM_PG_DELETE_PART(table, key, condition)                                   \
  "DELETE FROM " table " d USING (SELECT t.study_id, t." key " FROM study s JOIN " table \
  " t ON t.study_id = s.study_id WHERE s.job_id = $1 AND " condition                     \
  "LIMIT $2) o WHERE d.study_id = o.study_id AND "                                       \
  "d." key " = o." key

}  // namespace

absl::StatusOr<bool> DeleteJobPart(Session& session, int64_t job_id, int rows_max) {
  ASSIGN_OR_RETURN(const Rows job, session.Query("SELECT state FROM job WHERE job_id = $1 FOR UPDATE", job_id));
  if (job.empty()) return NotFound("job {} does not exist", job_id);
  if (!IsTerminal(static_cast<JobState>(job[0].Int(0)))) {
    return FailedPrecondition("job {} has not ended: cancel it and wait for its end before deleting it", job_id);
  }
  RETURN_IF_ERROR(KeepBestTrials(session, job_id));
  // Units first: what is reported late then finds nothing. Bests' trials last, together with the job: until then a
  // repeated first part finds them again.
  for (const std::string_view sql : {TUNEFARM_PG_DELETE_PART("work_unit", "unit_id", "true "),
                                     TUNEFARM_PG_DELETE_PART("trial_log", "ordinal", TUNEFARM_PG_NOT_A_BEST),
                                     TUNEFARM_PG_DELETE_PART("trial_samples", "ordinal", TUNEFARM_PG_NOT_A_BEST),
                                     TUNEFARM_PG_DELETE_PART("trial_result", "ordinal", TUNEFARM_PG_NOT_A_BEST),
                                     TUNEFARM_PG_DELETE_PART("study_event", "sequence", "true ")}) {
    ASSIGN_OR_RETURN(const int64_t count, session.Run(sql, job_id, rows_max));
    if (count >= rows_max) return false;
  }
  for (const std::string_view sql :
       {"DELETE FROM trial_log d USING study s WHERE s.job_id = $1 AND d.study_id = s.study_id",
        "DELETE FROM trial_samples d USING study s WHERE s.job_id = $1 AND d.study_id = s.study_id",
        "DELETE FROM trial_result d USING study s WHERE s.job_id = $1 AND d.study_id = s.study_id",
        "DELETE FROM study_step d USING study s WHERE s.job_id = $1 AND d.study_id = s.study_id",
        "DELETE FROM study_prior d USING study s WHERE s.job_id = $1 AND d.study_id = s.study_id",
        "DELETE FROM job WHERE job_id = $1"}) {
    RETURN_IF_ERROR(session.Run(sql, job_id).status());
  }
  return true;
}

absl::StatusOr<std::vector<JobRow>> EndedJobs(Session& session, int64_t ended_before_ms, int64_t after_job_id,
                                              int limit) {
  ASSIGN_OR_RETURN(const Rows rows, session.Query("SELECT " TUNEFARM_PG_JOB_COLUMNS
                                                  " FROM job WHERE ended_at_ms < $1 AND job_id > $2 ORDER BY job_id "
                                                  "LIMIT $3",
                                                  ended_before_ms, after_job_id, std::max(limit, 0)));
  return ReadAll(rows, ReadJob);
}

// Of the job that ended first.
#define TUNEFARM_PG_PRUNE(table)                                                                      \
  "DELETE FROM " table                                                                                \
  " d USING (SELECT t.study_id, t.ordinal FROM job j JOIN study s ON s.job_id = j.job_id JOIN " table \
  " t ON t.study_id = s.study_id WHERE j.ended_at_ms < $1 AND " TUNEFARM_PG_NOT_A_BEST                \
  "ORDER BY j.ended_at_ms, t.study_id, t.ordinal LIMIT $2) o WHERE d.study_id = o.study_id AND d.ordinal = o.ordinal"

absl::StatusOr<int64_t> PruneTrialData(Session& session, int64_t ended_before_ms, int rows_max) {
  ASSIGN_OR_RETURN(const int64_t logs, session.Run(TUNEFARM_PG_PRUNE("trial_log"), ended_before_ms, rows_max));
  ASSIGN_OR_RETURN(const int64_t samples, session.Run(TUNEFARM_PG_PRUNE("trial_samples"), ended_before_ms, rows_max));
  return logs + samples;
}

absl::StatusOr<int64_t> DeleteUnusedKernels(Session& session, int64_t created_before_ms) {
  return session.Run(
      "DELETE FROM kernel k WHERE k.created_at_ms < $1 "
      "AND EXISTS (SELECT 1 FROM kernel n WHERE n.display_name = k.display_name AND n.kernel_seq > k.kernel_seq) "
      "AND NOT EXISTS (SELECT 1 FROM job j WHERE j.kernel_id = k.kernel_id) "
      "AND NOT EXISTS (SELECT 1 FROM best_config b WHERE b.kernel_id = k.kernel_id)",
      created_before_ms);
}

absl::StatusOr<StoreStatus> ReadStatus(Session& session) {
  // Below this many trials they are counted; above, the server's own estimate has to do.
  constexpr int64_t kCountedMax = 200'000;
  StoreStatus status;
  ASSIGN_OR_RETURN(const int64_t version, session.QueryInt("SELECT max(number) FROM schema_migration"));
  status.schema_version = static_cast<int>(version);
  // In use: the tables of this schema, less what the dead rows are estimated to take.
  ASSIGN_OR_RETURN(
      const Rows sizes,
      session.Query("SELECT pg_database_size(current_database()), coalesce(sum(pg_total_relation_size(relid) * "
                    "(n_live_tup + 1)::float8 / (n_live_tup + n_dead_tup + 1)), 0)::bigint FROM pg_stat_user_tables "
                    "WHERE schemaname = current_schema()"));
  status.database_bytes = sizes[0].Int(0);
  status.used_bytes = std::min(sizes[0].Int(1), status.database_bytes);
  ASSIGN_OR_RETURN(status.active_jobs, session.QueryInt("SELECT count(*) FROM job WHERE state < 5"));
  ASSIGN_OR_RETURN(status.stored_trials,
                   session.QueryInt("SELECT coalesce(sum(greatest(c.reltuples, pg_stat_get_live_tuples(c.oid), 0)), 0)"
                                    "::bigint FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
                                    "WHERE i.inhparent = 'trial_result'::regclass"));
  if (status.stored_trials <= kCountedMax) {
    ASSIGN_OR_RETURN(status.stored_trials, session.QueryInt("SELECT count(*) FROM trial_result"));
  }
  return status;
}

absl::StatusOr<QueueCounts> CountQueue(Session& session) {
  QueueCounts counts;
  ASSIGN_OR_RETURN(const Rows jobs, session.Query("SELECT state, count(*) FROM job GROUP BY state"));
  for (int i = 0; i < jobs.size(); ++i) {
    const auto state = static_cast<size_t>(jobs[i].Int(0));
    if (state < counts.jobs.size()) counts.jobs[state] = jobs[i].Int(1);
  }
  ASSIGN_OR_RETURN(counts.ready_units, session.QueryInt("SELECT count(*) FROM work_unit WHERE state = 1"));
  ASSIGN_OR_RETURN(counts.claimed_units, session.QueryInt("SELECT count(*) FROM work_unit WHERE state = 2"));
  return counts;
}

absl::Status CheckWritable(Session& session) {
  ASSIGN_OR_RETURN(const int64_t changes,
                   session.Run("UPDATE setting SET value = value WHERE name = 'store.writable'"));
  return changes == 1 ? absl::OkStatus() : DataLoss("{}: the setting store.writable is missing", session.server());
}

}  // namespace tunefarm::postgres
