#include <algorithm>
#include <limits>
#include <map>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/checks.h"
#include "server/store/fence_step.h"
#include "server/store/job_store.h"
#include "server/store/lease_store.h"
#include "server/store/page_token.h"
#include "server/store/postgres/facets.h"
#include "server/store/postgres/operations.h"
#include "server/store/postgres/rows.h"

namespace tunefarm::postgres {
namespace {

constexpr int64_t kDedupKeptMs = int64_t{7} * 24 * 60 * 60 * 1000;
constexpr int kJobsPerAdoptionMax = 1000;
constexpr size_t kJobStatesMax = 10'000;
constexpr int kRowsDeletedAtOnceMax = 2000;

// The job of an earlier submit with this request_id; 0: none.
absl::StatusOr<int64_t> FindDuplicate(Session& session, const SubmitRequest& request) {
  RETURN_IF_ERROR(
      session.Run("DELETE FROM request_dedup WHERE created_at_ms <= $1", request.now_ms - kDedupKeptMs).status());
  if (request.request_id.empty()) return 0;
  // The same request may come through two daemons at once: one of them waits.
  RETURN_IF_ERROR(session.Run("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", request.request_id).status());
  ASSIGN_OR_RETURN(
      const Rows earlier,
      session.Query("SELECT body_digest, job_id FROM request_dedup WHERE request_id = $1", request.request_id));
  if (earlier.empty()) return 0;
  if (earlier[0].Bytes(0) != request.body_digest) {
    return WithReason(InvalidArgument("request_id \"{}\" was used for another request (job {}); use a new one",
                                      request.request_id, earlier[0].Int(1)),
                      "REQUEST_ID_REUSED");
  }
  return earlier[0].Int(1);
}

absl::Status InsertStudies(Session& session, int64_t job_id, const std::vector<StudyRow>& studies) {
  std::vector<int64_t> numbers, next_ordinals;
  Texts problem_keys, classes, devices, toolkits;
  Blobs problems, summaries;
  for (const StudyRow& study : studies) {
    numbers.push_back(study.number);
    problem_keys.values.push_back(study.problem_key);
    problems.values.push_back(study.problem);
    classes.values.push_back(study.class_id);
    devices.values.push_back(study.device_selector);
    summaries.values.push_back(study.detail);
    next_ordinals.push_back(study.next_ordinal);
    toolkits.values.push_back(study.toolkit);
  }
  return session
      .Run(
          "INSERT INTO study (job_id, number, problem_key, problem, class_id, device_selector, detail, state, "
          "next_ordinal, toolkit) SELECT $1, n.number, n.problem_key, n.problem, n.class_id, n.device_selector, "
          "n.detail, "
          "1, n.next_ordinal, n.toolkit FROM (SELECT * FROM unnest($2, $3, $4, $5, $6, $7, $8, $9) WITH ORDINALITY AS "
          "s(number, problem_key, problem, class_id, device_selector, detail, next_ordinal, toolkit, place) ORDER BY "
          "place) n",
          job_id, numbers, problem_keys, problems, classes, devices, summaries, next_ordinals, toolkits)
      .status();
}

// Of all the jobs in one statement.
absl::Status LoadStudies(Session& session, std::vector<JobRow>* jobs) {
  std::vector<int64_t> ids;
  std::map<int64_t, JobRow*> by_id;
  for (JobRow& job : *jobs) {
    ids.push_back(job.job_id);
    by_id[job.job_id] = &job;
  }
  if (ids.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Rows rows,
                   session.Query("SELECT " TUNEFARM_STUDY_COLUMNS
                                 ", job_id FROM study_now WHERE job_id = ANY($1) ORDER BY job_id, number",
                                 ids));
  constexpr int kJobId = 11;
  for (int i = 0; i < rows.size(); ++i) {
    by_id[rows[i].Int(kJobId)]->studies.push_back(ReadStudy(rows[i]));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<JobRow>> WithStudies(Session& session, const Rows& rows) {
  std::vector<JobRow> jobs = ReadAll(rows, ReadJob<Row>);
  RETURN_IF_ERROR(LoadStudies(session, &jobs));
  return jobs;
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

// Up to $2 rows of the job's studies; `keys` name a row besides its study.
#define TUNEFARM_PG_DELETE_PART(table, key, condition)                                   \
  "DELETE FROM " table " d USING (SELECT t.study_id, t." key " FROM study s JOIN " table \
  " t ON t.study_id = s.study_id WHERE s.job_id = $1 AND " condition                     \
  "LIMIT $2) o WHERE d.study_id = o.study_id AND "                                       \
  "d." key " = o." key

// True: that was the last part.
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

class PostgresJobs final : public Facet<JobStore> {
 public:
  using Facet::Facet;

  absl::StatusOr<SubmitResult> SubmitJob(const SubmitRequest& request) override {
    return pool_->Call(&Pool::Write, [&](Session& session) -> absl::StatusOr<SubmitResult> {
      ASSIGN_OR_RETURN(const int64_t earlier, FindDuplicate(session, request));
      if (earlier != 0) return SubmitResult{earlier, true};
      const JobRow& job = request.job;
      RETURN_IF_ERROR(CheckStudies(job.studies));
      if (request.kernel.has_value()) RETURN_IF_ERROR(InsertKernel(session, *request.kernel));
      // Asked first for the sake of the message; the foreign key would refuse it too.
      ASSIGN_OR_RETURN(const Rows kernel, session.Query("SELECT 1 FROM kernel WHERE kernel_id = $1", job.kernel_id));
      if (kernel.empty()) return NotFound("no kernel has the id {}", job.kernel_id);
      ASSIGN_OR_RETURN(
          const int64_t job_id,
          session.QueryInt("INSERT INTO job (uid, kernel_id, state, priority, state_reason, created_at_ms) "
                           "VALUES ($1, $2, 1, $3, '', $4) RETURNING job_id",
                           job.uid, job.kernel_id, job.priority,
                           job.created_at_ms != 0 ? job.created_at_ms : request.now_ms));
      RETURN_IF_ERROR(
          session.Run("INSERT INTO job_spec (job_id, spec) VALUES ($1, $2)", job_id, Blob{job.spec}).status());
      RETURN_IF_ERROR(InsertStudies(session, job_id, job.studies));
      if (!request.request_id.empty()) {
        RETURN_IF_ERROR(session
                            .Run("INSERT INTO request_dedup (request_id, body_digest, job_id, created_at_ms) VALUES "
                                 "($1, $2, $3, $4)",
                                 request.request_id, request.body_digest, job_id, request.now_ms)
                            .status());
      }
      return SubmitResult{job_id, false};
    });
  }

  absl::StatusOr<JobRow> GetJob(int64_t job_id) override {
    return pool_->Call(&Pool::ReadSnapshot, [&](Session& session) -> absl::StatusOr<JobRow> {
      ASSIGN_OR_RETURN(const Rows rows,
                       session.Query("SELECT " TUNEFARM_JOB_COLUMNS " FROM job WHERE job_id = $1", job_id));
      if (rows.empty()) return NotFound("job {} does not exist", job_id);
      ASSIGN_OR_RETURN(std::vector<JobRow> jobs, WithStudies(session, rows));
      return std::move(jobs[0]);
    });
  }

  absl::StatusOr<Page<JobRow>> ListJobs(const std::vector<JobState>& states, const PageRequest& page) override {
    return pool_->Call(&Pool::ReadSnapshot, [&](Session& session) -> absl::StatusOr<Page<JobRow>> {
      const std::vector<int64_t> filter = Sorted(states);
      const std::string query = "jobs " + ListOf(filter);
      ASSIGN_OR_RETURN(const auto after, DecodePageToken(query, page.page_token, 1));
      const int size = EffectivePageSize(page.page_size);
      // One row more than asked for tells whether there is a next page.
      ASSIGN_OR_RETURN(
          const Rows rows,
          session.Query(
              "SELECT " TUNEFARM_JOB_COLUMNS
              " FROM job WHERE job_id < $1 AND (cardinality($2) = 0 OR state = ANY($2)) ORDER BY job_id DESC LIMIT $3",
              after.has_value() ? (*after)[0] : std::numeric_limits<int64_t>::max(), filter, size + 1));
      Page<JobRow> result;
      for (int i = 0; i < rows.size() && i < size; ++i) result.rows.push_back(ReadJob(rows[i]));
      if (rows.size() > size) result.next_page_token = EncodePageToken(query, {result.rows.back().job_id});
      RETURN_IF_ERROR(LoadStudies(session, &result.rows));
      return result;
    });
  }

  absl::StatusOr<std::vector<JobRow>> ActiveJobs() override {
    return pool_->Call(&Pool::ReadSnapshot, [](Session& session) -> absl::StatusOr<std::vector<JobRow>> {
      ASSIGN_OR_RETURN(const Rows rows,
                       session.Query("SELECT " TUNEFARM_JOB_COLUMNS " FROM job WHERE state < 5 ORDER BY job_id"));
      return WithStudies(session, rows);
    });
  }

  absl::StatusOr<std::vector<JobRow>> EndedJobs(int64_t ended_before_ms, int64_t after_job_id, int limit) override {
    return pool_->Call(&Pool::Read, [&](Session& session) -> absl::StatusOr<std::vector<JobRow>> {
      ASSIGN_OR_RETURN(const Rows rows,
                       session.Query("SELECT " TUNEFARM_JOB_COLUMNS
                                     " FROM job WHERE ended_at_ms < $1 AND job_id > $2 ORDER BY job_id LIMIT $3",
                                     ended_before_ms, after_job_id, std::max(limit, 0)));
      return ReadAll(rows, ReadJob<Row>);
    });
  }

  absl::StatusOr<std::vector<JobStateRow>> JobStates(const std::vector<int64_t>& job_ids) override {
    return pool_->Call(&Pool::Read, [&](Session& session) -> absl::StatusOr<std::vector<JobStateRow>> {
      if (job_ids.size() > kJobStatesMax) {
        return InvalidArgument("{} jobs were asked for; at most {} are answered at once", job_ids.size(),
                               kJobStatesMax);
      }
      ASSIGN_OR_RETURN(
          const Rows rows,
          session.Query(
              "SELECT job_id, state, state_reason, driver, driver_epoch, CASE WHEN state = 4 THEN (SELECT count(*) "
              "FROM work_unit u WHERE u.state = 2 AND u.study_id IN (SELECT s.study_id FROM study s WHERE "
              "s.job_id = job.job_id)) ELSE 0 END FROM job WHERE job_id = ANY($1) ORDER BY job_id",
              job_ids));
      std::vector<JobStateRow> states;
      for (int i = 0; i < rows.size(); ++i) {
        const Row row = rows[i];
        states.push_back(
            {row.Int(0), static_cast<JobState>(row.Int(1)), row.Bytes(2), row.Bytes(3), row.Int(4), row.Int(5)});
      }
      return states;
    });
  }

  absl::Status SetJobState(int64_t job_id, const std::vector<JobState>& from, JobState to, std::string_view reason,
                           int64_t now_ms, int64_t driver_epoch) override {
    absl::Status result = pool_->Write([&](Session& session) -> absl::Status {
      ASSIGN_OR_RETURN(const JobState state, LockJob(session, job_id, driver_epoch));
      RETURN_IF_ERROR(CheckStateChange(job_id, state, from, to));
      RETURN_IF_ERROR(session
                          .Run("UPDATE job SET state = $1, state_reason = $2, started_at_ms = CASE WHEN $1 = 2 THEN "
                               "coalesce(started_at_ms, $3) ELSE started_at_ms END, ended_at_ms = CASE WHEN $1 IN (5, "
                               "6, 7) THEN $3 END WHERE job_id = $4",
                               static_cast<int>(to), reason, now_ms, job_id)
                          .status());
      if (IsTerminal(to)) return EndStudies(session, job_id);
      return absl::OkStatus();
    });
    board_->Invalidate();
    return result;
  }

  absl::StatusOr<std::vector<DrivenJob>> AdoptJobs(std::string_view node, int jobs_max,
                                                   const std::vector<int64_t>& except) override {
    const int64_t step = FenceStep(entropy_);
    return pool_->Call(&Pool::Write, [&](Session& session) -> absl::StatusOr<std::vector<DrivenJob>> {
      // Held until the commit: the node lives as long as it takes to adopt.
      ASSIGN_OR_RETURN(
          const Rows lives,
          session.Query(
              "SELECT 1 FROM lease WHERE name = $1 AND holder = $2 AND lease_until > clock_timestamp() FOR SHARE",
              std::string(kNodeLeasePrefix).append(node), node));
      if (lives.empty()) {
        return WithReason(FailedPrecondition("node {} does not hold its lease: it drives nothing", node), "NODE_LEASE");
      }
      // One that another node adopts just now is not an orphan any more.
      ASSIGN_OR_RETURN(
          const Rows orphans,
          session.Query(
              "UPDATE job SET driver = $1, driver_epoch = driver_epoch + $4 WHERE job_id IN (SELECT j.job_id FROM job "
              "j WHERE j.state < 5 AND (j.state = 4 OR j.job_id <> ALL($3)) AND NOT EXISTS (SELECT 1 FROM lease "
              "l WHERE l.name = 'node/' || j.driver AND l.holder = j.driver AND l.lease_until > clock_timestamp()) "
              "ORDER BY j.job_id LIMIT $2 FOR UPDATE OF j SKIP LOCKED) RETURNING job_id, driver_epoch",
              node, std::clamp(jobs_max, 0, kJobsPerAdoptionMax), except, step));
      std::vector<DrivenJob> jobs;
      for (int i = 0; i < orphans.size(); ++i) jobs.push_back({orphans[i].Int(0), orphans[i].Int(1)});
      std::sort(jobs.begin(), jobs.end(), [](const DrivenJob& a, const DrivenJob& b) { return a.job_id < b.job_id; });
      return jobs;
    });
  }

  absl::Status YieldJob(int64_t job_id, int64_t driver_epoch) override {
    return pool_->Write([&](Session& session) {
      return session.Run("UPDATE job SET driver = '' WHERE job_id = $1 AND driver_epoch = $2", job_id, driver_epoch)
          .status();
    });
  }

  absl::Status DeleteJob(int64_t job_id) override {
    while (true) {
      const absl::StatusOr<bool> is_last = pool_->Call(
          &Pool::Write, [&](Session& session) { return DeleteJobPart(session, job_id, kRowsDeletedAtOnceMax); });
      RETURN_IF_ERROR(is_last.status());
      if (*is_last) return absl::OkStatus();
    }
  }
};

}  // namespace

std::unique_ptr<JobStore> NewJobStore(const Shared& shared) { return std::make_unique<PostgresJobs>(shared); }

}  // namespace tunefarm::postgres
