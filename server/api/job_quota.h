// JobQuota: how many active jobs each certificate or token has, and may have.
//
// Threads: all methods from any thread. Counts what was submitted here, and counts all active jobs again where that
// says too many, at most once a second: jobs end, and other daemons of the farm take some too.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "server/access/principal.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/store/store.h"

namespace tunefarm {

class JobQuota {
 public:
  // Both outlive it. jobs_max 0: no limit.
  JobQuota(Store* store, int jobs_max, Clock* clock) : store_(store), jobs_max_(jobs_max), clock_(clock) {}

  // ResourceExhausted (JOB_QUOTA), with retry_after_ms in its metadata, where the principal has as many as it may; the
  // store's errors.
  absl::Status Check(const Principal& principal) LOCKS_EXCLUDED(mutex_);
  void Submitted(const Principal& principal) LOCKS_EXCLUDED(mutex_);

 private:
  absl::Status Recount() EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Store* const store_;
  const int jobs_max_;
  Clock* const clock_;
  Mutex mutex_;
  std::optional<MonotonicTime> counted_at_ GUARDED_BY(mutex_);
  std::unordered_map<std::string, int> active_ GUARDED_BY(mutex_);  // by name
};

}  // namespace tunefarm
