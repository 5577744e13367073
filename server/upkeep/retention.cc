#include "server/upkeep/retention.h"

#include <chrono>
#include <limits>

#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/records/resource_names.h"
#include "server/store/job_store.h"
#include "server/store/lookup_store.h"
#include "server/store/store_maintenance.h"
#include "server/store/trial_store.h"
#include "tunefarm/v1/job.pb.h"

namespace tunefarm {
namespace {

constexpr Duration kInterval = std::chrono::minutes(10);
constexpr int64_t kDayMs = int64_t{24} * 60 * 60 * 1000;
// Kernels that somebody may be about to submit a job with: as a rule, and where the database is near its bound.
constexpr int64_t kKernelGraceMs = 7 * kDayMs;
constexpr int64_t kKernelGraceNearBoundMs = kDayMs / 24;
constexpr int kRowsAtOnce = 2000;
constexpr int kJobsAtOnce = 64;
constexpr int kRunsAtOnce = 16;
constexpr int64_t kAll = std::numeric_limits<int64_t>::max();

bool IsKept(const JobRow& row) {
  tunefarm::v1::Job spec;
  // What cannot be read is nobody's to throw away unasked.
  return !spec.ParseFromString(row.spec) || !spec.label().empty();
}

}  // namespace

absl::StatusOr<bool> Retention::FitsInto(int64_t used_bytes_wanted) {
  ASSIGN_OR_RETURN(const StoreStatus status, store_->maintenance()->Status());
  return status.used_bytes <= used_bytes_wanted;
}

absl::Status Retention::PruneTrialData(int64_t ended_before_ms, int64_t used_bytes_wanted) {
  while (!stopped_.load()) {
    if (used_bytes_wanted >= 0) {
      ASSIGN_OR_RETURN(const bool fits, FitsInto(used_bytes_wanted));
      if (fits) break;
    }
    ASSIGN_OR_RETURN(const int64_t pruned, store_->trials()->PruneTrialData(ended_before_ms, kRowsAtOnce));
    if (pruned == 0) break;
    stats_.trial_data_deleted += pruned;
  }
  return absl::OkStatus();
}

absl::Status Retention::DeleteJobs(int64_t ended_before_ms, int64_t used_bytes_wanted) {
  int64_t after = 0;
  while (!stopped_.load()) {
    ASSIGN_OR_RETURN(const std::vector<JobRow> jobs, store_->jobs()->EndedJobs(ended_before_ms, after, kJobsAtOnce));
    if (jobs.empty()) break;
    for (const JobRow& job : jobs) {
      after = job.job_id;
      if (stopped_.load()) break;
      if (IsKept(job)) continue;
      if (used_bytes_wanted >= 0) {
        ASSIGN_OR_RETURN(const bool fits, FitsInto(used_bytes_wanted));
        if (fits) return absl::OkStatus();
      }
      const absl::Status deleted = store_->jobs()->DeleteJob(job.job_id);
      if (absl::IsNotFound(deleted)) continue;  // a user was faster
      RETURN_IF_ERROR(deleted);
      ++stats_.jobs_deleted;
      LogInfo("jobs", "{} deleted by retention: {}", JobName(job.job_id),
              used_bytes_wanted >= 0 ? "the database was near its bound" : "older than keep_jobs_days");
      // Its definition may be what is large.
      if (used_bytes_wanted >= 0) {
        RETURN_IF_ERROR(DeleteKernels(executor_->clock()->WallMs() - kKernelGraceNearBoundMs));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Retention::RunOnce() {
  const int64_t now_ms = executor_->clock()->WallMs();
  int64_t kernel_grace_ms = kKernelGraceMs;
  if (policy_.keep_logs_days > 0) RETURN_IF_ERROR(PruneTrialData(now_ms - policy_.keep_logs_days * kDayMs, -1));
  if (policy_.keep_jobs_days > 0) RETURN_IF_ERROR(DeleteJobs(now_ms - policy_.keep_jobs_days * kDayMs, -1));
  if (policy_.database_bytes_max > 0) {
    ASSIGN_OR_RETURN(const bool fits, FitsInto(policy_.database_bytes_max / 10 * 9));
    if (!fits) {
      kernel_grace_ms = kKernelGraceNearBoundMs;
      RETURN_IF_ERROR(DeleteKernels(now_ms - kernel_grace_ms));
      const int64_t wanted = policy_.database_bytes_max / 10 * 8;
      RETURN_IF_ERROR(PruneTrialData(kAll, wanted));
      RETURN_IF_ERROR(DeleteJobs(kAll, wanted));
    }
  }
  RETURN_IF_ERROR(DeleteRuns(now_ms - kUnusedRunDays * kDayMs));
  return DeleteKernels(now_ms - kernel_grace_ms);
}

absl::Status Retention::DeleteKernels(int64_t submitted_before_ms) {
  ASSIGN_OR_RETURN(const int64_t kernels, store_->kernels()->DeleteUnusedKernels(submitted_before_ms));
  stats_.kernels_deleted += kernels;
  return absl::OkStatus();
}

absl::Status Retention::DeleteRuns(int64_t used_before_ms) {
  while (!stopped_.load()) {
    ASSIGN_OR_RETURN(const int64_t deleted, store_->lookups()->DeleteUnusedRuns(used_before_ms, kRunsAtOnce));
    if (deleted < kRunsAtOnce) break;
  }
  return absl::OkStatus();
}

void Retention::Start() { RunLater(Duration(0)); }

void Retention::RunLater(Duration delay) {
  MutexLock lock(&mutex_);
  if (stopped_.load()) return;
  timer_ = executor_->PostAfter(delay, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr || self->stopped_.load()) return;
    const absl::Status status = self->RunOnce();
    if (!status.ok()) LogWarn("jobs", "retention stopped early and is tried again: {}", MessageOf(status));
    self->RunLater(kInterval);
  });
}

void Retention::Stop() {
  stopped_.store(true);
  MutexLock lock(&mutex_);
  executor_->Cancel(timer_);
}

}  // namespace tunefarm
