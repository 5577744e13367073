#include <algorithm>
#include <limits>
#include <set>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/checks.h"
#include "server/store/fence_step.h"
#include "server/store/job_store.h"
#include "server/store/lease_store.h"
#include "server/store/page_token.h"
#include "server/store/sqlite/facets.h"
#include "server/store/sqlite/operations.h"
#include "server/store/sqlite/rows.h"

namespace tunefarm::sqlite {
namespace {

constexpr int64_t kDedupKeptMs = int64_t{7} * 24 * 60 * 60 * 1000;
constexpr int kJobsPerAdoptionMax = 1000;
constexpr size_t kJobStatesMax = 10'000;
// Some ten milliseconds of deleting, for which other writes wait.
constexpr int kRowsDeletedAtOnceMax = 2000;

// The job of an earlier submit with this request_id; 0: none.
absl::StatusOr<int64_t> FindDuplicate(Database& database, const SubmitRequest& request) {
  RETURN_IF_ERROR(
      database.Prepare("DELETE FROM request_dedup WHERE created_at_ms <= ?").Bind(request.now_ms - kDedupKeptMs).Run());
  if (request.request_id.empty()) return 0;
  Statement earlier = database.Prepare("SELECT body_digest, job_id FROM request_dedup WHERE request_id = ?");
  ASSIGN_OR_RETURN(const bool found, earlier.Bind(request.request_id).Step());
  if (!found) return 0;
  if (earlier.Bytes(0) != request.body_digest) {
    return WithReason(InvalidArgument("request_id \"{}\" was used for another request (job {}); use a new one",
                                      request.request_id, earlier.Int(1)),
                      "REQUEST_ID_REUSED");
  }
  return earlier.Int(1);
}

absl::Status InsertStudy(Database& database, int64_t job_id, const StudyRow& study) {
  return database
      .Prepare(
          "INSERT INTO study (job_id, number, problem_key, problem, class_id, device_selector, detail, state, "
          "next_ordinal, toolkit) "
          "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
      .Bind(job_id, study.number, study.problem_key, Blob{study.problem}, study.class_id, study.device_selector,
            Blob{study.detail}, static_cast<int>(StudyState::kSearching), study.next_ordinal, study.toolkit)
      .Run();
}

absl::Status LoadStudies(Database& database, JobRow* job) {
  Statement rows = database.Prepare("SELECT " TUNEFARM_STUDY_COLUMNS " FROM study WHERE job_id = ? ORDER BY number");
  rows.Bind(job->job_id);
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, rows.Step());
    if (!has_row) return absl::OkStatus();
    job->studies.push_back(ReadStudy(rows));
  }
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

// True: that was the last part.
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

class SqliteJobs final : public Facet<JobStore> {
 public:
  using Facet::Facet;

  absl::StatusOr<SubmitResult> SubmitJob(const SubmitRequest& request) override {
    return writer_->Call([&](Database& database) -> absl::StatusOr<SubmitResult> {
      ASSIGN_OR_RETURN(const int64_t earlier, FindDuplicate(database, request));
      if (earlier != 0) return SubmitResult{earlier, true};
      const JobRow& job = request.job;
      RETURN_IF_ERROR(CheckStudies(job.studies));
      if (request.kernel.has_value()) RETURN_IF_ERROR(InsertKernel(database, *request.kernel));
      // Asked first for the sake of the message; the foreign key would refuse it too.
      Statement kernel = database.Prepare("SELECT 1 FROM kernel WHERE kernel_id = ?");
      ASSIGN_OR_RETURN(const bool has_kernel, kernel.Bind(job.kernel_id).Step());
      if (!has_kernel) return NotFound("no kernel has the id {}", job.kernel_id);
      RETURN_IF_ERROR(database
                          .Prepare("INSERT INTO job (uid, kernel_id, state, priority, state_reason, created_at_ms) "
                                   "VALUES (?, ?, ?, ?, '', ?)")
                          .Bind(job.uid, job.kernel_id, static_cast<int>(JobState::kQueued), job.priority,
                                job.created_at_ms != 0 ? job.created_at_ms : request.now_ms)
                          .Run());
      const int64_t job_id = database.LastInsertId();
      RETURN_IF_ERROR(
          database.Prepare("INSERT INTO job_spec (job_id, spec) VALUES (?, ?)").Bind(job_id, Blob{job.spec}).Run());
      for (const StudyRow& study : job.studies) RETURN_IF_ERROR(InsertStudy(database, job_id, study));
      if (!request.request_id.empty()) {
        RETURN_IF_ERROR(
            database
                .Prepare(
                    "INSERT INTO request_dedup (request_id, body_digest, job_id, created_at_ms) VALUES (?, ?, ?, ?)")
                .Bind(request.request_id, request.body_digest, job_id, request.now_ms)
                .Run());
      }
      return SubmitResult{job_id, false};
    });
  }

