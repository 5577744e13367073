// Jobs and trials as they are stored, in their public form: what is shown of jobs that no driver holds. Thread-safe.
#pragma once

#include "absl/status/statusor.h"
#include "server/records/kernel_registry.h"
#include "server/store/store.h"
#include "tunefarm/v1/job.pb.h"

namespace tunefarm {

// With studies, their incumbents and bests. DataLoss if it cannot be read, else the store's errors.
absl::StatusOr<tunefarm::v1::Job> StoredJob(Store* store, KernelRegistry* kernels, const JobRow& row);

// State and counts only.
absl::StatusOr<tunefarm::v1::Job> StoredJobSummary(Store* store, const JobRow& row);

// Files the row's reason where its state says that it belongs: error or state_reason.
void SetReason(const JobRow& row, tunefarm::v1::Job* job);

}  // namespace tunefarm
