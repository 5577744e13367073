// Trials, and the units that propose them, between their messages and the store's rows. What a row says is checked: a
// damaged database is DataLoss. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/store/job_rows.h"
#include "tunefarm/agent/v1/agent.pb.h"
#include "tunefarm/v1/trial.pb.h"
#include "tunefarm/v1/tuning_service.pb.h"

namespace tunefarm {

// The row of a trial of a study. `config` is its canonical text, empty for a baseline. Samples are kept for finals,
// baselines and failures; the log always.
TrialRow RowOfTrial(int64_t study_id, const std::string& config, const tunefarm::v1::Trial& trial);

// With log and samples as far as the row has them, without a name. DataLoss if it cannot be read, or is that of another
// ordinal.
absl::StatusOr<tunefarm::v1::Trial> TrialOfRow(const TrialRow& row);

// Adds the trial to a page of a list under `name`. A row that cannot be read is left out and counted: one damaged row
// does not hide the others.
void AddToPage(const TrialRow& row, std::string name, tunefarm::v1::ListTrialsResponse* page);

// The trials of a unit, by ordinal: all of its range. DataLoss if they cannot be read, or are others.
absl::StatusOr<std::vector<tunefarm::agent::v1::TrialSpec>> SpecsOfUnit(const UnitRow& row);

}  // namespace tunefarm
