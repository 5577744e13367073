// Trials between their public form and the store's rows. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "server/store/store.h"
#include "tunefarm/v1/trial.pb.h"

namespace tunefarm {

// The row of a trial of a study. `config` is its canonical text, empty for a baseline. Samples are kept for finals,
// baselines and failures; the log always.
TrialRow RowOfTrial(int64_t study_id, const std::string& config, const tunefarm::v1::Trial& trial);

// With log and samples as far as the row has them, without a name. DataLoss if it cannot be read.
absl::StatusOr<tunefarm::v1::Trial> TrialOfRow(const TrialRow& row);

}  // namespace tunefarm
