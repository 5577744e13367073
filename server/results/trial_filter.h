// Filters of trials as clients write them. Pure.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "server/analysis/selection.h"
#include "tunefarm/v1/trial.pb.h"

namespace tunefarm {

// `start_ms`: when the study began. InvalidArgument (FILTER_INVALID) with the field and its value for a purpose other
// than SEARCH, a parameter that no trial has, a limit that is no number, and more than a message says that there may
// be. Of a study without trials no parameter is known yet, and none is refused.
absl::StatusOr<TrialConditions> ConditionsOf(const v1::TrialFilter& filter, const StudyColumns& columns,
                                             int64_t start_ms);

}  // namespace tunefarm
