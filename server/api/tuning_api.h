// TuningApi: the calls of TuningService. Jobs are submitted, shown, watched, paused, resumed, cancelled and deleted;
// trials are shown.
//
// Thread-safe. CreateJob may build spaces and take seconds; what changes a job returns when the change is durable.
//
// Errors: InvalidArgument (NAME_INVALID, JOB_INVALID, PAGE_SIZE_INVALID, PAGE_TOKEN_INVALID), NotFound (JOB_NOT_FOUND,
// TRIAL_NOT_FOUND), Unavailable when the store does not answer (nothing was changed, repeat the call), and what stands
// at the calls.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/access/principal.h"
#include "server/api/job_quota.h"
#include "server/api/kernel_api.h"
#include "server/api/open_calls.h"
#include "server/api/study_api.h"
#include "server/base/clock.h"
#include "server/base/random.h"
#include "server/data_files/data_file_store.h"
#include "server/farm/device_directory.h"
#include "server/farm/isolation.h"
#include "server/jobs/event_hub.h"
#include "server/jobs/scheduler.h"
#include "server/nodes/node_watch.h"
#include "server/records/kernel_registry.h"
#include "server/store/store.h"
#include "tunefarm/v1/tuning_service.pb.h"

namespace tunefarm {

// What the workers can do that run this daemon's jobs.
struct WorkerAbilities {
  Isolation isolation;       // what they reach and must reach
  bool runs_python = false;  // an interpreter is configured
};

class TuningApi {
 public:
  // All outlive it.
  struct Dependencies {
    Store* store = nullptr;
    KernelRegistry* kernels = nullptr;
    const DeviceDirectory* devices = nullptr;
    Scheduler* scheduler = nullptr;
    EventHub* events = nullptr;
    NodeWatch* node_watch = nullptr;
    const OpenCalls* calls = nullptr;
    StudyApi* studies = nullptr;
    EntropySource* entropy = nullptr;
    Clock* clock = nullptr;
    DataFileStore* data_files = nullptr;  // may be null
  };

  TuningApi(const Dependencies& dependencies, WorkerAbilities abilities, const JobLimits& limits);

  // Checks everything first, then stores it in one transaction. A request_id is the principal's own: of another one it
  // says nothing. With a definition, job.kernel must be empty, and the
  // principal needs the right to submit kernels: PermissionDenied (RIGHT_MISSING). validate_only answers with the job
  // as it would be, without a name. ResourceExhausted (JOB_QUOTA, KERNEL_QUOTA, TOO_MANY_JOBS, LOW_SPACE),
  // FailedPrecondition (ISOLATION_NOT_REACHED, PYTHON_DISABLED, TRITON_MISSING), InvalidArgument (REQUEST_ID_REUSED),
  // Unavailable (DAEMON_ENDING), unless it only validates the errors of CheckDataFiles, and the errors of
  // CheckSubmission. `grant`: for the work on its spaces.
  absl::StatusOr<v1::CreateJobResponse> CreateJob(const Principal& principal, const v1::CreateJobRequest& request,
                                                  const WorkGrant& grant = {});
  absl::StatusOr<v1::GetJobResponse> GetJob(const v1::GetJobRequest& request);
  // The same from memory, for a job that is driven here; none for any other.
  std::optional<v1::GetJobResponse> GetDrivenJob(const v1::GetJobRequest& request) const;
  // Newest first, without studies.
  absl::StatusOr<v1::ListJobsResponse> ListJobs(const v1::ListJobsRequest& request);
  // The next four: FailedPrecondition (JOB_STATE) where the job's state does not allow it. ResumeJob also as CreateJob,
  // for what the job demands.
  absl::StatusOr<v1::CancelJobResponse> CancelJob(const v1::CancelJobRequest& request);
  absl::StatusOr<v1::PauseJobResponse> PauseJob(const v1::PauseJobRequest& request);
  absl::StatusOr<v1::ResumeJobResponse> ResumeJob(const v1::ResumeJobRequest& request);
  absl::StatusOr<v1::DeleteJobResponse> DeleteJob(const v1::DeleteJobRequest& request);

  // Calls `sink` with a snapshot, then with every event, one call at a time on the executor of the hub, and at last
  // `end` once: OK when the job has ended, Unavailable when the daemon stops. after_event_id: last event seen; 0 from
  // now. After a gap a snapshot comes first. Neither may block, nor call anything here. Unavailable (DAEMON_ENDING).
  absl::StatusOr<std::unique_ptr<WatchSubscription>> WatchJob(const v1::WatchJobRequest& request,
                                                              std::function<void(const v1::JobEvent&)> sink,
                                                              std::function<void(absl::Status)> end);

  // With a filter as StudyApi::ListTrials.
  absl::StatusOr<v1::ListTrialsResponse> ListTrials(const v1::ListTrialsRequest& request);
  // With its log and samples.
  absl::StatusOr<v1::GetTrialResponse> GetTrial(const v1::GetTrialRequest& request);

  // Not a public call: pauses the jobs of an earlier run that ResumeJob would refuse. For a daemon whose own agent is
  // the only one, before it serves calls. The store's errors.
  absl::Status PauseWhatCannotRun();

 private:
  absl::StatusOr<v1::Job> Submit(const v1::CreateJobRequest& request, const Principal& principal,
                                 JobQuota::Place* place, const WorkGrant& grant);
  absl::StatusOr<v1::Job> Find(int64_t job_id) const;
  absl::Status CheckLanguage(const KernelPlan& plan) const;
  // Of a device class and what its devices must answer to; both empty: of any.
  absl::Status CheckTriton(const KernelPlan& plan, const std::string& class_id, const std::string& name) const;
  absl::Status CheckMayRun(const v1::Job& job) const;

  const Dependencies deps_;
  const WorkerAbilities abilities_;
  const KernelQuota kernel_quota_;
  JobQuota quota_;
};

}  // namespace tunefarm
