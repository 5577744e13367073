// What people order of a job: its cancellation, a pause, and that it goes on.

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/jobs/driver.h"
#include "server/jobs/job_view.h"
#include "server/records/resource_names.h"

namespace tunefarm {

absl::Status Driver::ChangeState(int64_t job_id, const std::vector<JobState>& from, JobState to, std::string_view verb,
                                 const std::string& reason) {
  Active* job = FindActive(job_id);
  // A claim may have made it RUNNING a moment ago; the store knows.
  const absl::Status changed = deps_.store->SetJobState(job_id, from, to, reason, deps_.executor->clock()->WallMs());
  if (changed.code() == absl::StatusCode::kFailedPrecondition) {
    const auto row = deps_.store->GetJob(job_id);
    return WithReason(FailedPrecondition("{} cannot be {}: it is {}", JobName(job_id), verb,
                                         row.ok() ? NameOf(row->state) : std::string_view("not in that state")),
                      "JOB_STATE");
  }
  RETURN_IF_ERROR(changed);
  if (job != nullptr) {
    job->row.state = to;
    job->row.error = reason;
    PublishJob(*job);
  }
  return absl::OkStatus();
}

absl::Status Driver::Cancel(int64_t job_id) {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(ChangeState(job_id, {JobState::kQueued, JobState::kRunning, JobState::kPaused}, JobState::kCancelling,
                              "cancelled"));
  if (epochs_.count(job_id) == 0) return absl::OkStatus();  // its driver sees it
  deps_.link->Cancel(job_id);
  FinishCancel(job_id);
  return absl::OkStatus();
}

void Driver::FinishCancel(int64_t job_id) {
  if (epochs_.count(job_id) == 0) return;
  // The store knows of units with agents of all daemons.
  const auto rows = deps_.store->JobStates({job_id});
  if (!rows.ok()) {
    FinishCancelLater(job_id);
    return;
  }
  if (rows->empty() || rows->front().state != JobState::kCancelling || rows->front().claimed_units > 0) return;
  EndJob(job_id, JobState::kCancelled, "");
}

absl::Status Driver::Pause(int64_t job_id) {
  // Under one lock, here and in Resume: the link must see two requests in the order in which the store does.
  MutexLock lock(&mutex_);
  std::vector<JobState> from = {JobState::kQueued, JobState::kRunning};
  // Paused for want of space: from now on because somebody wants it.
  const Active* job = FindActive(job_id);
  if (job != nullptr && job->row.state == JobState::kPaused && !job->row.error.empty()) {
    from.push_back(JobState::kPaused);
  }
  RETURN_IF_ERROR(ChangeState(job_id, from, JobState::kPaused, "paused"));
  if (epochs_.count(job_id) > 0) deps_.link->Hold(job_id);
  // What stands still takes nobody's place.
  if (backlog_.IsWaiting(job_id)) parked_.insert(job_id);
  backlog_.Remove(job_id);
  DriveNext();
  return absl::OkStatus();
}

absl::Status Driver::Resume(int64_t job_id) {
  MutexLock lock(&mutex_);
  if (!suspended_.empty()) {
    return WithReason(ResourceExhausted("{} cannot go on: {}", JobName(job_id), suspended_), "LOW_SPACE");
  }
  return TakeUpPaused(job_id);
}

}  // namespace tunefarm
