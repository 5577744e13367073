// JobQuota: how many jobs may be active: in all, and of each certificate or token. A place is taken before a job is
// checked and stored, so that calls at the same time do not get more than there are.
//
// Threads: all methods from any thread. Counts what was submitted here, and counts all active jobs of principals again
// where that says too many, at most once a second: jobs end, and other daemons of the farm take some too.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/access/principal.h"
#include "server/api/kernel_api.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/jobs/scheduler.h"
#include "server/store/store.h"

namespace tunefarm {

struct JobLimits {
  int active_jobs_max = 10'000;    // more are refused: ResourceExhausted (TOO_MANY_JOBS)
  int jobs_per_principal_max = 0;  // active at once, of each certificate or token; 0: no limit
  KernelQuota kernels;             // stored definitions
};

class JobQuota {
 public:
  // All outlive it, and it every Place.
  JobQuota(Store* store, const Scheduler* scheduler, const JobLimits& limits, Clock* clock)
      : store_(store), scheduler_(scheduler), limits_(limits), clock_(clock) {}

  // Room for one job. Given back at its end, unless the job was stored.
  class Place {
   public:
    ~Place();
    Place(Place&& other) noexcept;
    Place& operator=(Place&& other) = delete;

    // The job is stored, and counts until it ends. Once.
    void Stored(int64_t job_id);

   private:
    friend class JobQuota;
    Place(JobQuota* quota, std::string owner) : quota_(quota), owner_(std::move(owner)) {}

    JobQuota* quota_;
    std::string owner_;  // empty: none that is counted
  };

  // `principal` null: only all jobs together are counted. ResourceExhausted (JOB_QUOTA), with retry_after_ms in its
  // metadata, where the principal has as many as it may, (TOO_MANY_JOBS) where all have; the store's errors.
  absl::StatusOr<Place> Take(const Principal* principal) LOCKS_EXCLUDED(mutex_);

 private:
  struct StoredJob {
    int64_t job_id = 0;
    MonotonicTime at;
  };

  void Return(const std::string& owner, std::optional<int64_t> stored_job) LOCKS_EXCLUDED(mutex_);
  absl::Status CheckPrincipal(const Principal& principal) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckAll() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasEnded(int64_t job_id) const;
  // What is active or about to be.
  int All() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Recount() EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Store* const store_;
  const Scheduler* const scheduler_;
  const JobLimits limits_;
  Clock* const clock_;
  Mutex mutex_;
  std::optional<MonotonicTime> counted_at_ GUARDED_BY(mutex_);
  std::unordered_map<std::string, int> active_ GUARDED_BY(mutex_);  // stored, by owner
  std::unordered_map<std::string, int> taken_ GUARDED_BY(mutex_);   // places that are out, by owner
  int all_taken_ GUARDED_BY(mutex_) = 0;
  // Oldest first: jobs that the scheduler may not have adopted yet.
  std::deque<StoredJob> stored_ GUARDED_BY(mutex_);
};

}  // namespace tunefarm
