// The last part of a study: who takes part in its final, and what comes of it.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "server/base/check.h"
#include "server/base/format.h"
#include "server/base/status_macros.h"
#include "server/jobs/study.h"
#include "server/measure/kept_samples.h"
#include "server/store/job_rows.h"

namespace tunefarm {

namespace wire = tunefarm::agent::v1;
using tunefarm::v1::BestConfig;
using tunefarm::v1::Trial;

namespace {

// Whether the budget is for the given configs alone, or for a single one, and not for the whole space.
bool OnlyMeasures(const StudyContext& context) {
  const int64_t trials = context.spec.budget().max_trials();
  const bool tries_all = !context.size.approximate() && context.size.valid() <= trials;
  return trials > 0 && !tries_all && trials <= std::max<int64_t>(1, context.spec.starting_configs_size());
}

const char* ObjectiveText(tunefarm::v1::Objective objective) {
  return objective == tunefarm::v1::OBJECTIVE_ENERGY_DELAY ? "energy times time" : "energy";
}

// The decision in one sentence; empty where the smallest time won and nothing was the best before. `was_compared`: the
// incumbent has a time in the final.
std::string WhyKept(const FinalDecision& decision, const AgainstFastest& against, bool was_compared) {
  const int64_t ordinal = decision.winner->trial.ordinal();
  if (NeedsEnergy(decision.objective)) {
    if (against.fastest == nullptr) return {};
    return fmt::format("trial {} needs {:.3f} of the {} of the fastest, trial {} (95 % interval {:.3f} to {:.3f})",
                       ordinal, against.ratio, ObjectiveText(decision.objective), against.fastest->trial.ordinal(),
                       against.ratio_low, against.ratio_high);
  }
  const std::string ratio = fmt::format("{:.3f} of its time (95 % interval {:.3f} to {:.3f})", decision.ratio,
                                        decision.ratio_low, decision.ratio_high);
  if (decision.kind == FinalDecision::Kind::kRefresh) {
    if (decision.ratio >= 1) return "the best stays: round by round no finalist was faster";
    return fmt::format("the best stays: the fastest finalist needs {}, and it takes {:.2f} to replace it", ratio,
                       1 - kPromotionMargin);
  }
  if (was_compared) return fmt::format("trial {} beats the best: round by round it needs {}", ordinal, ratio);
  if (decision.ratio >= 1) return {};
  return fmt::format("trial {} is kept: another has a smaller median, but round by round it needs {}", ordinal, ratio);
}

// The final of a job whose objective needs energies, where a finalist has none.
std::string WhyNotByEnergy(const FinalTrial& without, tunefarm::v1::Objective objective) {
  const std::string& because = without.trial.measurement().energy().missing_because();
  return fmt::format("time decided instead of {}: trial {} has no energy{}{}", ObjectiveText(objective),
                     without.trial.ordinal(), because.empty() ? "" : ", ", because);
}

}  // namespace

std::optional<std::string> Study::IncumbentConfig(const BestConfig* incumbent) const {
  if (incumbent == nullptr) return std::nullopt;
  const auto config = context_.plan->ParseConfig(incumbent->config());
  if (!config.ok() || proposer_ == nullptr || !proposer_->space().Contains(*config)) return std::nullopt;
  return config->ToText();
}

absl::Status Study::BeginOrEnd(const BestConfig* incumbent, StudyStep* step) {
  if (leaderboard_.empty()) {
    step->messages.push_back(searched_ == 0   ? "no config was tried"
                             : searched_ == 1 ? "the only config tried failed"
                                              : fmt::format("all {} configs tried failed", FormatCount(searched_)));
    End(step);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const bool added, AddFinals(incumbent, {}, step));
  if (!added) {
    End(step);
    return absl::OkStatus();
  }
  step->drive.state = StudyState::kFinals;
  return absl::OkStatus();
}

// False when there is nobody left.
absl::StatusOr<bool> Study::AddFinals(const BestConfig* incumbent, const std::vector<std::string>& again,
                                      StudyStep* step) {
  std::vector<Leaderboard::Entry> best;
  if (again.empty()) {
    best = leaderboard_.Best(static_cast<size_t>(policy_.finalists()), finalists_);
    if (best.empty()) return false;
  }
  std::vector<std::string> configs;
  const auto add = [&](const std::string& config) {
    if (finalists_.insert(config).second) configs.push_back(config);
  };
  const std::optional<std::string> defender = IncumbentConfig(incumbent);
  if (!again.empty()) {
    // All who take part do so again; the default, since gains may be told by it.
    if (defender.has_value()) finalists_.erase(*defender);
    finalists_.erase(default_config_);
  }
  for (const std::string& config : again) {
    finalists_.erase(config);
    add(config);
  }
  for (const auto& entry : best) add(entry.config);
  if (defender.has_value()) add(*defender);
  if (!default_failed_ && proposer_->space().Contains(context_.plan->DefaultConfig(*context_.problem)))
    add(default_config_);
  std::vector<wire::TrialSpec> specs;
  for (std::string& config : configs) specs.push_back(Spec(std::move(config), tunefarm::v1::TRIAL_PURPOSE_FINALIST));
  // A baseline that could not run before (no library here) is not tried again.
  const bool may_run =
      !baseline_.has_value() || HasTime(*baseline_) || baseline_->outcome() == tunefarm::v1::OUTCOME_LOST;
  if (context_.plan->HasSequence(Sequence::kBaseline) && may_run) {
    specs.push_back(Spec("", tunefarm::v1::TRIAL_PURPOSE_BASELINE));
  }
  ++finals_;
  finals_planned_ += static_cast<int64_t>(specs.size());
  Add(UnitKind::kFinals, std::move(specs), policy_.final_rounds(), step);
  return true;
}

bool Study::IsVoid(const Unit& unit) {
  std::set<std::string> devices;
  for (const auto& [ordinal, trial] : unit.trials) devices.insert(trial.device_uuid());
  return devices.size() > 1;
}

void Study::TieFinals(const std::string& device_uuid, StudyStep* step) {
  leaves_finals_device_ = false;
  if (device_uuid == summary_.finals_device_uuid()) return;
  summary_.set_finals_device_uuid(device_uuid);
  step->drive.device_selector = device_uuid.empty() ? summary_.device_selector() : device_uuid;
  step->drive.detail = summary_.SerializeAsString();
  step->empty = false;
}

absl::Status Study::BeginAgain(const Unit& unit, const BestConfig* incumbent, StudyStep* step) {
  std::vector<std::string> again;
  for (const wire::TrialSpec& spec : unit.specs) {
    if (spec.purpose() == tunefarm::v1::TRIAL_PURPOSE_FINALIST) again.push_back(spec.config());
  }
  TieFinals("", step);
  RETURN_IF_ERROR(AddFinals(incumbent, again, step).status());
  step->messages.emplace_back("the device of the final was lost before its end; all of it is measured again");
  return absl::OkStatus();
}

// A kernel that judged itself could say so little; of others an own process has timed the launches.
void Study::DoubtFinalists(std::vector<FinalTrial>* trials, StudyStep* step) const {
  int doubted = 0;
  for (FinalTrial& trial : *trials) {
    if (!IsImplausible(trial.trial, context_.floor_ns)) continue;
    const bool is_refused = trial.trial.measurement().self_judged();
    if (doubted++ == 0 || is_refused) {
      step->messages.push_back(fmt::format(
          "{} of trial {} is less than half of the roofline's floor, {}: {}",
          FormatDuration(trial.trial.measurement().median_ns()), trial.trial.ordinal(),
          FormatDuration(context_.floor_ns),
          is_refused ? "the kernel took it itself, and it is not kept" : "flops or bytes may be declared too high"));
    }
    if (is_refused) trial.trial.set_outcome(tunefarm::v1::OUTCOME_WRONG_RESULT);
  }
}

absl::Status Study::Conclude(const Unit& unit, const BestConfig* incumbent, StudyStep* step) {
  if (IsVoid(unit)) return BeginAgain(unit, incumbent, step);
  std::vector<FinalTrial> trials;
  std::optional<Trial> baseline, by_default;
  for (const auto& [ordinal, trial] : unit.trials) {
    if (trial.purpose() == tunefarm::v1::TRIAL_PURPOSE_BASELINE) {
      if (HasTime(trial)) baseline = trial;
      continue;
    }
    const std::string& config = unit.ConfigOf(ordinal);
    if (config == default_config_ && HasTime(trial)) by_default = trial;
    trials.push_back({config, trial});
  }
  if (!unit.trials.empty()) TieFinals(unit.trials.begin()->second.device_uuid(), step);
  DoubtFinalists(&trials, step);
  const auto defender = IncumbentConfig(incumbent);
  const tunefarm::v1::Objective objective = context_.spec.objective();
  const FinalDecision decision = Decide(trials, defender.value_or(""), policy_.final_rounds(), objective);
  if (decision.kind == FinalDecision::Kind::kNone) {
    if (finals_ < kFinalsMax) {
      ASSIGN_OR_RETURN(const bool added, AddFinals(incumbent, {}, step));
      if (added) {
        step->messages.emplace_back("every finalist failed in the final; the next ones are measured");
        return absl::OkStatus();
      }
    }
    step->messages.emplace_back("every finalist failed in the final; nothing is promoted");
    End(step);
    return absl::OkStatus();
  }
  if (defender.has_value() && !WasJudged(trials, *defender)) {
    // Promoted by another job since this final began, or lost or too noisy in it: nothing says that the winner beats
    // it.
    if (finals_ < kFinalsMax) {
      ASSIGN_OR_RETURN(const bool added, AddFinals(incumbent, {decision.winner->config}, step));
      if (added) {
        step->messages.emplace_back("the winner of the final is measured against the incumbent");
        return absl::OkStatus();
      }
    }
    step->messages.emplace_back("the incumbent could not be compared; it stays");
    End(step);
    return absl::OkStatus();
  }
  const bool was_compared = defender.has_value() && std::any_of(trials.begin(), trials.end(), [&](const auto& other) {
                              return other.config == *defender && HasTime(other.trial);
                            });
  std::string kept = WhyKept(decision, CompareWithFastest(trials, decision), was_compared);
  if (decision.without_energy != nullptr) {
    kept = WhyNotByEnergy(*decision.without_energy, objective) + (kept.empty() ? "" : "; ") + kept;
  }
  if (!kept.empty()) {
    step->messages.push_back(kept);
    summary_.set_kept_because(std::move(kept));
  }
  StudyStep::Promotion promotion;
  promotion.winner = decision.winner->trial;
  promotion.config = decision.winner->config;
  TUNEFARM_CHECK(promotion.winner.purpose() == tunefarm::v1::TRIAL_PURPOSE_FINALIST && HasTime(promotion.winner));
  promotion.refresh = decision.kind == FinalDecision::Kind::kRefresh;
  const auto& declared = context_.plan->kernel().baseline();
  if (baseline.has_value()) {
    promotion.baseline = std::move(baseline);
    promotion.baseline_label = declared.label();
  } else if (by_default.has_value()) {
    baseline_ = by_default;
    DropSamples(baseline_->mutable_measurement());
    promotion.baseline = std::move(by_default);
    promotion.baseline_label = "default config";
  }
  if (!context_.plan->kernel().unverified_reason().empty()) {
    step->messages.push_back(
        fmt::format("the promoted config was not verified, since the definition has no reference: {}",
                    context_.plan->kernel().unverified_reason()));
  }
  incumbent_ = promotion.winner;
  DropSamples(incumbent_->mutable_measurement());
  const bool is_search = context_.spec.promote_given() || !OnlyMeasures(context_);
  const bool is_filed = !context_.spec.no_promotion() && !NeedsEnergy(objective) && is_search;
  if (is_filed) step->promotion = std::move(promotion);
  End(step);
  if (is_filed || context_.spec.no_promotion()) return absl::OkStatus();
  NoteNotPromoted(
      NeedsEnergy(objective)
          ? fmt::format("the job's objective is {}; only winners by time are filed", ObjectiveText(objective))
          : "the job measured given configs only, which is no search; with --promote they are filed",
      step);
  return absl::OkStatus();
}

void Study::NoteNotPromoted(std::string because, StudyStep* step) {
  step->messages.push_back(fmt::format("the winner of the final is not promoted: {}", because));
  summary_.set_not_promoted_because(std::move(because));
  step->drive.detail = summary_.SerializeAsString();
}

}  // namespace tunefarm
