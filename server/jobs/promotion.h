// How the winner of a study's final becomes the best config of its problem.
#pragma once

#include "absl/status/status.h"
#include "server/base/clock.h"
#include "server/catalog/best_changes.h"
#include "server/catalog/catalog.h"
#include "server/farm/device_directory.h"
#include "server/jobs/study.h"
#include "tunefarm/v1/best_config.pb.h"

namespace tunefarm {

// All outlive the call.
struct PromotionTools {
  const DeviceDirectory* devices = nullptr;
  const Catalog* catalog = nullptr;
  BestChanges* bests = nullptr;
  Clock* clock = nullptr;
};

// Files the winner of the step's promotion, which must be there, and tells the study; where the best is pinned, the
// step records that. `incumbent`: the best that took part in the final; may be null. FailedPrecondition (BEST_CHANGED)
// where another node has filed a best meanwhile, which the winner has not been compared with; the store's errors.
// Thread-safe but for the study, which is the caller's.
absl::Status Promote(const PromotionTools& tools, const tunefarm::v1::BestConfig* incumbent, Study* study,
                     StudyStep* step);

}  // namespace tunefarm
