#pragma once

#include "server/store/job_store.h"
#include "server/store/shared/facets.h"

namespace tunefarm {

// What JobStore is alike on both databases. Each adds what reads or writes many rows at once, or depends on its leases.
class SharedJobs : public SharedFacet<JobStore> {
 public:
  using SharedFacet::SharedFacet;

  absl::StatusOr<SubmitResult> SubmitJob(const SubmitRequest& request) override;
  absl::StatusOr<JobRow> GetJob(int64_t job_id) override;
  absl::StatusOr<Page<JobRow>> ListJobs(const std::vector<JobState>& states, const PageRequest& page,
                                        const JobFilter& filter) override;
  absl::StatusOr<std::vector<JobRow>> EndedJobs(int64_t ended_before_ms, int64_t after_job_id, int limit) override;
  absl::StatusOr<std::vector<JobStateRow>> JobStates(const std::vector<int64_t>& job_ids) override;
  absl::Status SetJobState(int64_t job_id, const std::vector<JobState>& from, JobState to, std::string_view reason,
                           int64_t now_ms, int64_t driver_epoch) override;
  absl::Status YieldJob(int64_t job_id, int64_t driver_epoch) override;
  absl::Status DeleteJob(int64_t job_id) override;

 protected:
  static constexpr int kJobsPerAdoptionMax = 1000;
  // job_id, state, state_reason, driver, driver_epoch, and the units that are with agents if it is CANCELLING.
  static JobStateRow ReadState(const SqlRow& row);

 private:
  virtual absl::Status InsertStudies(Sql& sql, int64_t job_id, const std::vector<StudyRow>& studies) = 0;
  // Adds to each job its studies, by number.
  virtual absl::Status LoadStudies(Sql& sql, std::vector<JobRow>* jobs) = 0;
  // By id; `job_ids` are not too many.
  virtual absl::StatusOr<std::vector<JobStateRow>> ReadStates(Sql& sql, const std::vector<int64_t>& job_ids) = 0;
  // Ends what a terminal job leaves behind. Units in an agent's hands stay: their results are paid for.
  virtual absl::Status EndStudies(Sql& sql, int64_t job_id) = 0;
  // Deletes up to `rows_max` rows of a kind of a terminal job, whose best trials were kept. True: that was the last
  // part.
  virtual absl::StatusOr<bool> DeletePart(Sql& sql, int64_t job_id, int rows_max) = 0;
  // Called after a change of state, also one that has failed.
  virtual void OnStateChange() {}
};

}  // namespace tunefarm
