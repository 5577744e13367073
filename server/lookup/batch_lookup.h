// Answers to many questions about one kernel on one device, by columns. Thread-safe.
#pragma once

#include "absl/status/statusor.h"
#include "server/lookup/lookups.h"
#include "tunefarm/v1/lookup_service.pb.h"

namespace tunefarm {

inline constexpr int kBatchMax = 10'000;

// InvalidArgument (BATCH_INVALID) for columns that do not fit each other; the errors of LookupConfig, with the row's
// number where it is one problem's.
absl::StatusOr<tunefarm::v1::BatchLookupConfigsResponse> LookupConfigs(
    const LookupContext& context, const tunefarm::v1::BatchLookupConfigsRequest& request);

}  // namespace tunefarm
