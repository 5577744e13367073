#include "server/jobs/job_orders.h"

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/records/resource_names.h"
#include "server/store/job_store.h"

namespace tunefarm {

absl::Status JobOrders::Change(int64_t job_id, const std::vector<JobState>& from, JobState to, std::string_view verb,
                               const std::string& reason) {
  const absl::Status changed = store_->jobs()->SetJobState(job_id, from, to, reason, clock_->WallMs());
  if (changed.code() == absl::StatusCode::kFailedPrecondition) {
    const auto row = store_->jobs()->GetJob(job_id);
    return WithReason(FailedPrecondition("{} cannot be {}: its state is {}", JobName(job_id), verb,
                                         row.ok() ? NameOf(row->state) : std::string_view("another one")),
                      "JOB_STATE");
  }
  RETURN_IF_ERROR(changed);
  board_->Order(job_id, to, reason);
  return absl::OkStatus();
}

absl::Status JobOrders::Cancel(int64_t job_id) {
  return Change(job_id, {JobState::kQueued, JobState::kRunning, JobState::kPaused}, JobState::kCancelling, "cancelled");
}

absl::Status JobOrders::Pause(int64_t job_id) {
  std::vector<JobState> from = {JobState::kQueued, JobState::kRunning};
  // Paused for want of space: from now on because somebody wants it.
  const auto shown = board_->Find(job_id, false);
  if (shown.has_value() && shown->state() == tunefarm::v1::JOB_STATE_PAUSED && !shown->state_reason().empty()) {
    from.push_back(JobState::kPaused);
  }
  return Change(job_id, from, JobState::kPaused, "paused");
}

absl::Status JobOrders::PauseFor(int64_t job_id, const std::string& reason) {
  return Change(job_id, {JobState::kRunning}, JobState::kPaused, "paused", reason);
}

absl::Status JobOrders::Resume(int64_t job_id) {
  const auto row = store_->jobs()->GetJob(job_id);
  RETURN_IF_ERROR(row.status());
  const JobState to = row->started_at_ms > 0 ? JobState::kRunning : JobState::kQueued;
  return Change(job_id, {JobState::kPaused}, to, "resumed");
}

}  // namespace tunefarm
