// Jobs in their public form, as they are stored or as the scheduler has them. Thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/records/kernel_registry.h"
#include "server/store/job_rows.h"
#include "server/store/store.h"
#include "tunefarm/v1/job.pb.h"

namespace tunefarm {

class Scheduler;

// The job as it is now: the scheduler's where it is active here, else the stored one. NotFound (JOB_NOT_FOUND), and the
// errors of StoredJob.
absl::StatusOr<tunefarm::v1::Job> FindJob(Store* store, KernelRegistry* kernels, const Scheduler& scheduler,
                                          int64_t job_id);

// The store's NotFound with the name that the client used (JOB_NOT_FOUND); any other status as it is.
absl::Status WithJobName(const absl::Status& status, std::string_view name);

// With studies, their incumbents and bests; trials that are damaged are left out. DataLoss if the job, a study or its
// best cannot be read, else the store's errors.
absl::StatusOr<tunefarm::v1::Job> StoredJob(Store* store, KernelRegistry* kernels, const JobRow& row);

// State, counts and summary, without studies. `look_ups_left`: of how many studies at most, none of which has come to
// its end, the times may be looked up one by one; less what was. The summary leaves out the others.
absl::StatusOr<tunefarm::v1::Job> StoredJobSummary(Store* store, KernelRegistry* kernels, const JobRow& row,
                                                   int* look_ups_left);

// Files the row's reason where its state says that it belongs: error or state_reason.
void SetReason(const JobRow& row, tunefarm::v1::Job* job);

}  // namespace tunefarm