  absl::StatusOr<JobRow> GetJob(int64_t job_id) override {
    return readers_->Read([&](Database& database) -> absl::StatusOr<JobRow> {
      Statement row = database.Prepare("SELECT " TUNEFARM_JOB_COLUMNS " FROM job WHERE job_id = ?");
      ASSIGN_OR_RETURN(const bool found, row.Bind(job_id).Step());
      if (!found) return NotFound("job {} does not exist", job_id);
      JobRow job = ReadJob(row);
      RETURN_IF_ERROR(LoadStudies(database, &job));
      return job;
    });
  }

  absl::StatusOr<Page<JobRow>> ListJobs(const std::vector<JobState>& states, const PageRequest& page) override {
    return readers_->Read([&](Database& database) -> absl::StatusOr<Page<JobRow>> {
      std::vector<JobState> sorted = states;
      std::sort(sorted.begin(), sorted.end());
      const std::string filter = JsonList(sorted);
      const std::string query = "jobs " + filter;
      ASSIGN_OR_RETURN(const auto after, DecodePageToken(query, page.page_token, 1));
      const auto size = static_cast<size_t>(EffectivePageSize(page.page_size));
      Page<JobRow> result;
      Statement rows = database.Prepare("SELECT " TUNEFARM_JOB_COLUMNS
                                        " FROM job WHERE job_id < ?1 AND (?2 = '[]' OR state IN (SELECT value FROM "
                                        "json_each(?2))) ORDER BY job_id DESC LIMIT ?3");
      // One row more than asked for tells whether there is a next page.
      rows.Bind(after.has_value() ? (*after)[0] : std::numeric_limits<int64_t>::max(), filter,
                static_cast<int64_t>(size + 1));
      while (true) {
        ASSIGN_OR_RETURN(const bool has_row, rows.Step());
        if (!has_row) return result;
        if (result.rows.size() == size) {
          result.next_page_token = EncodePageToken(query, {result.rows.back().job_id});
          return result;
        }
        result.rows.push_back(ReadJob(rows));
        RETURN_IF_ERROR(LoadStudies(database, &result.rows.back()));
      }
    });
  }

  absl::StatusOr<std::vector<JobRow>> ActiveJobs() override {
    return readers_->Read([](Database& database) -> absl::StatusOr<std::vector<JobRow>> {
      std::vector<JobRow> jobs;
      Statement rows = database.Prepare("SELECT " TUNEFARM_JOB_COLUMNS " FROM job WHERE state < 5 ORDER BY job_id");
      while (true) {
        ASSIGN_OR_RETURN(const bool has_row, rows.Step());
        if (!has_row) return jobs;
        jobs.push_back(ReadJob(rows));
        RETURN_IF_ERROR(LoadStudies(database, &jobs.back()));
      }
    });
  }

  absl::StatusOr<std::vector<JobRow>> EndedJobs(int64_t ended_before_ms, int64_t after_job_id, int limit) override {
    return readers_->Read([&](Database& database) -> absl::StatusOr<std::vector<JobRow>> {
      Statement rows = database.Prepare("SELECT " TUNEFARM_JOB_COLUMNS
                                        " FROM job WHERE ended_at_ms < ? AND job_id > ? ORDER BY job_id LIMIT ?");
      rows.Bind(ended_before_ms, after_job_id, limit);
      return ReadAll(rows, ReadJob<Statement>);
    });
  }

  absl::StatusOr<std::vector<JobStateRow>> JobStates(const std::vector<int64_t>& job_ids) override {
    return readers_->Read([&](Database& database) -> absl::StatusOr<std::vector<JobStateRow>> {
      if (job_ids.size() > kJobStatesMax) {
        return InvalidArgument("{} jobs were asked for; at most {} are answered at once", job_ids.size(),
                               kJobStatesMax);
      }
      std::vector<int64_t> sorted = job_ids;
      std::sort(sorted.begin(), sorted.end());
      sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
      std::vector<JobStateRow> states;
      for (const int64_t job_id : sorted) {
        // Few units are with agents at any time, while a study may have had any number of them.
        Statement row = database.Prepare(
            "SELECT state, state_reason, driver, driver_epoch, CASE WHEN state = 4 THEN (SELECT count(*) FROM "
            "work_unit u "
            "INDEXED BY work_unit_claimed WHERE u.state = 2 AND u.study_id IN (SELECT study_id FROM study s WHERE "
            "s.job_id = job.job_id)) ELSE 0 END FROM job WHERE job_id = ?");
        ASSIGN_OR_RETURN(const bool found, row.Bind(job_id).Step());
        if (!found) continue;
        states.push_back(
            {job_id, static_cast<JobState>(row.Int(0)), row.Bytes(1), row.Bytes(2), row.Int(3), row.Int(4)});
      }
      return states;
    });
  }

