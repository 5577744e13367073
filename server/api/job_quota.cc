#include "server/api/job_quota.h"

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/records/resource_names.h"
#include "server/store/job_store.h"
#include "tunefarm/v1/job.pb.h"

namespace tunefarm {
namespace {

constexpr Duration kCountAgainAfter = std::chrono::seconds(1);
constexpr Duration kCountsOldAfter = std::chrono::minutes(1);

}  // namespace

absl::Status JobQuota::Recount() {
  active_.clear();
  std::string token;
  do {
    ASSIGN_OR_RETURN(const Page<JobRow> page, store_->jobs()->ListJobs({JobState::kQueued, JobState::kRunning,
                                                                        JobState::kPaused, JobState::kCancelling},
                                                                       {1000, token}));
    for (const JobRow& row : page.rows) {
      v1::Job job;
      if (!job.ParseFromString(row.spec)) {
        return DataLoss("the stored request of {} cannot be read", JobName(row.job_id));
      }
      if (!job.submitted_by().empty()) ++active_[job.submitted_by()];
    }
    token = page.next_page_token;
  } while (!token.empty());
  counted_at_ = clock_->Now();
  return absl::OkStatus();
}

absl::Status JobQuota::Check(const Principal& principal) {
  if (jobs_max_ <= 0) return absl::OkStatus();
  MutexLock lock(&mutex_);
  const MonotonicTime now = clock_->Now();
  if (!counted_at_ || now - *counted_at_ >= kCountsOldAfter ||
      (active_[principal.name] >= jobs_max_ && now - *counted_at_ >= kCountAgainAfter)) {
    RETURN_IF_ERROR(Recount());
  }
  const auto count = active_.find(principal.name);
  if (count == active_.end() || count->second < jobs_max_) return absl::OkStatus();
  return WithMetadata(WithReason(ResourceExhausted("{} has {} active jobs, as many as it may (max_jobs_per_principal); "
                                                   "try again when one has ended",
                                                   principal.Text(), count->second),
                                 "JOB_QUOTA"),
                      "retry_after_ms", "1000");
}

void JobQuota::Submitted(const Principal& principal) {
  if (jobs_max_ <= 0) return;
  MutexLock lock(&mutex_);
  ++active_[principal.name];
}

}  // namespace tunefarm
