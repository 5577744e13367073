// A copy of the catalog in a file of this daemon's own, so that a node of a farm that starts while the database is away
// can answer look-ups. It is a cache: nothing is lost with it, and what cannot be read is not used.
//
// The file is replaced whole, by renaming; its first line names the format, and a checksum covers the rest.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/catalog/catalog.h"
#include "server/records/kernel_registry.h"
#include "tunefarm/jobs/v1/local_copy.pb.h"

namespace tunefarm {

// What is in memory now, without catalog_id and agreed_at_ms.
tunefarm::jobs::v1::LocalCopy MakeLocalCopy(const Catalog& catalog, KernelRegistry* kernels);
// Into memory, in the place of what is there. DataLoss for what cannot be read.
absl::Status RestoreLocalCopy(const tunefarm::jobs::v1::LocalCopy& copy, Catalog* catalog, KernelRegistry* kernels);

// At most 1 GiB: ResourceExhausted. The file system's errors.
absl::Status WriteLocalCopy(const std::string& path, const tunefarm::jobs::v1::LocalCopy& copy);
// NotFound; DataLoss for a file that is damaged or none of this program's.
absl::StatusOr<tunefarm::jobs::v1::LocalCopy> ReadLocalCopy(const std::string& path);

}  // namespace tunefarm
