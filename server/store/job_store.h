// JobStore: jobs from their submission to their deletion, and which node drives each. Threads and errors: as Store
// (store.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/job_rows.h"
#include "server/store/kernel_store.h"
#include "server/store/page.h"

namespace tunefarm {

struct SubmitRequest {
  JobRow job;                       // with studies
  std::optional<KernelRow> kernel;  // submitted in the same transaction
  std::string request_id;           // empty: none
  std::string body_digest;          // of the request, to tell a retry from a reuse
  int64_t now_ms = 0;
};

struct SubmitResult {
  int64_t job_id = 0;
  bool was_duplicate = false;  // the request_id was seen before with the same body: job_id is that job
};

struct DrivenJob {
  int64_t job_id = 0;
  int64_t driver_epoch = 0;
};

struct JobStateRow {
  int64_t job_id = 0;
  JobState state = JobState::kQueued;
  std::string state_reason;
  std::string driver;  // the node that drives it; empty: none
  int64_t driver_epoch = 0;
  int64_t claimed_units = 0;  // of a CANCELLING job: units that agents hold; of others not counted
};

// Which jobs a list has: those that have every name that is not empty.
struct JobFilter {
  std::string kernel_name;      // display name of the kernel
  std::string label;            // of the job
  std::string submitted_by;     // who submitted it
  std::string device_class_id;  // of one of its studies
};

class JobStore {
 public:
  virtual ~JobStore() = default;

  // Stores job (QUEUED), studies (SEARCHING), kernel and request_id in one transaction. InvalidArgument (reason
  // REQUEST_ID_REUSED) if the request_id was used with another body within 7 days; NotFound if the kernel is neither
  // given nor stored; AlreadyExists for a uid that another job has; ResourceExhausted (KERNEL_QUOTA) for the kernel.
  virtual absl::StatusOr<SubmitResult> SubmitJob(const SubmitRequest& request) = 0;
  virtual absl::StatusOr<JobRow> GetJob(int64_t job_id) = 0;
  // Newest first; no states: all. With a label or a submitter it costs what jobs have that; otherwise up to a look
  // at each job, where few are of the states and the kernel.
  virtual absl::StatusOr<Page<JobRow>> ListJobs(const std::vector<JobState>& states, const PageRequest& page,
                                                const JobFilter& filter = {}) = 0;
  // Terminal jobs that ended before, oldest id first, from after_job_id on; without studies.
  virtual absl::StatusOr<std::vector<JobRow>> EndedJobs(int64_t ended_before_ms, int64_t after_job_id, int limit) = 0;
  // Of those that exist, by id. At most 10,000.
  virtual absl::StatusOr<std::vector<JobStateRow>> JobStates(const std::vector<int64_t>& job_ids) = 0;
  // FailedPrecondition if the job's state is not one of `from`, or terminal: a job never leaves its end. Ending a job
  // ends its studies and removes READY units and priors; units in an agent's hands may still be reported. driver_epoch
  // as in DriveStep.
  virtual absl::Status SetJobState(int64_t job_id, const std::vector<JobState>& from, JobState to,
                                   std::string_view reason, int64_t now_ms, int64_t driver_epoch = 0) = 0;
  // Up to jobs_max jobs that have not ended and that no living node drives become the node's, under a new epoch; the
  // oldest first. Of those named in `except` only what is being cancelled. FailedPrecondition (NODE_LEASE) unless the
  // node lives.
  virtual absl::StatusOr<std::vector<DrivenJob>> AdoptJobs(std::string_view node, int jobs_max,
                                                           const std::vector<int64_t>& except = {}) = 0;
  // Nobody drives the job any more, if the epoch is its current one.
  virtual absl::Status YieldJob(int64_t job_id, int64_t driver_epoch) = 0;
  // FailedPrecondition unless the job is terminal. Bests stay, and so does the trial of each that the job has won, with
  // its log and samples, under the name it had: GetTrial finds it. A large job goes in parts, between which others may
  // write; after a crash in between it is still there with fewer trials, and can be deleted again.
  virtual absl::Status DeleteJob(int64_t job_id) = 0;
};

}  // namespace tunefarm
