// Retention: keeps the database within its bounds. Logs and samples of trials go first, then whole jobs, the oldest
// first; jobs with a label, jobs that have not ended, bests and the trials that bests stand on are never taken. Kernels
// go that no job, best or counted miss refers to and that were submitted last a week ago, or an hour ago where the
// database is near its bound. Runs of distributed programs go 30 days after they were used last, each with all that it
// agreed on.
//
// Threads: RunOnce on one thread at a time, which it may hold for long: give it an executor of its own. The rest from
// any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "server/base/executor.h"
#include "server/base/mutex.h"
#include "server/store/store.h"

namespace tunefarm {

struct RetentionPolicy {
  int64_t keep_logs_days = 0;      // logs and samples of jobs that ended before are removed; 0: by size only
  int64_t keep_jobs_days = 0;      // jobs that ended before are removed; 0: by size only
  int64_t database_bytes_max = 0;  // removing begins at nine tenths of it and ends at eight; 0: no bound
};

// Since the start.
struct RetentionStats {
  std::atomic<int64_t> jobs_deleted{0};
  std::atomic<int64_t> trial_data_deleted{0};  // logs and samples
  std::atomic<int64_t> kernels_deleted{0};
};

class Retention : public std::enable_shared_from_this<Retention> {
 public:
  // Both outlive it.
  Retention(Store* store, Executor* executor, const RetentionPolicy& policy)
      : store_(store), executor_(executor), policy_(policy) {}

  // Once now and then every ten minutes, on the executor, until Stop.
  void Start();
  // What is under way ends at its next step.
  void Stop() LOCKS_EXCLUDED(mutex_);

  // One pass. The store's errors; what was removed before stays removed.
  absl::Status RunOnce();

  const RetentionStats& stats() const { return stats_; }

 private:
  void RunLater(Duration delay) LOCKS_EXCLUDED(mutex_);
  // Until used bytes are at most this many, or there is nothing left to take; negative: all that ended before.
  absl::Status PruneTrialData(int64_t ended_before_ms, int64_t used_bytes_wanted);
  absl::Status DeleteJobs(int64_t ended_before_ms, int64_t used_bytes_wanted);
  absl::Status DeleteKernels(int64_t submitted_before_ms);
  absl::Status DeleteRuns(int64_t used_before_ms);
  // True if that many are used or fewer.
  absl::StatusOr<bool> FitsInto(int64_t used_bytes_wanted);

  Store* const store_;
  Executor* const executor_;
  const RetentionPolicy policy_;
  RetentionStats stats_;
  std::atomic<bool> stopped_{false};

  Mutex mutex_;
  TimerId timer_ GUARDED_BY(mutex_) = 0;
};

}  // namespace tunefarm
