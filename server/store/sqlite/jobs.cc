#include "server/store/shared/jobs.h"

#include <algorithm>
#include <set>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/fence_step.h"
#include "server/store/lease_store.h"
#include "server/store/read_rows.h"
#include "server/store/shared/trials.h"
#include "server/store/sqlite/facets.h"

namespace tunefarm::sqlite {
namespace {

class SqliteJobs final : public Facet<SharedJobs> {
 public:
  explicit SqliteJobs(const Shared& shared) : Facet(shared, shared.backend) {}

  absl::StatusOr<std::vector<DrivenJob>> AdoptJobs(std::string_view node, int jobs_max,
                                                   const std::vector<int64_t>& except) override {
    const int64_t step = FenceStep(entropy_);
    return writer_->Call([&](Database& database) -> absl::StatusOr<std::vector<DrivenJob>> {
      const int64_t now_ms = clock_->NowMs();
      ASSIGN_OR_RETURN(const bool is_alive,
                       database.Exists("SELECT 1 FROM lease WHERE name = $1 AND holder = $2 AND until_ms > $3",
                                       std::string(kNodeLeasePrefix).append(node), node, now_ms));
      if (!is_alive) {
        return WithReason(FailedPrecondition("node {} does not hold its lease: it drives nothing", node), "NODE_LEASE");
      }
      const std::set<int64_t> excepted(except.begin(), except.end());
      const auto count_max = static_cast<size_t>(std::clamp(jobs_max, 0, kJobsPerAdoptionMax));
      std::vector<DrivenJob> jobs;
      const auto take = [&](const SqlRow& row) {
        const bool is_cancelling = static_cast<JobState>(row.Int(2)) == JobState::kCancelling;
        if (jobs.size() < count_max && (is_cancelling || excepted.count(row.Int(0)) == 0))
          jobs.push_back({row.Int(0), row.Int(1) + step});
        return row.Int(0);
      };
      RETURN_IF_ERROR(
          database
              .ReadAll(take,
                       "SELECT job_id, driver_epoch, state FROM job WHERE state < 5 AND NOT EXISTS (SELECT 1 FROM "
                       "lease l WHERE l.name = 'node/' || job.driver AND l.holder = job.driver AND l.until_ms > $1) "
                       "ORDER BY job_id",
                       now_ms)
              .status());
      for (const DrivenJob& job : jobs) {
        RETURN_IF_ERROR(database.Run("UPDATE job SET driver = $1, driver_epoch = $2 WHERE job_id = $3", node,
                                     job.driver_epoch, job.job_id));
      }
      return jobs;
    });
  }

 private:
  absl::Status InsertStudies(Sql& sql, int64_t job_id, const std::vector<StudyRow>& studies) override {
    for (const StudyRow& study : studies) {
      RETURN_IF_ERROR(
          sql.Run("INSERT INTO study (job_id, number, problem_key, problem, class_id, device_selector, detail, state, "
                  "next_ordinal, toolkit) VALUES ($1, $2, $3, $4, $5, $6, $7, 1, $8, $9)",
                  job_id, study.number, study.problem_key, Blob{study.problem}, study.class_id, study.device_selector,
                  Blob{study.detail}, study.next_ordinal, study.toolkit));
    }
    return absl::OkStatus();
  }

  absl::Status LoadStudies(Sql& sql, std::vector<JobRow>* jobs) override {
    for (JobRow& job : *jobs) {
      ASSIGN_OR_RETURN(
          job.studies,
          sql.ReadAll(ReadStudy, "SELECT " TUNEFARM_STUDY_COLUMNS " FROM study WHERE job_id = $1 ORDER BY number",
                      job.job_id));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<JobStateRow>> ReadStates(Sql& sql, const std::vector<int64_t>& job_ids) override {
    std::vector<JobStateRow> states;
    for (const int64_t job_id : std::set<int64_t>(job_ids.begin(), job_ids.end())) {
      // Few units are with agents at any time, while a study may have had any number of them.
      ASSIGN_OR_RETURN(
          std::optional<JobStateRow> state,
          sql.ReadOne(ReadState,
                      "SELECT job_id, state, state_reason, driver, driver_epoch, CASE WHEN state = 4 THEN "
                      "(SELECT count(*) FROM work_unit u INDEXED BY work_unit_claimed WHERE u.state = 2 AND "
                      "u.study_id IN (SELECT study_id FROM study s WHERE s.job_id = job.job_id)) ELSE 0 END FROM job "
                      "WHERE job_id = $1",
                      job_id));
      if (state.has_value()) states.push_back(*std::move(state));
    }
    return states;
  }

  absl::Status EndStudies(Sql& sql, int64_t job_id) override {
    for (const std::string_view statement :
         {"DELETE FROM work_unit WHERE state = 1 AND study_id IN (SELECT study_id FROM study WHERE job_id = $1)",
          "DELETE FROM study_prior WHERE study_id IN (SELECT study_id FROM study WHERE job_id = $1)",
          "UPDATE study SET state = 3 WHERE job_id = $1"}) {
      RETURN_IF_ERROR(sql.Run(statement, job_id));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<bool> DeletePart(Sql& sql, int64_t job_id, int rows_max) override {
    // Bests' trials last, together with the job: until then a repeated first part finds them again.
    for (const std::string_view statement :
         {"DELETE FROM trial_result WHERE rowid IN (SELECT t.rowid FROM study s JOIN trial_result t ON "
          "t.study_id = s.study_id WHERE s.job_id = $1 AND " TUNEFARM_NOT_A_BEST "LIMIT $2)",
          "DELETE FROM work_unit WHERE unit_id IN (SELECT u.unit_id FROM study s JOIN work_unit u "
          "ON u.study_id = s.study_id WHERE s.job_id = $1 LIMIT $2)"}) {
      ASSIGN_OR_RETURN(const int64_t count, sql.Change(statement, job_id, rows_max));
      if (count == rows_max) return false;
    }
    // What is left of its studies, their events and their trials goes with it.
    RETURN_IF_ERROR(sql.Run("DELETE FROM job WHERE job_id = $1", job_id));
    return true;
  }
};

}  // namespace

std::unique_ptr<JobStore> NewJobStore(const Shared& shared) { return std::make_unique<SqliteJobs>(shared); }

}  // namespace tunefarm::sqlite
