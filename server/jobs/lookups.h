// Questions to the catalog as the public API asks them: names and messages in, answers out. Thread-safe.
#pragma once

#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/catalog/catalog.h"
#include "server/jobs/device_directory.h"
#include "server/jobs/kernel_registry.h"
#include "tunefarm/v1/lookup_service.pb.h"

namespace tunefarm {

inline constexpr int kBatchMax = 10'000;

struct LookupContext {
  KernelRegistry* kernels = nullptr;
  const DeviceDirectory* devices = nullptr;
  const Catalog* catalog = nullptr;
  Clock* clock = nullptr;
};

absl::StatusOr<tunefarm::v1::LookupConfigResponse> LookupConfig(const LookupContext& context,
                                                                const tunefarm::v1::LookupConfigRequest& request);
absl::StatusOr<tunefarm::v1::BatchLookupConfigsResponse> LookupConfigs(
    const LookupContext& context, const tunefarm::v1::BatchLookupConfigsRequest& request);

}  // namespace tunefarm
