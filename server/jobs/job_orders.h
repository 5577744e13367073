// JobOrders: what people order of a job. An order is stored on the thread of its caller, which waits for the commit
// that is under way and for its own, and for no step of a job. It is shown on the board from then on; the scheduler
// acts on it before its next step.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/base/clock.h"
#include "server/jobs/job_board.h"
#include "server/store/job_rows.h"
#include "server/store/store.h"

namespace tunefarm {

class JobOrders {
 public:
  // All outlive it.
  JobOrders(Store* store, Clock* clock, JobBoard* board) : store_(store), clock_(clock), board_(board) {}

  // FailedPrecondition (JOB_STATE), NotFound, or the store's errors.
  absl::Status Cancel(int64_t job_id);
  absl::Status Pause(int64_t job_id);
  absl::Status Resume(int64_t job_id);
  // A RUNNING job, for want of space.
  absl::Status PauseFor(int64_t job_id, const std::string& reason);

 private:
  absl::Status Change(int64_t job_id, const std::vector<JobState>& from, JobState to, std::string_view verb,
                      const std::string& reason = "");

  Store* const store_;
  Clock* const clock_;
  JobBoard* const board_;
};

}  // namespace tunefarm
