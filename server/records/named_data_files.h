// Which data files the stored kernels name: those stay.
#pragma once

#include <string>
#include <unordered_set>

#include "absl/status/statusor.h"
#include "server/store/kernel_store.h"

namespace tunefarm {

// Digests. Reads all definitions, page by page; any thread. A kernel of which a job has not ended cannot be deleted, so
// that these are the files of jobs, too. The store's errors.
absl::StatusOr<std::unordered_set<std::string>> NamedDataFiles(KernelStore* kernels);

}  // namespace tunefarm
