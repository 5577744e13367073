#include "server/records/trial_rows.h"

#include <algorithm>
#include <cmath>

#include "server/base/status.h"
#include "server/measure/kept_samples.h"

namespace tunefarm {

TrialRow RowOfTrial(int64_t study_id, const std::string& config, const tunefarm::v1::Trial& trial) {
  TrialRow row;
  row.study_id = study_id;
  row.ordinal = trial.ordinal();
  row.attempt = std::max(1, trial.attempt());
  row.outcome = trial.outcome();
  row.purpose = trial.purpose();
  row.config = config;
  const double median = trial.measurement().median_ns();
  row.median_ns = std::isfinite(median) && median > 0 ? median : 0;
  row.device_uuid = trial.device_uuid();
  row.log = trial.log();
  row.ended_at_ms = trial.ended_at_ms();
  const bool keep =
      trial.purpose() != tunefarm::v1::TRIAL_PURPOSE_SEARCH || trial.outcome() != tunefarm::v1::OUTCOME_OK;
  if (keep && trial.measurement().sample_ns_size() > 0) {
    row.samples = KeptSamples(trial.measurement()).SerializeAsString();
  }
  if (trial.name().empty() && trial.log().empty() && trial.measurement().sample_ns_size() == 0) {
    row.detail = trial.SerializeAsString();
    return row;
  }
  tunefarm::v1::Trial detail = trial;
  detail.clear_name();
  detail.clear_log();
  if (detail.has_measurement()) DropSamples(detail.mutable_measurement());
  row.detail = detail.SerializeAsString();
  return row;
}

absl::StatusOr<tunefarm::v1::Trial> TrialOfRow(const TrialRow& row) {
  tunefarm::v1::Trial trial;
  if (!trial.ParseFromString(row.detail) || trial.ordinal() != row.ordinal) {
    return DataLoss("the stored trial {} of study {} cannot be read", row.ordinal, row.study_id);
  }
  trial.set_log(row.log);
  if (!row.samples.empty()) {
    tunefarm::v1::Measurement samples;
    if (!samples.ParseFromString(row.samples)) {
      return DataLoss("the stored samples of trial {} of study {} cannot be read", row.ordinal, row.study_id);
    }
    SetKeptSamples(samples, trial.mutable_measurement());
  }
  return trial;
}

void AddToPage(const TrialRow& row, std::string name, tunefarm::v1::ListTrialsResponse* page) {
  absl::StatusOr<tunefarm::v1::Trial> trial = TrialOfRow(row);
  if (!trial.ok()) {
    page->set_unreadable(page->unreadable() + 1);
    return;
  }
  trial->set_name(std::move(name));
  *page->add_trials() = *std::move(trial);
}

absl::StatusOr<std::vector<tunefarm::agent::v1::TrialSpec>> SpecsOfUnit(const UnitRow& row) {
  tunefarm::agent::v1::Assignment payload;
  bool is_whole =
      payload.ParseFromString(row.payload) && row.trial_count > 0 && payload.trials_size() == row.trial_count;
  for (int i = 0; is_whole && i < row.trial_count; ++i) is_whole = payload.trials(i).ordinal() == row.first_ordinal + i;
  if (!is_whole) return DataLoss("the stored work unit {} of study {} cannot be read", row.unit_id, row.study_id);
  return std::vector<tunefarm::agent::v1::TrialSpec>(payload.trials().begin(), payload.trials().end());
}

}  // namespace tunefarm
