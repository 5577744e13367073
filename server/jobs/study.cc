#include "server/jobs/study.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "server/base/check.h"
#include "server/base/format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/jobs/saturating.h"
#include "server/measure/kept_samples.h"
#include "server/measure/policy.h"
#include "server/records/resource_names.h"
#include "server/records/trial_rows.h"
#include "server/store/transitions.h"

namespace tunefarm {

namespace wire = tunefarm::agent::v1;
using tunefarm::v1::BestConfig;
using tunefarm::v1::Trial;

namespace {

// The same for configs that do the same work, whichever machine has measured them: one of them is enough in a final.
std::string MeasuredAs(const Trial& trial) {
  return trial.work() != 0 ? fmt::format("{:016x}", trial.work()) : trial.reused_trial();
}

}  // namespace

bool UsesPriors(const tunefarm::v1::Job& spec) {
  const std::string& name = spec.strategy().strategy_name();
  return !spec.no_memory() && name != "exhaustive" && name != "random";
}

Study::Study(StudyContext context)
    : context_(std::move(context)),
      policy_(ResolvePolicy(context_.spec.policy())),
      next_ordinal_(context_.row.next_ordinal),
      leaderboard_(static_cast<size_t>(policy_.finalists()) * kFinalsMax),
      rule_(context_.spec.budget(), context_.floor_ns),
      effects_(VariedParameters(context_)),
      default_config_(context_.plan->DefaultConfig(*context_.problem).ToText()) {
  if (context_.row.state == StudyState::kEnded) state_ = StudyState::kEnded;
  if (summary_.ParseFromString(context_.row.detail)) search_ended_because_ = summary_.search_ended_because();
}

std::set<std::string> Study::VariedParameters(const StudyContext& context) {
  std::set<std::string> names;
  for (const tunefarm::v1::Parameter& parameter : context.plan->kernel().parameters()) {
    const auto& values = parameter.values();
    const bool has_one = parameter.has_values() &&
                         values.ints_size() + values.doubles_size() + values.bools_size() + values.strings_size() == 1;
    const bool is_range = parameter.has_range() || parameter.has_powers_of_two();
    const auto& range = parameter.has_range() ? parameter.range() : parameter.powers_of_two();
    if (has_one || (is_range && range.first() == range.last())) continue;
    if (context.problem->pinned.Find(parameter.name()) == nullptr) names.insert(parameter.name());
  }
  return names;
}

std::unique_ptr<Study> Study::Create(StudyContext context) {
  return std::unique_ptr<Study>(new Study(std::move(context)));
}

absl::Status Study::Begin(const ChosenPriors& priors, std::shared_ptr<WorkLimit> limit) {
  TUNEFARM_CHECK(!has_begun());
  ASSIGN_OR_RETURN(proposer_, Proposer::Create(context_, priors.rows, std::move(limit)));
  priors_ = priors.rows;
  if (!priors.summaries.empty()) {
    summary_.mutable_priors()->Assign(priors.summaries.begin(), priors.summaries.end());
  }
  return absl::OkStatus();
}

absl::Status Study::ReadTrials(const UnitRow& row, const StudyHistory& history, const TrialReader& with_samples,
                               Unit* unit) const {
  auto ended = std::lower_bound(history.trials.begin(), history.trials.end(), row.first_ordinal,
                                [](const TrialRow& trial, int64_t ordinal) { return trial.ordinal < ordinal; });
  const bool needs_samples = row.kind == UnitKind::kFinals && row.state != UnitState::kTold;
  for (; ended != history.trials.end() && ended->ordinal < row.first_ordinal + row.trial_count; ++ended) {
    ASSIGN_OR_RETURN(Trial trial, needs_samples ? with_samples(ended->ordinal) : TrialOfRow(*ended));
    unit->trials.emplace_hint(unit->trials.end(), ended->ordinal, std::move(trial));
  }
  return absl::OkStatus();
}

absl::Status Study::ReplayProposal(const UnitRow& row, const StudyHistory& history, const TrialReader& with_samples) {
  Unit unit;
  unit.kind = row.kind;
  ASSIGN_OR_RETURN(unit.specs, SpecsOfUnit(row));
  if (row.kind == UnitKind::kSearch) {
    proposed_ += row.trial_count;
    for (const wire::TrialSpec& spec : unit.specs) {
      if (proposer_ != nullptr) RETURN_IF_ERROR(proposer_->MarkProposed(spec.config()));
    }
  }
  if (row.kind == UnitKind::kFinals) {
    ++finals_;
    finals_planned_ += row.trial_count;
    if (state_ == StudyState::kSearching) state_ = StudyState::kFinals;
    for (const wire::TrialSpec& spec : unit.specs) {
      if (spec.purpose() == tunefarm::v1::TRIAL_PURPOSE_FINALIST) finalists_.insert(spec.config());
    }
  }
  next_ordinal_ = std::max(next_ordinal_, row.first_ordinal + row.trial_count);
  first_step_ = false;
  // What is told counts when its turn comes, and is not kept.
  if (row.state == UnitState::kTold) return absl::OkStatus();
  RETURN_IF_ERROR(ReadTrials(row, history, with_samples, &unit));
  for (const auto& [ordinal, trial] : unit.trials) Count(unit, trial);
  if (row.state == UnitState::kDone) done_.push_back(row.unit_id);
  units_[row.unit_id] = std::move(unit);
  return absl::OkStatus();
}

// The proposer sees what it saw: proposals and results in the recorded order.
absl::Status Study::Replay(const StudyHistory& history, const TrialReader& with_samples) {
  TUNEFARM_CHECK(has_begun() && drafts_.empty() && prepared_ == 0);
  TUNEFARM_CHECK(std::is_sorted(history.trials.begin(), history.trials.end(),
                                [](const TrialRow& a, const TrialRow& b) { return a.ordinal < b.ordinal; }));
  std::map<int64_t, const UnitRow*> rows;
  for (const UnitRow& row : history.units) rows[row.unit_id] = &row;
  for (const StudyEvent& event : history.events) {
    const auto row = rows.find(event.unit_id);
    if (row == rows.end()) return DataLoss("the decision log names unit {}, which is not there", event.unit_id);
    if (event.kind == StudyEvent::Kind::kPropose) {
      RETURN_IF_ERROR(ReplayProposal(*row->second, history, with_samples));
      continue;
    }
    Unit unit;
    unit.kind = row->second->kind;
    ASSIGN_OR_RETURN(unit.specs, SpecsOfUnit(*row->second));
    RETURN_IF_ERROR(ReadTrials(*row->second, history, with_samples, &unit));
    for (const auto& [ordinal, trial] : unit.trials) Count(unit, trial);
    std::vector<Proposer::Result> results;
    Fold(unit, &results);
    for (const Proposer::Result& result : results) {
      if (proposer_ != nullptr) RETURN_IF_ERROR(proposer_->Tell(result));
    }
  }
  return absl::OkStatus();
}

void Study::Fold(const Unit& unit, std::vector<Proposer::Result>* results) {
  if (unit.kind == UnitKind::kFinals && IsVoid(unit)) --finals_;
  if (unit.kind != UnitKind::kSearch) return;
  for (const auto& [ordinal, trial] : unit.trials) {
    rule_.Tell(trial);
    const std::string& config = unit.ConfigOf(ordinal);
    if (effects_.Needs(trial)) {
      if (const auto values = context_.plan->ConfigFromText(config); values.ok()) effects_.Add(*values, trial);
    }
    if (config == default_config_ && !HasTime(trial)) default_failed_ = true;
    const double median_ns = HasTime(trial) ? trial.measurement().median_ns() : 0;
    if (HasTime(trial)) leaderboard_.Add({median_ns, ordinal, config, MeasuredAs(trial)});
    const ToldOutcome outcome = HasTime(trial)                                  ? ToldOutcome::kOk
                                : trial.outcome() == tunefarm::v1::OUTCOME_LOST ? ToldOutcome::kLost
                                                                                : ToldOutcome::kFailed;
    results->push_back({ordinal, config, outcome, median_ns});
  }
}

void Study::Count(const Unit& unit, const Trial& trial) {
  device_busy_ms_ += DeviceBusyMs(trial);
  if (unit.kind == UnitKind::kFinals) ++finals_ended_;
  // Whichever is last: a final comes after the search.
  if (trial.purpose() != tunefarm::v1::TRIAL_PURPOSE_BASELINE && HasTime(trial) &&
      unit.ConfigOf(trial.ordinal()) == default_config_) {
    default_ns_ = trial.measurement().median_ns();
  }
  switch (trial.purpose()) {
    case tunefarm::v1::TRIAL_PURPOSE_FINALIST:
      break;
    case tunefarm::v1::TRIAL_PURPOSE_BASELINE:
      if (!baseline_.has_value() || HasTime(trial)) {
        baseline_ = trial;
        DropSamples(baseline_->mutable_measurement());
      }
      break;
    default:
      ++searched_;
      if (!trial.reused_trial().empty()) ++taken_over_;
      ++search_counts_[trial.outcome()];
      if (trial.outcome() == tunefarm::v1::OUTCOME_LOST && first_loss_.empty()) first_loss_ = trial.message();
      NoteIncumbent(trial);
  }
}

std::string Study::WhyAllWereLost() const {
  const auto lost = search_counts_.find(tunefarm::v1::OUTCOME_LOST);
  if (lost == search_counts_.end() || lost->second < searched_) return "";
  return fmt::format("no trial could be run: all {} are LOST, the first with the message: {}", FormatCount(searched_),
                     first_loss_.empty() ? "none" : first_loss_);
}

void Study::NoteIncumbent(const Trial& trial) {
  if (!HasTime(trial)) return;
  if (incumbent_.has_value()) {
    const double old_ns = incumbent_->measurement().median_ns(), new_ns = trial.measurement().median_ns();
    if (old_ns < new_ns || (old_ns == new_ns && incumbent_->ordinal() <= trial.ordinal())) return;
  }
  incumbent_ = trial;
}

std::vector<const Trial*> Study::AddTrials(int64_t unit_id, std::vector<Trial> trials) {
  std::vector<const Trial*> added;
  const auto found = units_.find(unit_id);
  if (found == units_.end()) return added;
  Unit& unit = found->second;
  for (Trial& trial : trials) {
    TUNEFARM_CHECK(trial.ordinal() >= unit.specs.front().ordinal() && trial.ordinal() <= unit.specs.back().ordinal());
    const auto [kept, is_new] = unit.trials.try_emplace(trial.ordinal());
    if (!is_new) continue;
    trial.clear_log();
    if (unit.kind != UnitKind::kFinals) DropSamples(trial.mutable_measurement());
    kept->second = std::move(trial);
    Count(unit, kept->second);
    added.push_back(&kept->second);
  }
  return added;
}

bool Study::IsComplete(int64_t unit_id) const {
  const auto unit = units_.find(unit_id);
  return unit != units_.end() && unit->second.trials.size() == unit->second.specs.size();
}

bool Study::IsDone(int64_t unit_id) const { return std::find(done_.begin(), done_.end(), unit_id) != done_.end(); }

void Study::UnitDone(int64_t unit_id) {
  if (units_.count(unit_id) == 0 || IsDone(unit_id)) return;
  done_.push_back(unit_id);
}

int64_t Study::OpenTrials() const {
  int64_t open = 0;
  const std::set<int64_t> done(done_.begin(), done_.end());
  for (const auto& [unit_id, unit] : units_) {
    if (done.count(unit_id) > 0) continue;
    open += static_cast<int64_t>(unit.specs.size() - unit.trials.size());
  }
  return open;
}

wire::TrialSpec Study::Spec(std::string config, tunefarm::v1::TrialPurpose purpose) {
  wire::TrialSpec spec;
  spec.set_ordinal(next_ordinal_++);
  spec.set_purpose(purpose);
  spec.set_config(std::move(config));
  return spec;
}

void Study::Add(UnitKind kind, std::vector<wire::TrialSpec> specs, int rounds, StudyStep* step) {
  // A unit is a range of ordinals: the store keeps the first one and their number.
  TUNEFARM_CHECK(!specs.empty() && specs.back().ordinal() + 1 == next_ordinal_ &&
                 specs.front().ordinal() + static_cast<int64_t>(specs.size()) == next_ordinal_);
  wire::Assignment payload;
  for (const wire::TrialSpec& spec : specs) *payload.add_trials() = spec;
  Draft draft;
  draft.row.study_id = context_.row.study_id;
  draft.row.kind = kind;
  draft.row.first_ordinal = specs.front().ordinal();
  draft.row.trial_count = static_cast<int>(specs.size());
  draft.row.rounds = rounds;
  draft.row.payload = payload.SerializeAsString();
  draft.unit.kind = kind;
  draft.unit.specs = std::move(specs);
  drafts_.push_back(std::move(draft));
  step->empty = false;
}

void Study::Propose(const Proposer::Answer& answer, StudyStep* step) {
  for (const std::vector<std::string>& configs : answer) {
    const bool is_first = proposed_ == 0;
    std::vector<wire::TrialSpec> specs;
    for (const std::string& config : configs) specs.push_back(Spec(config, tunefarm::v1::TRIAL_PURPOSE_SEARCH));
    proposed_ += static_cast<int64_t>(configs.size());
    Add(UnitKind::kSearch, std::move(specs), 0, step);
    if (is_first && context_.plan->HasSequence(Sequence::kBaseline)) {
      Add(UnitKind::kBaseline, {Spec("", tunefarm::v1::TRIAL_PURPOSE_BASELINE)}, 0, step);
    }
  }
}

std::string Study::WhySearchEnds(const std::string& stop_because) const {
  if (!search_ended_because_.empty()) return search_ended_because_;
  if (!effects_.none_compiles().empty()) return effects_.none_compiles();
  return rule_.because().empty() ? stop_because : rule_.because();
}

std::optional<Proposer::Question> Study::Prepare(const std::string& stop_because, int open_trials_wanted, int devices) {
  TUNEFARM_CHECK(prepared_ == 0);
  if (state_ == StudyState::kEnded) return std::nullopt;
  Proposer::Question question;
  for (; prepared_ < done_.size(); ++prepared_) Fold(units_.at(done_[prepared_]), &question.results);
  if (state_ != StudyState::kSearching || !WhySearchEnds(stop_because).empty()) return std::nullopt;
  if (proposer_->IsExhausted()) return std::nullopt;
  question.proposed = proposed_;
  question.open_units = static_cast<int>(units_.size() - done_.size());
  question.open_trials = OpenTrials();
  question.open_trials_wanted = open_trials_wanted;
  question.devices = devices;
  if (question.results.empty() && !question.HasRoom()) return std::nullopt;
  return question;
}

absl::StatusOr<StudyStep> Study::Next(const std::string& stop_because, const Proposer::Answer* answer,
                                      const BestConfig* incumbent) {
  StudyStep step;
  // What became the best by its time defends nothing against energies.
  if (context_.spec.no_promotion() || NeedsEnergy(context_.spec.objective())) incumbent = nullptr;
  drafts_.clear();
  if (state_ == StudyState::kEnded) return step;
  step.drive.study_id = context_.row.study_id;
  if (first_step_) {
    step.drive.priors = priors_;
    if (!priors_.empty()) step.drive.detail = summary_.SerializeAsString();
    if (proposer_ != nullptr && proposer_->left_out() > 0) {
      step.messages.push_back(
          fmt::format("{}: {} of {} {} not in the space: {}", context_.problem->key, FormatCount(proposer_->left_out()),
                      FormatCount(context_.spec.starting_configs_size(), "starting config"),
                      proposer_->left_out() == 1 ? "is left out, as it is" : "are left out, as they are",
                      proposer_->left_out_because()));
    }
  }
  const Unit* finals = nullptr;
  const std::vector<int64_t> told(done_.begin(), done_.begin() + static_cast<ptrdiff_t>(prepared_));
  for (const int64_t unit_id : told) {
    const Unit& unit = units_.at(unit_id);
    step.drive.told_unit_ids.push_back(unit_id);
    step.empty = false;
    if (unit.kind == UnitKind::kFinals) finals = &unit;
  }
  if (state_ == StudyState::kSearching) {
    const std::string because = WhySearchEnds(stop_because);
    if (!because.empty()) {
      // Stored as soon as it is decided: agents of other daemons may be running its units.
      StopSearch(because, &step);
    } else if (answer != nullptr) {
      Propose(*answer, &step);
    }
    // Over when nothing is open and nothing was added.
    if (drafts_.empty() && units_.size() == told.size()) {
      EndSearch(because, &step);
      RETURN_IF_ERROR(BeginOrEnd(incumbent, &step));
    }
  } else if (finals != nullptr) {
    RETURN_IF_ERROR(Conclude(*finals, incumbent, &step));
  } else if (leaves_finals_device_) {
    TieFinals("", &step);
  }
  for (const Draft& draft : drafts_) step.drive.new_units.push_back(draft.row);
  step.drive.next_ordinal = next_ordinal_;
  step.drive.device_busy_ms = device_busy_ms_;
  return step;
}

void Study::Committed(const StudyStep& step, const DriveResult& result) {
  TUNEFARM_CHECK(result.unit_ids.size() == drafts_.size());
  TUNEFARM_CHECK(!step.drive.state.has_value() || MayBecome(state_, *step.drive.state));
  TUNEFARM_CHECK(step.drive.told_unit_ids.size() == prepared_);
  for (int64_t unit_id : step.drive.told_unit_ids) units_.erase(unit_id);
  done_.erase(done_.begin(), done_.begin() + static_cast<ptrdiff_t>(prepared_));
  prepared_ = 0;
  for (size_t i = 0; i < drafts_.size(); ++i) {
    units_[result.unit_ids[i]] = std::move(drafts_[i].unit);
  }
  drafts_.clear();
  first_step_ = false;
  priors_.clear();
  if (step.drive.state.has_value()) state_ = *step.drive.state;
  if (state_ == StudyState::kEnded) proposer_ = nullptr;
}

void Study::StopSearch(const std::string& because, StudyStep* step) {
  if (!search_ended_because_.empty()) return;
  search_ended_because_ = because;
  summary_.set_search_ended_because(because);
  step->drive.detail = summary_.SerializeAsString();
  step->empty = false;
}

void Study::EndSearch(const std::string& stop_because, StudyStep* step) {
  const int64_t budget = context_.spec.budget().max_trials();
  if (!stop_because.empty()) {
    search_ended_because_ = stop_because;
  } else if (budget > 0 && proposed_ >= budget && !proposer_->IsExhausted()) {
    search_ended_because_ = FormatCount(budget, "trial") + ", as many as were asked for";
  } else if (proposed_ >= context_.size.valid() || context_.size.approximate()) {
    search_ended_because_ = "every config tried";
  } else {
    search_ended_because_ = "the strategy has nothing more to propose";
  }
  if (const std::string lost = WhyAllWereLost(); !lost.empty()) search_ended_because_ += "; " + lost;
  summary_.set_search_ended_because(search_ended_because_);
  summary_.set_reused_from_earlier(taken_over_);
  const std::vector<std::string> idle = effects_.WithoutEffect();
  summary_.mutable_parameters_without_effect()->Assign(idle.begin(), idle.end());
  step->drive.detail = summary_.SerializeAsString();
}

void Study::End(StudyStep* step) {
  // What lists of jobs show of it: they read no trials.
  summary_.clear_progress();
  AddProgress(summary_.mutable_progress());
  summary_.mutable_progress()->set_total(searched_);
  if (incumbent_.has_value()) *summary_.mutable_incumbent() = *incumbent_;
  if (baseline_.has_value()) *summary_.mutable_baseline() = *baseline_;
  summary_.set_default_ns(default_ns_);
  step->drive.detail = summary_.SerializeAsString();
  step->drive.state = StudyState::kEnded;
  step->empty = false;
}

void Study::AddProgress(tunefarm::v1::Progress* progress) const {
  int64_t total = context_.size.valid();
  const int64_t budget = context_.spec.budget().max_trials();
  bool estimate = context_.size.approximate();
  if (budget > 0 && budget <= total) {
    total = budget;
    estimate = false;
  }
  if (state_ != StudyState::kSearching) {
    total = searched_;
    estimate = false;
  }
  progress->set_total(SaturatingAdd<int64_t>(progress->total(), total));
  progress->set_total_is_estimate(progress->total_is_estimate() || estimate);
  progress->set_done(progress->done() + searched_);
  for (const auto& [outcome, count] : search_counts_) {
    auto* counts = progress->mutable_outcomes();
    const auto at =
        std::find_if(counts->begin(), counts->end(), [o = outcome](const auto& c) { return c.outcome() == o; });
    tunefarm::v1::OutcomeCount* slot = at == counts->end() ? counts->Add() : &*at;
    slot->set_outcome(outcome);
    slot->set_count(slot->count() + count);
  }
  progress->set_finals_done(progress->finals_done() + finals_ended_);
  progress->set_finals_total(progress->finals_total() + finals_planned_);
}

tunefarm::v1::Study Study::ToProto() const {
  tunefarm::v1::Study study;
  study.set_name(StudyNameOf(context_.job_id, context_.row.number));
  *study.mutable_problem() = context_.problem->ToProto();
  study.set_device_class_id(context_.row.class_id);
  study.set_device_class_name(context_.device_class.display_name);
  *study.mutable_space() = context_.size;
  study.set_flops(context_.flops);
  study.set_bytes(context_.bytes);
  study.set_floor_ns(context_.floor_ns);
  study.set_search_ended_because(search_ended_because_);
  *study.mutable_priors() = summary_.priors();
  study.set_reused_from_earlier(taken_over_);
  *study.mutable_parameters_without_effect() = summary_.parameters_without_effect();
  study.set_not_promoted_because(summary_.not_promoted_because());
  study.set_kept_because(summary_.kept_because());
  study.set_device_selector(summary_.device_selector());
  study.set_finals_device_uuid(summary_.finals_device_uuid());
  study.set_default_ns(default_ns_);
  AddProgress(study.mutable_progress());
  if (incumbent_.has_value()) *study.mutable_incumbent() = *incumbent_;
  if (baseline_.has_value()) *study.mutable_baseline() = *baseline_;
  if (state_ == StudyState::kEnded) {
    // Replayed, it does not know who has won its final.
    if (summary_.has_incumbent()) *study.mutable_incumbent() = summary_.incumbent();
    if (summary_.has_baseline()) *study.mutable_baseline() = summary_.baseline();
  }
  if (best_.has_value()) *study.mutable_best() = *best_;
  study.set_state(::tunefarm::ToProto(state_));
  return study;
}

}  // namespace tunefarm