  absl::Status SetJobState(int64_t job_id, const std::vector<JobState>& from, JobState to, std::string_view reason,
                           int64_t now_ms, int64_t driver_epoch) override {
    return writer_->Run([&](Database& database) -> absl::Status {
      ASSIGN_OR_RETURN(const JobState state, LoadState(database, job_id, driver_epoch));
      RETURN_IF_ERROR(CheckStateChange(job_id, state, from, to));
      RETURN_IF_ERROR(
          database
              .Prepare(
                  "UPDATE job SET state = ?1, state_reason = ?2, started_at_ms = CASE WHEN ?1 = 2 THEN "
                  "ifnull(started_at_ms, "
                  "?3) ELSE started_at_ms END, ended_at_ms = CASE WHEN ?1 IN (5, 6, 7) THEN ?3 END WHERE job_id = ?4")
              .Bind(static_cast<int>(to), reason, now_ms, job_id)
              .Run());
      if (IsTerminal(to)) return EndStudies(database, job_id);
      return absl::OkStatus();
    });
  }

  absl::StatusOr<std::vector<DrivenJob>> AdoptJobs(std::string_view node, int jobs_max,
                                                   const std::vector<int64_t>& except) override {
    const int64_t step = FenceStep(entropy_);
    return writer_->Call([&](Database& database) -> absl::StatusOr<std::vector<DrivenJob>> {
      const int64_t now_ms = clock_->NowMs();
      Statement lives = database.Prepare("SELECT 1 FROM lease WHERE name = ?1 AND holder = ?2 AND until_ms > ?3");
      ASSIGN_OR_RETURN(const bool is_alive,
                       lives.Bind(std::string(kNodeLeasePrefix).append(node), node, now_ms).Step());
      if (!is_alive) {
        return WithReason(FailedPrecondition("node {} does not hold its lease: it drives nothing", node), "NODE_LEASE");
      }
      std::vector<DrivenJob> jobs;
      {
        Statement orphans = database.Prepare(
            "SELECT job_id, driver_epoch, state FROM job WHERE state < 5 AND NOT EXISTS (SELECT 1 FROM lease l WHERE "
            "l.name = 'node/' || job.driver AND l.holder = job.driver AND l.until_ms > ?1) ORDER BY job_id");
        orphans.Bind(now_ms);
        const std::set<int64_t> excepted(except.begin(), except.end());
        const auto count_max = static_cast<size_t>(std::clamp(jobs_max, 0, kJobsPerAdoptionMax));
        while (jobs.size() < count_max) {
          ASSIGN_OR_RETURN(const bool has_row, orphans.Step());
          if (!has_row) break;
          if (static_cast<JobState>(orphans.Int(2)) != JobState::kCancelling && excepted.count(orphans.Int(0)) > 0)
            continue;
          jobs.push_back({orphans.Int(0), orphans.Int(1) + step});
        }
      }
      for (const DrivenJob& job : jobs) {
        RETURN_IF_ERROR(database.Prepare("UPDATE job SET driver = ?, driver_epoch = ? WHERE job_id = ?")
                            .Bind(node, job.driver_epoch, job.job_id)
                            .Run());
      }
      return jobs;
    });
  }

  absl::Status YieldJob(int64_t job_id, int64_t driver_epoch) override {
    return writer_->Run([&](Database& database) {
      return database.Prepare("UPDATE job SET driver = '' WHERE job_id = ? AND driver_epoch = ?")
          .Bind(job_id, driver_epoch)
          .Run();
    });
  }

  absl::Status DeleteJob(int64_t job_id) override {
    while (true) {
      const absl::StatusOr<bool> is_last =
          writer_->Call([&](Database& database) { return DeleteJobPart(database, job_id, kRowsDeletedAtOnceMax); });
      RETURN_IF_ERROR(is_last.status());
      if (*is_last) return absl::OkStatus();
    }
  }
};

}  // namespace

std::unique_ptr<JobStore> NewJobStore(const Shared& shared) { return std::make_unique<SqliteJobs>(shared); }

}  // namespace tunefarm::sqlite
