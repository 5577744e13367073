#include "server/store/shared/jobs.h"

#include <algorithm>
#include <map>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/fence_step.h"
#include "server/store/lease_store.h"
#include "server/store/postgres/facets.h"
#include "server/store/read_rows.h"
#include "server/store/shared/trials.h"

namespace tunefarm::postgres {
namespace {

// Up to $2 rows of the job's studies; `keys` name a row besides its study.
#define TUNEFARM_PG_DELETE_PART(table, key, condition)                                   \
  "DELETE FROM " table " d USING (SELECT t.study_id, t." key " FROM study s JOIN " table \
  " t ON t.study_id = s.study_id WHERE s.job_id = $1 AND " condition                     \
  "LIMIT $2) o WHERE d.study_id = o.study_id AND "                                       \
  "d." key " = o." key

class PostgresJobs final : public Facet<SharedJobs> {
 public:
  explicit PostgresJobs(const Shared& shared) : Facet(shared, shared.backend) {}

  absl::StatusOr<std::vector<DrivenJob>> AdoptJobs(std::string_view node, int jobs_max,
                                                   const std::vector<int64_t>& except) override {
    const int64_t step = FenceStep(entropy_);
    return pool_->Call(&Pool::Write, [&](Session& session) -> absl::StatusOr<std::vector<DrivenJob>> {
      // Held until the commit: the node lives as long as it takes to adopt.
      ASSIGN_OR_RETURN(
          const bool is_alive,
          session.Exists(
              "SELECT 1 FROM lease WHERE name = $1 AND holder = $2 AND lease_until > clock_timestamp() FOR SHARE",
              std::string(kNodeLeasePrefix).append(node), node));
      if (!is_alive) {
        return WithReason(FailedPrecondition("node {} does not hold its lease: it drives nothing", node), "NODE_LEASE");
      }
      // One that another node adopts just now is not an orphan any more.
      ASSIGN_OR_RETURN(
          std::vector<DrivenJob> jobs,
          session.ReadAll(
              [](const SqlRow& row) {
                return DrivenJob{row.Int(0), row.Int(1)};
              },
              "UPDATE job SET driver = $1, driver_epoch = driver_epoch + $4 WHERE job_id IN (SELECT j.job_id FROM job "
              "j WHERE j.state < 5 AND (j.state = 4 OR j.job_id <> ALL($3)) AND NOT EXISTS (SELECT 1 FROM lease "
              "l WHERE l.name = 'node/' || j.driver AND l.holder = j.driver AND l.lease_until > clock_timestamp()) "
              "ORDER BY j.job_id LIMIT $2 FOR UPDATE OF j SKIP LOCKED) RETURNING job_id, driver_epoch",
              node, std::clamp(jobs_max, 0, kJobsPerAdoptionMax), except, step));
      std::sort(jobs.begin(), jobs.end(), [](const DrivenJob& a, const DrivenJob& b) { return a.job_id < b.job_id; });
      return jobs;
    });
  }

 private:
  absl::Status InsertStudies(Sql& sql, int64_t job_id, const std::vector<StudyRow>& studies) override {
    std::vector<int64_t> numbers, next_ordinals;
    Texts problem_keys, classes, devices, toolkits;
    Blobs problems, details;
    for (const StudyRow& study : studies) {
      numbers.push_back(study.number);
      problem_keys.values.push_back(study.problem_key);
      problems.values.push_back(study.problem);
      classes.values.push_back(study.class_id);
      devices.values.push_back(study.device_selector);
      details.values.push_back(study.detail);
      next_ordinals.push_back(study.next_ordinal);
      toolkits.values.push_back(study.toolkit);
    }
    return sql.Run(
        "INSERT INTO study (job_id, number, problem_key, problem, class_id, device_selector, detail, state, "
        "next_ordinal, toolkit) SELECT $1, n.number, n.problem_key, n.problem, n.class_id, n.device_selector, "
        "n.detail, 1, n.next_ordinal, n.toolkit FROM (SELECT * FROM unnest($2, $3, $4, $5, $6, $7, $8, $9) WITH "
        "ORDINALITY AS "
        "s(number, problem_key, problem, class_id, device_selector, detail, next_ordinal, toolkit, place) ORDER BY "
        "place) n",
        job_id, numbers, problem_keys, problems, classes, devices, details, next_ordinals, toolkits);
  }

