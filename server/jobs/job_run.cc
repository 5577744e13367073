#include "server/jobs/job_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/base/check.h"
#include "server/base/failpoint.h"
#include "server/base/format.h"
#include "server/base/log.h"
#include "server/base/saturating.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/jobs/job_view.h"
#include "server/records/resource_names.h"
#include "server/records/trial_rows.h"
#include "server/store/best_store.h"
#include "server/store/device_store.h"
#include "server/store/job_store.h"
#include "server/store/trial_store.h"

namespace tunefarm {

using tunefarm::v1::JobEvent;
using tunefarm::v1::Trial;

namespace {

// Of a history, which may be of millions of trials: a few MiB.
constexpr int kHistoryEventsAtOnce = 128;
// The next study of a job begins when those at work leave fewer open trials per device: a quarter of what one tries, so
// that most of it is known by then, but enough for compilers and devices until the new one has proposed.
constexpr int64_t kOpenAtBeginMin = 8, kOpenAtBeginMax = 32;
// DONE units that are read from the store at a time.
constexpr int kUnitsAtOnce = 64;
// Of a study whose results all came through this daemon, so far.
constexpr Duration kAskPauseFirst = std::chrono::milliseconds(200);
constexpr Duration kAskPauseMax = std::chrono::seconds(2);

int64_t OpenAtBegin(const StudyContext& study, int devices) {
  int64_t trials = study.size.valid();
  const int64_t budget = study.spec.budget().max_trials();
  if (budget > 0) trials = std::min(trials, budget);
  return std::clamp(trials / 4, kOpenAtBeginMin * devices, kOpenAtBeginMax * devices);
}

}  // namespace

// ---- Loading ----

JobRun::JobRun(const JobTools& tools, JobBoard* board, JobRow row)
    : tools_(tools), board_(board), row_(std::move(row)) {}

absl::StatusOr<std::unique_ptr<JobRun>> JobRun::Load(const JobTools& tools, JobBoard* board, const JobRow& row) {
  std::unique_ptr<JobRun> run(new JobRun(tools, board, row));
  if (!run->spec_.ParseFromString(row.spec)) {
    return DataLoss("the stored request of {} cannot be read", JobName(row.job_id));
  }
  RETURN_IF_ERROR(run->LoadClasses());
  for (const StudyRow& study_row : row.studies) {
    ASSIGN_OR_RETURN(run->studies_[study_row.study_id], run->LoadStudy(study_row));
    run->changed_.insert(study_row.study_id);
  }
  tunefarm::v1::Job request = run->spec_;
  request.clear_starting_configs();
  request.set_name(JobName(row.job_id));
  request.set_uid(row.uid);
  request.set_created_at_ms(row.created_at_ms);
  run->request_ = std::make_shared<const tunefarm::v1::Job>(std::move(request));
  return run;
}

absl::Status JobRun::LoadClasses() {
  ASSIGN_OR_RETURN(const std::vector<DeviceClassRow> classes, tools_.store->devices()->ListDeviceClasses());
  for (const DeviceClassRow& stored : classes) {
    const bool is_wanted = std::any_of(row_.studies.begin(), row_.studies.end(),
                                       [&](const StudyRow& study) { return study.class_id == stored.class_id; });
    if (!is_wanted) continue;
    tunefarm::v1::DeviceClass proto;
    if (!proto.ParseFromString(stored.properties)) return DataLoss("device class {} cannot be read", stored.class_id);
    ASSIGN_OR_RETURN(classes_[stored.class_id], DeviceClass::FromProto(proto));
  }
  return absl::OkStatus();
}

absl::StatusOr<StudyContext> JobRun::ContextOf(const StudyRow& row) const {
  StudyContext context;
  context.job_id = id();
  context.spec = spec_;
  // Studies live as long as the job: of what is tried first each keeps its own.
  auto* const starting = context.spec.mutable_starting_configs();
  starting->erase(std::remove_if(starting->begin(), starting->end(),
                                 [&](const tunefarm::v1::StartingConfig& one) {
                                   // A study for each problem, and again for each further class.
                                   return one.problem_index() != (row.number - 1) % spec_.problems_size();
                                 }),
                  starting->end());
  ASSIGN_OR_RETURN(context.plan, tools_.kernels->GetById(row_.kernel_id));
  tunefarm::v1::Problem problem;
  tunefarm::v1::Study summary;
  if (!problem.ParseFromString(row.problem) || !summary.ParseFromString(row.detail)) {
    return DataLoss("{} cannot be read", StudyNameOf(id(), row.number));
  }
  ASSIGN_OR_RETURN(ResolvedProblem resolved, context.plan->ResolveProblem(problem));
  context.problem = std::make_shared<const ResolvedProblem>(std::move(resolved));
  context.size = summary.space();
  context.flops = summary.flops();
  context.bytes = summary.bytes();
  context.floor_ns = summary.floor_ns();
  context.row = row;
  const auto device_class = classes_.find(row.class_id);
  if (device_class == classes_.end()) {
    return DataLoss("device class {} of {} is not stored", row.class_id, StudyNameOf(id(), row.number));
  }
  context.device_class = device_class->second;
  return context;
}

absl::StatusOr<std::unique_ptr<Study>> JobRun::LoadStudy(const StudyRow& row) const {
  ASSIGN_OR_RETURN(StudyContext context, ContextOf(row));
  std::unique_ptr<Study> study = Study::Create(std::move(context));
  const bool has_begun = row.next_ordinal > 0;
  if (has_begun && row.state != StudyState::kEnded) {
    ChosenPriors priors;  // as they were chosen then
    ASSIGN_OR_RETURN(priors.rows, tools_.store->studies()->LoadPriors(row.study_id));
    RETURN_IF_ERROR(study->Begin(priors));
  }
  int64_t after_sequence = 0;
  while (true) {  // nothing, if it has not begun
    ASSIGN_OR_RETURN(const StudyHistory part,
                     tools_.store->studies()->LoadHistory(row.study_id, after_sequence, kHistoryEventsAtOnce));
    if (part.events.empty()) break;
    after_sequence = part.events.back().sequence;
    RETURN_IF_ERROR(study->Replay(part, [&](int64_t ordinal) -> absl::StatusOr<Trial> {
      ASSIGN_OR_RETURN(const TrialRow trial, tools_.store->trials()->GetTrial(id(), row.number, ordinal));
      return TrialOfRow(trial);
    }));
  }
  if (study->state() == StudyState::kEnded) {
    const auto best = tools_.catalog->Find(study->context().plan->program_digest(), row.problem_key, row.class_id);
    if (best != nullptr && best->job() == JobName(id())) study->SetBest(*best);
  }
  return study;
}

absl::Status JobRun::ReloadStudy(int64_t study_id) {
  ASSIGN_OR_RETURN(const JobRow row, tools_.store->jobs()->GetJob(id()));
  const auto own = std::find_if(row.studies.begin(), row.studies.end(),
                                [&](const StudyRow& study) { return study.study_id == study_id; });
  if (own == row.studies.end()) return DataLoss("study {} of {} is no longer stored", study_id, JobName(id()));
  ASSIGN_OR_RETURN(studies_.at(study_id), LoadStudy(*own));
  changed_.insert(study_id);
  broken_.erase(study_id);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Study>> JobRun::Begun(const JobTools& tools, StudyContext context) {
  ChosenPriors priors;
  if (UsesPriors(context.spec)) {
    PriorQuestion question;
    question.study_id = context.row.study_id;
    question.plan = context.plan.get();
    question.problem = context.problem.get();
    question.device_class = &context.device_class;
    question.class_id = context.row.class_id;
    question.toolkit = context.row.toolkit;
    ASSIGN_OR_RETURN(priors, ChoosePriors(question, tools.store));
    for (const auto& source : priors.summaries) {
      LogInfo("jobs", "{} starts from {} results: {}", StudyNameOf(context.job_id, context.row.number),
              source.measured() + source.failed(),
              source.difference().empty() ? "the same problem" : source.difference());
    }
  }
  std::unique_ptr<Study> study = Study::Create(std::move(context));
  RETURN_IF_ERROR(study->Begin(priors));
  return study;
}

// ---- The job's state ----

void JobRun::TakeUp(JobRow row, int64_t epoch) {
  row_ = std::move(row);
  epoch_ = epoch;
  told_waiting_ = WaitingReason();
  PublishJob();
}

void JobRun::SetState(JobState state, const std::string& reason) {
  row_.state = state;
  row_.state_reason = reason;
  if (IsTerminal(state)) row_.ended_at_ms = tools_.executor->clock()->WallMs();
  PublishJob();
}

void JobRun::Begin() {
  if (done_at_begin_ < 0) {
    began_ = tools_.executor->clock()->Now();
    done_at_begin_ = Progress().done();
  }
  // Whatever was asked for since the claim: the job has started, and its time runs.
  if (row_.started_at_ms == 0) {
    row_.started_at_ms = tools_.executor->clock()->WallMs();
    has_news_ = true;
  }
  if (row_.state == JobState::kQueued) SetState(JobState::kRunning, row_.state_reason);
}

bool JobRun::IsSearching(const std::string& class_id) const {
  return std::any_of(studies_.begin(), studies_.end(), [&](const auto& entry) {
    const Study& study = *entry.second;
    return study.has_begun() && study.state() == StudyState::kSearching && study.context().row.class_id == class_id;
  });
}

bool JobRun::HasEnded() const {
  return std::all_of(studies_.begin(), studies_.end(),
                     [](const auto& entry) { return entry.second->state() == StudyState::kEnded; });
}

void JobRun::StopSearch(std::string because) {
  if (is_stopped()) return;
  stop_because_ = std::move(because);
  PublishMessage(stop_because_ + ": the best so far go to the final");
  tools_.link->StopSearch(id());
}

bool JobRun::CheckDeviceTime() {
  const double seconds = spec_.budget().max_device_seconds();
  if (seconds <= 0 || is_stopped() || DeviceBusyMs() < seconds * 1e3) return false;
  StopSearch(fmt::format("devices have worked for {}", FormatDuration(seconds * 1e9)));
  return true;
}

std::string JobRun::WhyAllWereLost() const {
  std::string first;
  for (const auto& [study_id, study] : studies_) {
    std::string why = study->WhyAllWereLost();
    if (why.empty()) return "";
    if (first.empty()) first = std::move(why);
  }
  return first;
}

// ---- Results ----

void JobRun::AddTrials(int64_t study_id, int64_t unit_id, std::vector<Trial> trials) {
  Study& own = study(study_id);
  const int number = own.context().row.number;
  const std::string study_name = StudyNameOf(id(), number);
  const std::vector<const Trial*> added = own.AddTrials(unit_id, std::move(trials));
  if (added.empty()) return;
  changed_.insert(study_id);
  has_news_ = true;
  if (!tools_.events->IsFollowed(id())) return;
  // What a watcher has been told is in the snapshot that another one begins with.
  Publish();
  for (const Trial* trial : added) {
    JobEvent event;
    event.set_study(study_name);
    *event.mutable_progress() = snapshot_->now.progress();
    *event.mutable_trial_ended() = *trial;
    event.mutable_trial_ended()->set_name(TrialNameOf(id(), number, trial->ordinal()));
    event.mutable_trial_ended()->mutable_measurement()->clear_sample_ns();
    tools_.events->Publish(id(), std::move(event));
  }
}

std::vector<int64_t> JobRun::StudiesToAsk(MonotonicTime now) const {
  std::vector<int64_t> study_ids;
  for (const auto& [study_id, study] : studies_) {
    const auto asked = asked_.find(study_id);
    if (asked != asked_.end() && now < asked->second.at + asked->second.pause) continue;
    if (study->HasOpenUnits() && broken_.count(study_id) == 0) study_ids.push_back(study_id);
  }
  return study_ids;
}

absl::StatusOr<bool> JobRun::TakeDone(int64_t study_id, const ArrivingUnits& arriving) {
  Study& own = study(study_id);
  // Not again what is known: a busy study's results would be read twice.
  std::vector<int64_t> known = arriving.List();
  known.insert(known.end(), own.done_units().begin(), own.done_units().end());
  ASSIGN_OR_RETURN(const StudyHistory done, tools_.store->studies()->LoadDone(study_id, kUnitsAtOnce, known));
  bool is_news = false;
  for (const UnitRow& unit : done.units) {
    if (own.IsDone(unit.unit_id) || arriving.Has(unit.unit_id)) continue;
    is_news = true;
    // Proposed by a step whose answer was lost.
    if (!own.HasUnit(unit.unit_id)) return false;
    ASSIGN_OR_RETURN(std::vector<Trial> trials, TrialsOf(own.context().row, unit, done));
    AddTrials(study_id, unit.unit_id, std::move(trials));
    own.UnitDone(unit.unit_id);
  }
  Asked& asked = asked_[study_id];
  asked.at = tools_.executor->clock()->Now();
  asked.pause = is_news ? Duration::zero() : std::min(kAskPauseMax, asked.pause * 2 + kAskPauseFirst);
  return true;
}

absl::StatusOr<std::vector<Trial>> JobRun::TrialsOf(const StudyRow& study, const UnitRow& unit,
                                                    const StudyHistory& done) const {
  std::vector<Trial> trials;
  auto ended = std::lower_bound(done.trials.begin(), done.trials.end(), unit.first_ordinal,
                                [](const TrialRow& trial, int64_t ordinal) { return trial.ordinal < ordinal; });
  for (; ended != done.trials.end() && ended->ordinal < unit.first_ordinal + unit.trial_count; ++ended) {
    TrialRow row = *ended;
    if (unit.kind == UnitKind::kFinals) {  // judged by its samples
      ASSIGN_OR_RETURN(row, tools_.store->trials()->GetTrial(id(), study.number, ended->ordinal));
    }
    ASSIGN_OR_RETURN(trials.emplace_back(), TrialOfRow(row));
  }
  return trials;
}

// ---- Steps ----

bool JobRun::NeedsStep(int64_t study_id) const {
  // Of those that have not begun each has its turn, unless none is to begin any more.
  return broken_.count(study_id) > 0 || is_stopped() || studies_.at(study_id)->has_begun();
}

int JobRun::DevicesFor(int64_t study_id) const {
  const StudyRow& row = studies_.at(study_id)->context().row;
  return std::max(1, tools_.devices->CountReady(row.class_id, row.device_selector));
}

absl::Status JobRun::StepStudy(int64_t study_id, int open_trials_wanted, int devices) {
  if (broken_.count(study_id) > 0) {
    RETURN_IF_ERROR(ReloadStudy(study_id));
    if (!NeedsStep(study_id)) return absl::OkStatus();
  }
  Study& own = study(study_id);
  const StudyContext& context = own.context();
  if (HasLostFinalsDevice(own)) own.LeaveFinalsDevice();
  const auto incumbent =
      tools_.catalog->Find(context.plan->program_digest(), context.row.problem_key, context.row.class_id);
  ASSIGN_OR_RETURN(StudyStep step, own.Next(stop_because_, open_trials_wanted, devices, incumbent.get()));
  if (own.search_is_over()) tools_.link->StopStudySearch(id(), study_id);
  if (step.empty) return absl::OkStatus();
  // What the strategy was asked may or may not be recorded: after an error it is made again from what is.
  RETURN_IF_ERROR(Commit(own, &step, incumbent.get()));
  changed_.insert(study_id);
  has_news_ = true;
  Announce(own, step);
  return absl::OkStatus();
}

absl::Status JobRun::Commit(Study& study, StudyStep* step, const tunefarm::v1::BestConfig* incumbent) {
  const StudyContext& context = study.context();
  if (step->promotion.has_value()) RETURN_IF_ERROR(Promote(study, step, incumbent));
  step->drive.now_ms = tools_.executor->clock()->WallMs();
  step->drive.driver_epoch = epoch_;
  RETURN_IF_ERROR(Failpoint("jobs.step.before"));
  const auto result = tools_.store->studies()->Drive(step->drive);
  PassFailpoint("jobs.step.after");
  RETURN_IF_ERROR(result.status());
  study.Committed(*step, *result);
  mismatches_ = 0;
  if (context.plan->language() == tunefarm::v1::LANGUAGE_CUDA) {
    tools_.link->WillRun(row_, context.row, context.device_class, step->drive.new_units, result->unit_ids);
  }
  return absl::OkStatus();
}

void JobRun::Announce(const Study& study, const StudyStep& step) {
  const StudyContext& context = study.context();
  for (const std::string& message : step.messages) {
    PublishMessage(fmt::format("{}: {}", context.problem->key, message));
  }
  if (step.drive.state.has_value() || !step.drive.priors.empty()) PublishStudy(study);
  if (step.drive.new_units.empty() && !step.drive.device_selector.has_value()) return;
  if (context.row.device_selector.empty() && !step.drive.device_selector.has_value() && study.finals_device().empty()) {
    tools_.link->WakeFor(context.row.class_id, step.drive.new_units.size());
  } else {
    tools_.link->Wake();
  }
}

tunefarm::v1::BestConfig JobRun::BestOf(const Study& study, const StudyStep::Promotion& promotion) const {
  const StudyContext& context = study.context();
  const KernelPlan& plan = *context.plan;
  tunefarm::v1::BestConfig best;
  best.set_kernel_name(plan.display_name());
  best.set_kernel_id(plan.kernel_id());
  best.set_program_digest(plan.program_digest());
  *best.mutable_problem() = context.problem->ToProto();
  best.set_device_class_id(context.row.class_id);
  best.set_device_class_name(context.device_class.display_name);
  *best.mutable_config() = promotion.winner.config();
  *best.mutable_measurement() = promotion.winner.measurement();
  best.mutable_measurement()->clear_sample_ns();
  if (promotion.baseline.has_value()) {
    best.set_baseline_ns(promotion.baseline->measurement().median_ns());
    best.set_baseline_label(promotion.baseline_label);
  }
  best.set_job(JobName(id()));
  best.set_ordinal(promotion.winner.ordinal());
  best.set_driver_version(tools_.devices->DriverOf(promotion.winner.device_uuid()));
  best.set_toolkit_version(tools_.devices->ToolkitOf(promotion.winner.device_uuid()));
  best.set_promoted_at_ms(tools_.executor->clock()->WallMs());
  if (const auto config = plan.ConfigFromText(promotion.config); config.ok()) {
    best.set_flops(plan.Flops(*context.problem, *config, context.device_class));
    best.set_bytes(plan.Bytes(*context.problem, *config, context.device_class));
  }
  best.set_floor_ns(context.floor_ns);
  return best;
}

absl::Status JobRun::Promote(Study& study, StudyStep* step, const tunefarm::v1::BestConfig* incumbent) {
  const StudyContext& context = study.context();
  const StudyStep::Promotion& promotion = *step->promotion;
  const tunefarm::v1::BestConfig best = BestOf(study, promotion);
  BestRow row;
  row.kernel_name = context.plan->display_name();
  row.kernel_id = context.plan->kernel_id();
  row.program_digest = context.plan->program_digest();
  row.problem_key = context.row.problem_key;
  row.class_id = context.row.class_id;
  row.config = promotion.config;
  row.detail = best.SerializeAsString();
  row.median_ns = best.measurement().median_ns();
  row.job_id = id();
  row.study_id = context.row.study_id;
  row.ordinal = promotion.winner.ordinal();
  row.promoted_at_ms = best.promoted_at_ms();
  // Another daemon may be promoting for the same problem: who comes second is measured against who came first.
  row.compared_with = incumbent == nullptr ? 0 : incumbent->revision();
  ASSIGN_OR_RETURN(const PromotionVerdict verdict, tools_.bests->Promote(row));
  RETURN_IF_ERROR(Failpoint("jobs.promote.after"));
  if (verdict == PromotionVerdict::kKeptPinned) study.NoteNotPromoted("the best is pinned", step);
  const auto filed = tools_.catalog->Find(row.program_digest, row.problem_key, row.class_id);
  // What is not in the catalog has no revision.
  const bool is_own = filed != nullptr && filed->job() == best.job() && filed->ordinal() == best.ordinal();
  study.SetBest(verdict == PromotionVerdict::kFiled && is_own ? *filed : best);
  return absl::OkStatus();
}

const Study* JobRun::TakeNextToBegin() {
  if (is_beginning_ || is_stopped() || (row_.state != JobState::kQueued && row_.state != JobState::kRunning)) {
    return nullptr;
  }
  // Devices of one class take no work of another one's studies.
  std::map<std::string, int64_t> open;
  for (const auto& [study_id, study] : studies_) {
    if (study->has_begun()) open[study->context().row.class_id] += study->open_trials();
  }
  std::set<std::string> waiting;
  for (const auto& [study_id, study] : studies_) {
    const StudyRow& row = study->context().row;
    if (study->has_begun() || broken_.count(study_id) > 0 || !waiting.insert(row.class_id).second) continue;
    if (open[row.class_id] >= OpenAtBegin(study->context(), DevicesFor(study_id))) continue;
    is_beginning_ = true;
    return study.get();
  }
  return nullptr;
}

void JobRun::BeginStudy(int64_t study_id, std::unique_ptr<Study> begun) {
  is_beginning_ = false;
  std::unique_ptr<Study>& slot = studies_.at(study_id);
  // Whatever has happened to it meanwhile is stored, and only what has not begun may be replaced.
  if (begun == nullptr || slot->has_begun() || broken_.count(study_id) > 0) return;
  slot = std::move(begun);
  changed_.insert(study_id);
}

bool JobRun::HasLostFinalsDevice(const Study& study) const {
  return study.state() == StudyState::kFinals && !study.finals_device().empty() &&
         !tools_.devices->IsReady(study.finals_device()) &&
         tools_.devices->CountReady(study.context().row.class_id, study.device_selector()) > 0;
}

bool JobRun::HasLostFinalsDevice() const {
  return std::any_of(studies_.begin(), studies_.end(),
                     [&](const auto& entry) { return HasLostFinalsDevice(*entry.second); });
}

// ---- What is shown ----

tunefarm::v1::Progress JobRun::Progress() const {
  tunefarm::v1::Progress progress;
  for (const auto& [study_id, study] : studies_) study->AddProgress(&progress);
  const int64_t done_now = progress.done() - done_at_begin_;
  if (done_at_begin_ >= 0 && done_now > 0 && !IsTerminal(row_.state)) {
    const auto elapsed =
        std::chrono::duration_cast<std::chrono::milliseconds>(tools_.executor->clock()->Now() - began_).count();
    const int64_t left = SaturatingAdd(std::max<int64_t>(0, progress.total() - progress.done()),
                                       std::max<int64_t>(0, progress.finals_total() - progress.finals_done()));
    progress.set_eta_ms(
        SaturatingInt64(static_cast<double>(elapsed) / static_cast<double>(done_now) * static_cast<double>(left)));
  }
  return progress;
}

std::string JobRun::WaitingReason() const {
  if (row_.state != JobState::kQueued && row_.state != JobState::kRunning) return {};
  std::string waiting;
  for (const auto& [study_id, study] : studies_) {
    if (study->state() == StudyState::kEnded) continue;
    waiting = tools_.devices->WaitingReason(study->context().row.class_id, study->context().row.device_selector);
    if (waiting.empty()) return {};
  }
  return waiting;
}

double JobRun::DeviceBusyMs() const {
  double sum = 0;
  for (const auto& [study_id, study] : studies_) sum += study->device_busy_ms();
  return sum;
}

void JobRun::Publish() {
  for (const int64_t study_id : changed_) {
    shown_[study_id] = std::make_shared<const tunefarm::v1::Study>(study(study_id).ToProto());
  }
  changed_.clear();
  auto snapshot = std::make_shared<JobSnapshot>();
  snapshot->request = request_;
  tunefarm::v1::Job& now = snapshot->now;
  now.set_state(::tunefarm::ToProto(row_.state));
  *now.mutable_progress() = Progress();
  now.set_started_at_ms(row_.started_at_ms);
  now.set_ended_at_ms(row_.ended_at_ms);
  SetReason(row_, &now);
  if (now.state_reason().empty()) now.set_state_reason(WaitingReason());
  now.set_device_busy_ms(DeviceBusyMs());
  snapshot->studies.reserve(shown_.size());
  for (const auto& [study_id, study] : shown_) snapshot->studies.push_back(study);
  snapshot_ = std::move(snapshot);
  has_news_ = false;
  published_ = tools_.executor->clock()->Now();
  board_->Publish(id(), snapshot_);
}

void JobRun::PublishWaiting() {
  std::string reason = WaitingReason();
  if (reason == told_waiting_) return;
  told_waiting_ = std::move(reason);
  PublishJob();
}

void JobRun::PublishJob() {
  Publish();
  JobEvent event;
  *event.mutable_job() = ToProto(*snapshot_, true);
  *event.mutable_progress() = event.job().progress();
  tools_.events->Publish(id(), std::move(event));
}

void JobRun::PublishStudy(const Study& study) {
  Publish();
  JobEvent event;
  *event.mutable_study_changed() = *shown_.at(study.context().row.study_id);
  event.set_study(event.study_changed().name());
  *event.mutable_progress() = snapshot_->now.progress();
  tools_.events->Publish(id(), std::move(event));
}

void JobRun::PublishMessage(const std::string& text) {
  JobEvent event;
  event.set_message(text);
  *event.mutable_progress() = Progress();
  tools_.events->Publish(id(), std::move(event));
}

}  // namespace tunefarm
