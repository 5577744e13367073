// A stored best as the API shows it. Pure.
#pragma once

#include "absl/status/statusor.h"
#include "server/store/best_store.h"
#include "tunefarm/v1/best_config.pb.h"

namespace tunefarm {

// With revision, pin and note, which are the row's. DataLoss for a detail that is no BestConfig.
absl::StatusOr<tunefarm::v1::BestConfig> BestOfRow(const BestRow& row);

}  // namespace tunefarm
