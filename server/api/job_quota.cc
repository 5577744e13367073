#include "server/api/job_quota.h"

#include <chrono>
#include <utility>

#include "server/base/format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/records/resource_names.h"
#include "server/store/job_store.h"
#include "tunefarm/v1/job.pb.h"

namespace tunefarm {
namespace {

constexpr Duration kCountAgainAfter = std::chrono::seconds(1);
constexpr Duration kCountsOldAfter = std::chrono::minutes(1);
// A stored job is adopted at once, here or by another node; after so long it is none of this scheduler's.
constexpr Duration kAdoptedAfter = std::chrono::seconds(10);

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

absl::Status JobQuota::CheckPrincipal(const Principal& principal) {
  if (limits_.jobs_per_principal_max <= 0) return absl::OkStatus();
  const MonotonicTime now = clock_->Now();
  const auto has = [&]() EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto active = active_.find(principal.name);
    const auto taken = taken_.find(principal.name);
    return (active == active_.end() ? 0 : active->second) + (taken == taken_.end() ? 0 : taken->second);
  };
  if (!counted_at_ || now - *counted_at_ >= kCountsOldAfter ||
      (has() >= limits_.jobs_per_principal_max && now - *counted_at_ >= kCountAgainAfter)) {
    RETURN_IF_ERROR(Recount());
  }
  if (has() < limits_.jobs_per_principal_max) return absl::OkStatus();
  return WithMetadata(WithReason(ResourceExhausted("{} has {}, as many as it may (max_jobs_per_principal); "
                                                   "try again when one has ended",
                                                   principal.Text(), FormatCount(has(), "active job")),
                                 "JOB_QUOTA"),
                      "retry_after_ms", "1000");
}

bool JobQuota::HasEnded(int64_t job_id) const {
  const absl::StatusOr<JobRow> row = store_->jobs()->GetJob(job_id);
  return row.ok() ? IsTerminal(row->state) : absl::IsNotFound(row.status());
}

int JobQuota::All() { return scheduler_->active_jobs() + static_cast<int>(stored_.size()) + all_taken_; }

absl::Status JobQuota::CheckAll() {
  const MonotonicTime now = clock_->Now();
  while (!stored_.empty() && now - stored_.front().at >= kAdoptedAfter) stored_.pop_front();
  // A job that is adopted between the two counts twice, so that the first answer may be wrong.
  for (int i = 0; i < 3 && All() >= limits_.active_jobs_max; ++i) {
    std::erase_if(stored_,
                  [this](const StoredJob& job) { return scheduler_->Drives(job.job_id) || HasEnded(job.job_id); });
  }
  if (const int all = All(); all >= limits_.active_jobs_max) {
    return WithReason(
        ResourceExhausted("{} active, no more are taken until one ends", FormatCount(all, "job is", "jobs are")),
        "TOO_MANY_JOBS");
  }
  return absl::OkStatus();
}

absl::StatusOr<JobQuota::Place> JobQuota::Take(const Principal* principal) {
  MutexLock lock(&mutex_);
  if (principal != nullptr) RETURN_IF_ERROR(CheckPrincipal(*principal));
  RETURN_IF_ERROR(CheckAll());
  ++all_taken_;
  if (principal != nullptr) ++taken_[principal->name];
  return Place(this, principal == nullptr ? "" : principal->name);
}

void JobQuota::Return(const std::string& owner, std::optional<int64_t> stored_job) {
  MutexLock lock(&mutex_);
  --all_taken_;
  if (stored_job.has_value()) stored_.push_back({*stored_job, clock_->Now()});
  if (owner.empty()) return;
  if (stored_job.has_value()) ++active_[owner];
  const auto taken = taken_.find(owner);
  if (--taken->second == 0) taken_.erase(taken);
}

JobQuota::Place::Place(Place&& other) noexcept
    : quota_(std::exchange(other.quota_, nullptr)), owner_(std::move(other.owner_)) {}

JobQuota::Place::~Place() {
  if (quota_ != nullptr) quota_->Return(owner_, std::nullopt);
}

void JobQuota::Place::Stored(int64_t job_id) { std::exchange(quota_, nullptr)->Return(owner_, job_id); }

}  // namespace tunefarm
