#include "server/farm/claim_filters.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/records/measured_key.h"
#include "server/records/resource_names.h"
#include "server/records/trial_rows.h"
#include "server/store/trial_store.h"

namespace tunefarm {

namespace wire = tunefarm::agent::v1;
using tunefarm::v1::Trial;

namespace {

bool IsBaseline(const wire::TrialSpec& spec) { return spec.purpose() == tunefarm::v1::TRIAL_PURPOSE_BASELINE; }

Trial NotRun(const Claim& claim, const wire::TrialSpec& spec, tunefarm::v1::Outcome outcome, std::string_view message,
             int64_t now_ms) {
  Trial trial;
  claim.Name(spec, now_ms, &trial);
  trial.set_attempt(spec.attempt());
  trial.set_outcome(outcome);
  trial.set_device_uuid(claim.assignment.device_uuid());
  trial.set_message(std::string(message));
  return trial;
}

}  // namespace

ClaimFilters::Trials ClaimFilters::OfBegunFinal(const Claim& claim,
                                                const std::vector<std::string>& present_devices) const {
  const std::string& own = claim.assignment.device_uuid();
  Trials left;
  if (claim.kind != UnitKind::kFinals ||
      std::all_of(present_devices.begin(), present_devices.end(), [&](const auto& device) { return device == own; })) {
    return left;
  }
  for (const wire::TrialSpec& spec : claim.assignment.trials()) {
    left.push_back(
        NotRun(claim, spec, tunefarm::v1::OUTCOME_LOST,
               "not run: the device that had begun the final was lost, and times of two devices do not compare",
               clock_->WallMs()));
  }
  return left;
}

absl::StatusOr<ClaimFilters::Trials> ClaimFilters::Poisoned(const Claim& claim, const tunefarm::v1::Job& spec) {
  Trials poisoned;
  if (spec.retry_poisoned()) return poisoned;
  for (const wire::TrialSpec& trial : claim.assignment.trials()) {
    if (IsBaseline(trial)) continue;
    ASSIGN_OR_RETURN(const bool is_poisoned, poison_->IsPoisoned(claim.poison, trial.config()));
    if (!is_poisoned) continue;
    poisoned.push_back(NotRun(claim, trial, tunefarm::v1::OUTCOME_POISONED,
                              "not run: it crashed or hung before; submit with retry_poisoned to run it again",
                              clock_->WallMs()));
  }
  return poisoned;
}

absl::StatusOr<ClaimFilters::Trials> ClaimFilters::Lost(const Claim& claim, const tunefarm::v1::Job& spec) {
  Trials lost;
  const int losses_max = spec.agent_losses_max() > 0 ? spec.agent_losses_max() : kAgentLossesMax;
  if (claim.losses < losses_max) return lost;
  for (const wire::TrialSpec& trial : claim.assignment.trials()) {
    if (claim.kind == UnitKind::kSearch) {
      RETURN_IF_ERROR(poison_->Record(claim.poison, trial.config(), tunefarm::v1::OUTCOME_RUN_CRASH));
    }
    LogWarn("jobs", "trial {} of study {} is not run again: {} agents were lost while they ran it", trial.ordinal(),
            claim.study_id, claim.losses);
    lost.push_back(NotRun(claim, trial, tunefarm::v1::OUTCOME_POISONED,
                          fmt::format("not run again: {} agents were lost while they ran it", claim.losses),
                          clock_->WallMs()));
  }
  return lost;
}

absl::StatusOr<ClaimFilters::Trials> ClaimFilters::Measured(Claim* claim) {
  Trials measured;
  if (claim->measured_scope.empty() || claim->assignment.policy().no_reuse()) return measured;
  ASSIGN_OR_RETURN(const bool has_others, other_studies_.Exist(claim->study_id, claim->poison.program_digest,
                                                               claim->problem_key, claim->poison.class_id));
  if (!has_others) return measured;
  std::vector<std::string> keys;
  for (const wire::TrialSpec& spec : claim->assignment.trials()) {
    keys.push_back(MeasuredKey(claim->measured_scope, spec.config()));
  }
  ASSIGN_OR_RETURN(const auto found, store_->trials()->FindMeasured(keys));
  for (size_t i = 0; i < found.size(); ++i) {
    if (!found[i].has_value()) continue;
    const MeasuredRow& row = *found[i];
    const absl::StatusOr<Trial> earlier = TrialOfRow(row.trial);
    if (!earlier.ok()) continue;  // a damaged row: the config runs
    // The one that ran: it may itself have got the verdict of another one of its study.
    const int64_t ordinal = earlier->reused() ? earlier->reused_ordinal() : row.trial.ordinal;
    Trial trial = TakenOver(*earlier, TrialNameOf(row.job_id, row.study_number, ordinal));
    wire::TrialSpec* const spec = claim->assignment.mutable_trials(static_cast<int>(i));
    if (trial.headers() != 0) {
      *spec->mutable_measured() = std::move(trial);
      continue;
    }
    claim->Name(*spec, clock_->WallMs(), &trial);
    trial.set_attempt(spec->attempt());
    measured.push_back(std::move(trial));
  }
  return measured;
}

void ClaimFilters::Record(const Claim& claim, const Trials& trials) {
  for (const Trial& trial : trials) {
    if (!Poisons(trial.outcome()) || trial.purpose() == tunefarm::v1::TRIAL_PURPOSE_BASELINE) continue;
    // It never came to the config itself: what crashed or hung were the reference or the inputs.
    if (trial.phase() == tunefarm::v1::PHASE_UNSPECIFIED) continue;
    const absl::Status recorded = poison_->Record(claim.poison, claim.ConfigOf(trial.ordinal()), trial.outcome());
    if (!recorded.ok()) LogWarn("jobs", "a crash could not be remembered: {}", MessageOf(recorded));
  }
}

}  // namespace tunefarm
