// What a claim's trials need not run for: configs that are known to crash or that agents were lost with, those that
// were measured before, and what is left of a final that another device has begun.

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/farm/control_link.h"
#include "server/records/measured_key.h"
#include "server/records/resource_names.h"
#include "server/records/trial_rows.h"

namespace tunefarm {

namespace wire = tunefarm::agent::v1;
using tunefarm::v1::Trial;

absl::Status ControlLink::FilterPoisoned(Claim* claim, const tunefarm::v1::Job& spec) {
  if (spec.retry_poisoned()) return absl::OkStatus();
  std::set<int64_t> known;
  for (const wire::TrialSpec& trial_spec : claim->assignment.trials()) {
    if (trial_spec.purpose() == tunefarm::v1::TRIAL_PURPOSE_BASELINE) continue;
    ASSIGN_OR_RETURN(const std::string text, ConfigText(*claim, trial_spec));
    ASSIGN_OR_RETURN(const bool is_poisoned, poison_->IsPoisoned(claim->poison, text));
    if (is_poisoned) known.insert(trial_spec.ordinal());
  }
  if (known.empty()) return absl::OkStatus();
  std::vector<Trial> poisoned;
  wire::Assignment kept = claim->WithoutTrials().assignment;
  for (const wire::TrialSpec& trial_spec : claim->assignment.trials()) {
    if (known.count(trial_spec.ordinal()) == 0) {
      *kept.add_trials() = trial_spec;
      continue;
    }
    Trial trial;
    trial.set_ordinal(trial_spec.ordinal());
    trial.set_purpose(trial_spec.purpose());
    trial.set_attempt(trial_spec.attempt());
    trial.set_outcome(tunefarm::v1::OUTCOME_POISONED);
    *trial.mutable_config() = trial_spec.config();
    trial.set_device_uuid(claim->assignment.device_uuid());
    trial.set_message("not run: it crashed or hung before; submit with retry_poisoned to run it again");
    trial.set_problem_key(claim->problem_key);
    trial.set_ended_at_ms(clock_->WallMs());
    poisoned.push_back(std::move(trial));
  }
  return StoreWithoutRun(claim, std::move(poisoned), std::move(kept));
}

absl::Status ControlLink::FilterLost(Claim* claim, const tunefarm::v1::Job& spec) {
  const int losses_max = spec.agent_losses_max() > 0 ? spec.agent_losses_max() : kAgentLossesMax;
  if (claim->losses < losses_max) return absl::OkStatus();
  std::vector<Trial> poisoned;
  for (const wire::TrialSpec& trial_spec : claim->assignment.trials()) {
    Trial trial;
    trial.set_ordinal(trial_spec.ordinal());
    trial.set_purpose(trial_spec.purpose());
    trial.set_attempt(trial_spec.attempt());
    trial.set_outcome(tunefarm::v1::OUTCOME_POISONED);
    if (trial_spec.purpose() != tunefarm::v1::TRIAL_PURPOSE_BASELINE) *trial.mutable_config() = trial_spec.config();
    trial.set_device_uuid(claim->assignment.device_uuid());
    trial.set_message(fmt::format("not run again: {} agents were lost with it in hand", claim->losses));
    trial.set_problem_key(claim->problem_key);
    trial.set_ended_at_ms(clock_->WallMs());
    if (claim->kind == UnitKind::kSearch) {
      ASSIGN_OR_RETURN(const std::string text, ConfigText(*claim, trial));
      RETURN_IF_ERROR(poison_->Record(claim->poison, text, tunefarm::v1::OUTCOME_RUN_CRASH));
    }
    LogWarn("jobs", "trial {} of study {} is not run again: {} agents were lost with it in hand", trial.ordinal(),
            claim->study_id, claim->losses);
    poisoned.push_back(std::move(trial));
  }
  wire::Assignment kept = claim->assignment;
  kept.clear_trials();
  return StoreWithoutRun(claim, std::move(poisoned), std::move(kept));
}

absl::Status ControlLink::FilterMeasured(Claim* claim) {
  if (claim->measured_scope.empty() || claim->assignment.policy().no_reuse()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const bool has_others, other_studies_.Exist(claim->study_id, claim->poison.program_digest,
                                                               claim->problem_key, claim->poison.class_id));
  if (!has_others) return absl::OkStatus();
  std::vector<std::string> keys;
  for (const wire::TrialSpec& spec : claim->assignment.trials()) {
    ASSIGN_OR_RETURN(const std::string text, ConfigText(*claim, spec));
    keys.push_back(MeasuredKey(claim->measured_scope, text));
  }
  ASSIGN_OR_RETURN(const auto found, store_->FindMeasured(keys));
  if (std::none_of(found.begin(), found.end(), [](const auto& row) { return row.has_value(); })) {
    return absl::OkStatus();
  }
  wire::Assignment kept = claim->WithoutTrials().assignment;
  std::vector<Trial> measured;
  for (size_t i = 0; i < found.size(); ++i) {
    const wire::TrialSpec& spec = claim->assignment.trials(static_cast<int>(i));
    if (!found[i].has_value()) {
      *kept.add_trials() = spec;
      continue;
    }
    const MeasuredRow& row = *found[i];
    ASSIGN_OR_RETURN(const Trial earlier, TrialOfRow(row.trial));
    // The one that ran: it may itself have got the verdict of another one of its study.
    const int64_t ordinal = earlier.reused() ? earlier.reused_ordinal() : row.trial.ordinal;
    Trial trial = TakenOver(earlier, TrialNameOf(row.job_id, row.study_number, ordinal));
    trial.set_ordinal(spec.ordinal());
    trial.set_purpose(spec.purpose());
    trial.set_attempt(spec.attempt());
    *trial.mutable_config() = spec.config();
    trial.set_problem_key(claim->problem_key);
    trial.set_ended_at_ms(clock_->WallMs());
    measured.push_back(std::move(trial));
  }
  return StoreWithoutRun(claim, std::move(measured), std::move(kept));
}

absl::Status ControlLink::FilterBegunFinal(Claim* claim, const std::vector<std::string>& present_devices) {
  const std::string& own = claim->assignment.device_uuid();
  if (claim->kind != UnitKind::kFinals ||
      std::all_of(present_devices.begin(), present_devices.end(), [&](const auto& device) { return device == own; })) {
    return absl::OkStatus();
  }
  std::vector<Trial> left;
  for (const wire::TrialSpec& spec : claim->assignment.trials()) {
    Trial trial;
    trial.set_ordinal(spec.ordinal());
    trial.set_purpose(spec.purpose());
    trial.set_attempt(spec.attempt());
    if (spec.purpose() != tunefarm::v1::TRIAL_PURPOSE_BASELINE) *trial.mutable_config() = spec.config();
    trial.set_outcome(tunefarm::v1::OUTCOME_LOST);
    trial.set_message("not run: the device that had begun the final was lost, and times of two devices do not compare");
    trial.set_device_uuid(own);
    trial.set_problem_key(claim->problem_key);
    trial.set_ended_at_ms(clock_->WallMs());
    left.push_back(std::move(trial));
  }
  wire::Assignment kept = claim->assignment;
  kept.clear_trials();
  return StoreWithoutRun(claim, std::move(left), std::move(kept));
}

absl::Status ControlLink::StoreWithoutRun(Claim* claim, std::vector<Trial> trials, wire::Assignment kept) {
  if (trials.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const ReportVerdict verdict, StoreTrials(*claim, trials, After::kGoesOn));
  if (verdict == ReportVerdict::kStale) return Aborted("another agent owns it now");
  claim->assignment = std::move(kept);
  hooks_.reported(claim->study_id, claim->unit_id, std::move(trials), false);
  return absl::OkStatus();
}

}  // namespace tunefarm
