#include "server/store/shared/jobs.h"

#include <algorithm>
#include <limits>

#include "server/store/checks.h"
#include "server/store/read_rows.h"

namespace tunefarm {
namespace {

constexpr int64_t kDedupKeptMs = int64_t{7} * 24 * 60 * 60 * 1000;
constexpr size_t kJobStatesMax = 10'000;
// Some ten milliseconds of deleting, for which other writes wait on SQLite.
constexpr int kRowsDeletedAtOnceMax = 2000;

struct Duplicate {
  std::string body_digest;
  int64_t job_id = 0;
};

// The job of an earlier submit with this request_id; 0: none.
absl::StatusOr<int64_t> FindDuplicate(Sql& sql, const SubmitRequest& request) {
  RETURN_IF_ERROR(sql.Run("DELETE FROM request_dedup WHERE created_at_ms <= $1", request.now_ms - kDedupKeptMs));
  if (request.request_id.empty()) return 0;
  // The same request may come through two daemons at once: one of them waits.
  RETURN_IF_ERROR(sql.Lock("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", request.request_id));
  ASSIGN_OR_RETURN(const std::optional<Duplicate> earlier,
                   sql.ReadOne(
                       [](const SqlRow& row) {
                         return Duplicate{row.Bytes(0), row.Int(1)};
                       },
                       "SELECT body_digest, job_id FROM request_dedup WHERE request_id = $1", request.request_id));
  if (!earlier.has_value()) return 0;
  if (earlier->body_digest != request.body_digest) {
    return WithReason(
        InvalidArgument("the request_id was used for another request (job {}); use a new one", earlier->job_id),
        "REQUEST_ID_REUSED");
  }
  return earlier->job_id;
}

struct DrivenState {
  JobState state = JobState::kQueued;
  int64_t driver_epoch = 0;
};

// Of a job that nobody else changes until the end of the transaction.
absl::StatusOr<DrivenState> LockJob(Sql& sql, int64_t job_id) {
  ASSIGN_OR_RETURN(const std::optional<DrivenState> job,
                   sql.ReadOne(
                       [](const SqlRow& row) {
                         return DrivenState{static_cast<JobState>(row.Int(0)), row.Int(1)};
                       },
                       TUNEFARM_FOR_UPDATE(sql, "SELECT state, driver_epoch FROM job WHERE job_id = $1"), job_id));
  if (!job.has_value()) return NotFound("job {} does not exist", job_id);
  return *job;
}

// Of the jobs that fit $4 to $7, in a list that begins with an index of those that meet the condition.
#define TUNEFARM_LIST_JOBS(condition)                                                                         \
  "SELECT " TUNEFARM_JOB_COLUMNS " FROM job WHERE " condition                                                 \
  " AND job_id < $1 AND ($2 = 0 OR (($2 >> state) & 1) = 1) AND ($4 = '' OR label = $4) AND ($5 = '' OR "     \
  "submitted_by = $5) AND ($6 = '' OR kernel_id IN (SELECT k.kernel_id FROM kernel k WHERE k.display_name = " \
  "$6)) AND ($7 = '' OR EXISTS (SELECT 1 FROM study s WHERE s.job_id = job.job_id AND s.class_id = $7)) "     \
  "ORDER BY job_id DESC LIMIT $3"

// Few jobs share a label.
std::string_view ListStatement(const JobFilter& filter) {
  if (!filter.label.empty()) return TUNEFARM_LIST_JOBS("label = $4");
  if (!filter.submitted_by.empty()) return TUNEFARM_LIST_JOBS("submitted_by = $5");
  return TUNEFARM_LIST_JOBS("1 = 1");
}

// Names a filter in page tokens: no two of them read the same.
std::string FilterKey(const JobFilter& filter) {
  std::string key;
  for (const std::string& name : {filter.kernel_name, filter.label, filter.submitted_by, filter.device_class_id}) {
    key += " " + std::to_string(name.size()) + ":" + name;
  }
  return key;
}

// A bit for each state.
int64_t MaskOf(const std::vector<JobState>& states) {
  int64_t mask = 0;
  for (const JobState state : states) mask |= int64_t{1} << static_cast<int>(state);
  return mask;
}

}  // namespace

JobStateRow SharedJobs::ReadState(const SqlRow& row) {
  return {row.Int(0), static_cast<JobState>(row.Int(1)), row.Bytes(2), row.Bytes(3), row.Int(4), row.Int(5)};
}

absl::StatusOr<SubmitResult> SharedJobs::SubmitJob(const SubmitRequest& request) {
  return backend_->Write([&](Sql& sql) -> absl::StatusOr<SubmitResult> {
    ASSIGN_OR_RETURN(const int64_t earlier, FindDuplicate(sql, request));
    if (earlier != 0) return SubmitResult{earlier, true};
    const JobRow& job = request.job;
    RETURN_IF_ERROR(CheckStudies(job.studies));
    if (request.kernel.has_value()) RETURN_IF_ERROR(InsertKernel(sql, *request.kernel));
    // Nobody deletes it before the job is there.
    RETURN_IF_ERROR(sql.Lock("SELECT 1 FROM kernel WHERE kernel_id = $1 FOR KEY SHARE", job.kernel_id));
    ASSIGN_OR_RETURN(const bool has_kernel,
                     sql.Exists("SELECT 1 FROM kernel WHERE kernel_id = $1 AND deleted_at_ms IS NULL", job.kernel_id));
    if (!has_kernel) return NotFound("no kernel has the id {}", job.kernel_id);
    ASSIGN_OR_RETURN(
        const int64_t job_id,
        sql.QueryInt("INSERT INTO job (uid, kernel_id, state, priority, state_reason, created_at_ms, label, "
                     "submitted_by) VALUES ($1, $2, 1, $3, '', $4, $5, $6) RETURNING job_id",
                     job.uid, job.kernel_id, job.priority, job.created_at_ms != 0 ? job.created_at_ms : request.now_ms,
                     job.label, job.submitted_by));
    RETURN_IF_ERROR(sql.Run("INSERT INTO job_spec (job_id, spec) VALUES ($1, $2)", job_id, Blob{job.spec}));
    RETURN_IF_ERROR(InsertStudies(sql, job_id, job.studies));
    if (!request.request_id.empty()) {
      RETURN_IF_ERROR(
          sql.Run("INSERT INTO request_dedup (request_id, body_digest, job_id, created_at_ms) VALUES ($1, $2, $3, $4)",
                  request.request_id, request.body_digest, job_id, request.now_ms));
    }
    return SubmitResult{job_id, false};
  });
}

absl::StatusOr<JobRow> SharedJobs::GetJob(int64_t job_id) {
  return backend_->ReadSnapshot([&](Sql& sql) -> absl::StatusOr<JobRow> {
    ASSIGN_OR_RETURN(std::vector<JobRow> jobs,
                     sql.ReadAll(ReadJob, "SELECT " TUNEFARM_JOB_COLUMNS " FROM job WHERE job_id = $1", job_id));
    if (jobs.empty()) return NotFound("job {} does not exist", job_id);
    RETURN_IF_ERROR(LoadStudies(sql, &jobs));
    return std::move(jobs[0]);
  });
}

absl::StatusOr<Page<JobRow>> SharedJobs::ListJobs(const std::vector<JobState>& states, const PageRequest& page,
                                                  const JobFilter& filter) {
  const int64_t mask = MaskOf(states);
  const std::string query = "jobs " + std::to_string(mask) + FilterKey(filter);
  ASSIGN_OR_RETURN(const auto after, DecodePageToken(query, page.page_token, 1));
  const int size = EffectivePageSize(page.page_size);
  return backend_->ReadSnapshot([&](Sql& sql) -> absl::StatusOr<Page<JobRow>> {
    Page<JobRow> result;
    ASSIGN_OR_RETURN(result.rows,
                     sql.ReadAll(ReadJob, ListStatement(filter),
                                 after.has_value() ? (*after)[0] : std::numeric_limits<int64_t>::max(), mask, size + 1,
                                 filter.label, filter.submitted_by, filter.kernel_name, filter.device_class_id));
    if (CutToPage(size, &result.rows)) {
      result.next_page_token = EncodePageToken(query, {result.rows.back().job_id});
    }
    RETURN_IF_ERROR(LoadStudies(sql, &result.rows));
    return result;
  });
}

absl::StatusOr<std::vector<JobRow>> SharedJobs::EndedJobs(int64_t ended_before_ms, int64_t after_job_id, int limit) {
  return backend_->Read([&](Sql& sql) {
    return sql.ReadAll(ReadJob,
                       "SELECT " TUNEFARM_JOB_COLUMNS
                       " FROM job WHERE ended_at_ms < $1 AND job_id > $2 ORDER BY job_id LIMIT $3",
                       ended_before_ms, after_job_id, std::max(limit, 0));
  });
}

absl::StatusOr<std::vector<JobStateRow>> SharedJobs::JobStates(const std::vector<int64_t>& job_ids) {
  if (job_ids.size() > kJobStatesMax) {
    return InvalidArgument("{} jobs were asked for; at most {} are answered at once", job_ids.size(), kJobStatesMax);
  }
  return backend_->Read([&](Sql& sql) { return ReadStates(sql, job_ids); });
}

absl::Status SharedJobs::SetJobState(int64_t job_id, const std::vector<JobState>& from, JobState to,
                                     std::string_view reason, int64_t now_ms, int64_t driver_epoch) {
  absl::Status result = backend_->Write([&](Sql& sql) -> absl::Status {
    ASSIGN_OR_RETURN(const DrivenState job, LockJob(sql, job_id));
    RETURN_IF_ERROR(CheckDriver(job_id, driver_epoch, job.driver_epoch));
    RETURN_IF_ERROR(CheckStateChange(job_id, job.state, from, to));
    RETURN_IF_ERROR(
        sql.Run("UPDATE job SET state = $1, state_reason = $2, started_at_ms = CASE WHEN $1 = 2 THEN "
                "coalesce(started_at_ms, $3) ELSE started_at_ms END, ended_at_ms = CASE WHEN $1 IN (5, 6, 7) THEN $3 "
                "END WHERE job_id = $4",
                static_cast<int>(to), reason, now_ms, job_id));
    return IsTerminal(to) ? EndStudies(sql, job_id) : absl::OkStatus();
  });
  OnStateChange();
  return result;
}

absl::Status SharedJobs::YieldJob(int64_t job_id, int64_t driver_epoch) {
  return backend_->Write([&](Sql& sql) {
    return sql.Run("UPDATE job SET driver = '' WHERE job_id = $1 AND driver_epoch = $2", job_id, driver_epoch);
  });
}

absl::Status SharedJobs::DeleteJob(int64_t job_id) {
  while (true) {
    const absl::StatusOr<bool> is_last = backend_->Write([&](Sql& sql) -> absl::StatusOr<bool> {
      ASSIGN_OR_RETURN(const DrivenState job, LockJob(sql, job_id));
      if (!IsTerminal(job.state)) {
        return FailedPrecondition("job {} has not ended: cancel it and wait for its end before deleting it", job_id);
      }
      RETURN_IF_ERROR(KeepBestTrials(sql, job_id));
      return DeletePart(sql, job_id, kRowsDeletedAtOnceMax);
    });
    RETURN_IF_ERROR(is_last.status());
    if (*is_last) return absl::OkStatus();
  }
}

}  // namespace tunefarm