  // Of all the jobs in one statement.
  absl::Status LoadStudies(Sql& sql, std::vector<JobRow>* jobs) override {
    std::vector<int64_t> ids;
    std::map<int64_t, JobRow*> by_id;
    for (JobRow& job : *jobs) {
      ids.push_back(job.job_id);
      by_id[job.job_id] = &job;
    }
    if (ids.empty()) return absl::OkStatus();
    constexpr int kJobId = 11;
    const auto read = [&](const SqlRow& row) { return std::pair(row.Int(kJobId), ReadStudy(row)); };
    ASSIGN_OR_RETURN(auto studies, sql.ReadAll(read,
                                               "SELECT " TUNEFARM_STUDY_COLUMNS
                                               ", job_id FROM study_now WHERE job_id = ANY($1) ORDER BY job_id, number",
                                               ids));
    for (auto& [job_id, study] : studies) by_id[job_id]->studies.push_back(std::move(study));
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<JobStateRow>> ReadStates(Sql& sql, const std::vector<int64_t>& job_ids) override {
    return sql.ReadAll(
        ReadState,
        "SELECT job_id, state, state_reason, driver, driver_epoch, CASE WHEN state = 4 THEN (SELECT count(*) "
        "FROM work_unit u WHERE u.state = 2 AND u.study_id IN (SELECT s.study_id FROM study s WHERE "
        "s.job_id = job.job_id)) ELSE 0 END FROM job WHERE job_id = ANY($1) ORDER BY job_id",
        job_ids);
  }

  // The studies first: a unit that comes back to one of them waits for this, or this for it.
  absl::Status EndStudies(Sql& sql, int64_t job_id) override {
    RETURN_IF_ERROR(sql.Run("UPDATE study SET state = 3 WHERE job_id = $1", job_id));
    RETURN_IF_ERROR(
        sql.Run("DELETE FROM work_unit u USING study s WHERE s.job_id = $1 AND u.study_id = s.study_id AND u.state = 1",
                job_id));
    return sql.Run("DELETE FROM study_prior p USING study s WHERE s.job_id = $1 AND p.study_id = s.study_id", job_id);
  }

  absl::StatusOr<bool> DeletePart(Sql& sql, int64_t job_id, int rows_max) override {
    // Units first: what is reported late then finds nothing. Bests' trials last, together with the job: until then a
    // repeated first part finds them again.
    for (const std::string_view statement : {TUNEFARM_PG_DELETE_PART("work_unit", "unit_id", "true "),
                                             TUNEFARM_PG_DELETE_PART("trial_log", "ordinal", TUNEFARM_NOT_A_BEST),
                                             TUNEFARM_PG_DELETE_PART("trial_samples", "ordinal", TUNEFARM_NOT_A_BEST),
                                             TUNEFARM_PG_DELETE_PART("trial_result", "ordinal", TUNEFARM_NOT_A_BEST),
                                             TUNEFARM_PG_DELETE_PART("study_event", "sequence", "true "),
                                             TUNEFARM_PG_DELETE_PART("study_work", "ordinal", "true ")}) {
      ASSIGN_OR_RETURN(const int64_t count, sql.Change(statement, job_id, rows_max));
      if (count >= rows_max) return false;
    }
    for (const std::string_view statement :
         {"DELETE FROM trial_log d USING study s WHERE s.job_id = $1 AND d.study_id = s.study_id",
          "DELETE FROM trial_samples d USING study s WHERE s.job_id = $1 AND d.study_id = s.study_id",
          "DELETE FROM trial_result d USING study s WHERE s.job_id = $1 AND d.study_id = s.study_id",
          "DELETE FROM study_work d USING study s WHERE s.job_id = $1 AND d.study_id = s.study_id",
          "DELETE FROM study_step d USING study s WHERE s.job_id = $1 AND d.study_id = s.study_id",
          "DELETE FROM study_prior d USING study s WHERE s.job_id = $1 AND d.study_id = s.study_id",
          "DELETE FROM job WHERE job_id = $1"}) {
      RETURN_IF_ERROR(sql.Run(statement, job_id));
    }
    return true;
  }

  void OnStateChange() override { board_->Invalidate(); }
};

}  // namespace

std::unique_ptr<JobStore> NewJobStore(const Shared& shared) { return std::make_unique<PostgresJobs>(shared); }

}  // namespace tunefarm::postgres
