#include "server/jobs/job_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/base/check.h"
#include "server/base/failpoint.h"
#include "server/base/format.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/jobs/job_summary.h"
#include "server/jobs/job_view.h"
#include "server/jobs/promotion.h"
#include "server/jobs/saturating.h"
#include "server/measure/kept_samples.h"
#include "server/records/resource_names.h"
#include "server/records/trial_rows.h"
#include "server/store/job_store.h"
#include "server/store/trial_store.h"

namespace tunefarm {

using tunefarm::v1::JobEvent;
using tunefarm::v1::Trial;

namespace {

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

JobRun::JobRun(const JobTools& tools, JobBoard* board, JobRow row, std::shared_ptr<const StudyLoader> loader,
               std::shared_ptr<std::atomic<bool>> is_given_up)
    : tools_(tools),
      board_(board),
      row_(std::move(row)),
      loader_(std::move(loader)),
      is_given_up_(std::move(is_given_up)) {}

absl::StatusOr<std::unique_ptr<JobRun>> JobRun::Load(const JobTools& tools, JobBoard* board, const JobRow& row,
                                                     Duration give_up_after,
                                                     std::shared_ptr<std::atomic<bool>> is_given_up) {
  ASSIGN_OR_RETURN(auto loader, StudyLoader::Create({tools.store, tools.kernels, tools.catalog}, row, is_given_up));
  std::unique_ptr<JobRun> run(new JobRun(tools, board, row, std::move(loader), std::move(is_given_up)));
  for (const StudyRow& study_row : row.studies) {
    const std::shared_ptr<WorkLimit> limit = run->loader_->NewLimit();
    limit->Begin(kTaskTime, give_up_after);
    ASSIGN_OR_RETURN(run->studies_[study_row.study_id], run->loader_->Load(study_row, limit));
    run->changed_.insert(study_row.study_id);
  }
  tunefarm::v1::Job request = run->spec();
  request.clear_starting_configs();
  request.set_name(JobName(row.job_id));
  request.set_uid(row.uid);
  request.set_created_at_ms(row.created_at_ms);
  run->request_ = std::make_shared<const tunefarm::v1::Job>(std::move(request));
  return run;
}

// ---- The job's state ----

void JobRun::TakeUp(JobRow row, int64_t epoch, const ArrivingUnits& arriving) {
  row_ = std::move(row);
  epoch_ = epoch;
  for (const auto& [study_id, study] : studies_) {
    if (!study->HasOpenUnits()) continue;
    const absl::Status status = CatchUp(study_id, arriving);
    if (!status.ok()) LogWarn("jobs", "{} is read again: {}", JobName(id()), MessageOf(status));
  }
  lacks_device_ = !DeviceReason().empty();
  told_waiting_ = WaitingReason();
  PublishJob();
}

void JobRun::SetState(JobState state, const std::string& reason) {
  row_.state = state;
  row_.state_reason = reason;
  last_ended_ = tools_.executor->clock()->Now();
  if (IsTerminal(state)) row_.ended_at_ms = tools_.executor->clock()->WallMs();
  PublishJob();
}

void JobRun::Begin() {
  if (done_at_begin_ < 0) {
    began_ = last_ended_ = tools_.executor->clock()->Now();
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
  for (const auto& [study_id, task] : tasks_) {
    if (task.kind != TaskKind::kLoadAgain) task.limit->Cancel();
  }
  PublishMessage(stop_because_ + ": the best so far go to the final");
  tools_.link->StopSearch(id());
}

bool JobRun::CheckDeviceTime() {
  const double seconds = spec().budget().max_device_seconds();
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
  const MonotonicTime now = tools_.executor->clock()->Now();
  // Before the job has begun here no time of a last trial is known, and while it is paused or without a device none
  // should end.
  if (has_begun() && row_.state == JobState::kRunning && !lacks_device_)
    longest_wait_ = std::max(longest_wait_, now - last_ended_);
  last_ended_ = now;
  changed_.insert(study_id);
  has_news_ = true;
  if (!told_waiting_.empty()) PublishWaiting();
  if (!tools_.events->IsFollowed(id())) return;
  // What a watcher has been told is in the snapshot that another one begins with.
  Publish();
  for (const Trial* trial : added) {
    JobEvent event;
    event.set_study(study_name);
    *event.mutable_progress() = snapshot_->now.progress();
    *event.mutable_trial_ended() = *trial;
    event.mutable_trial_ended()->set_name(TrialNameOf(id(), number, trial->ordinal()));
    DropSamples(event.mutable_trial_ended()->mutable_measurement());
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
  if (tasks_.count(study_id) > 0) return false;
  // Of those that have not begun each has its turn, unless none is to begin any more.
  return broken_.count(study_id) > 0 || is_stopped() || studies_.at(study_id)->has_begun();
}

int JobRun::DevicesFor(int64_t study_id) const {
  const StudyRow& row = studies_.at(study_id)->context().row;
  return std::max(1, tools_.devices->CountReady(row.class_id, row.device_selector));
}

StudyTask JobRun::PrepareStep(int64_t study_id, int open_trials_wanted, int devices) {
  TUNEFARM_CHECK(NeedsStep(study_id));
  if (broken_.count(study_id) > 0) {
    answers_.erase(study_id);
    const std::shared_ptr<WorkLimit> limit = loader_->NewLimit();
    tasks_[study_id] = {TaskKind::kLoadAgain, limit};
    return [loader = loader_, study_id, limit,
            give_up_after = GiveUpAfter(study_id)]() -> absl::StatusOr<StudyTaskResult> {
      limit->Begin(kTaskTime, give_up_after);
      StudyTaskResult result;
      ASSIGN_OR_RETURN(result.study, loader->LoadAgain(study_id, limit));
      return result;
    };
  }
  if (answers_.count(study_id) > 0) return nullptr;
  Study& own = study(study_id);
  std::optional<Proposer::Question> question = own.Prepare(stop_because_, open_trials_wanted, devices);
  if (!question.has_value()) return nullptr;
  tasks_[study_id] = {TaskKind::kAsk, std::shared_ptr<WorkLimit>(own.proposer(), &own.proposer()->limit())};
  return [proposer = own.proposer(), question = *std::move(question)]() mutable -> absl::StatusOr<StudyTaskResult> {
    StudyTaskResult result;
    ASSIGN_OR_RETURN(result.answer, proposer->Ask(std::move(question)));
    return result;
  };
}

absl::Status JobRun::FinishTask(int64_t study_id, absl::StatusOr<StudyTaskResult> result,
                                const ArrivingUnits& arriving) {
  const auto task = tasks_.find(study_id);
  TUNEFARM_CHECK(task != tasks_.end());
  const TaskKind kind = task->second.kind;
  tasks_.erase(task);
  std::unique_ptr<Study>& slot = studies_.at(study_id);
  if (kind != TaskKind::kAsk && ReasonOf(result.status()) == kWorkLimitReason && slow_.insert(study_id).second) {
    return absl::OkStatus();  // again, with more time
  }
  if (absl::IsCancelled(result.status()) && is_stopped() && kind != TaskKind::kLoadAgain) {
    if (kind == TaskKind::kAsk && broken_.count(study_id) == 0) answers_[study_id] = {};
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(result.status());
  switch (kind) {
    case TaskKind::kAsk:
      if (slot->proposer() != nullptr && slot->proposer()->is_slow()) slow_.insert(study_id);
      if (broken_.count(study_id) == 0) answers_[study_id] = std::move(result->answer);
      return absl::OkStatus();
    case TaskKind::kBegin:
      // Whatever has happened to it meanwhile is stored, and only what has not begun may be replaced.
      if (slot->has_begun() || broken_.count(study_id) > 0) return absl::OkStatus();
      slot = std::move(result->study);
      changed_.insert(study_id);
      return absl::OkStatus();
    case TaskKind::kLoadAgain:
      slot = std::move(result->study);
      changed_.insert(study_id);
      broken_.erase(study_id);
  }
  return CatchUp(study_id, arriving);
}

absl::Status JobRun::CatchUp(int64_t study_id, const ArrivingUnits& arriving) {
  const Study& own = study(study_id);
  size_t known = 0;
  do {
    known = own.done_units().size();
    const absl::StatusOr<bool> taken = TakeDone(study_id, arriving);
    if (!taken.ok() || !*taken) Break(study_id);
    RETURN_IF_ERROR(taken.status());
  } while (own.done_units().size() > known);
  return absl::OkStatus();
}

std::shared_ptr<const tunefarm::v1::BestConfig> JobRun::IncumbentOf(const Study& study) const {
  const StudyContext& context = study.context();
  return tools_.catalog->Find(context.plan->program_digest(), context.row.problem_key, context.row.class_id);
}

absl::Status JobRun::StepStudy(int64_t study_id) {
  Study& own = study(study_id);
  if (HasLostFinalsDevice(own)) own.LeaveFinalsDevice();
  const auto incumbent = IncumbentOf(own);
  std::optional<Proposer::Answer> answer;
  if (const auto found = answers_.find(study_id); found != answers_.end()) {
    answer = std::move(found->second);
    answers_.erase(found);
  }
  ASSIGN_OR_RETURN(StudyStep step, own.Next(stop_because_, answer.has_value() ? &*answer : nullptr, incumbent.get()));
  // What the strategy was asked may or may not be recorded: after an error it is made again from what is.
  if (!step.empty) RETURN_IF_ERROR(Commit(own, &step, incumbent.get()));
  // Only what is recorded: a run that is made again, here or on another node, may find other results and search on, and
  // would miss the units that were withdrawn.
  if (own.search_is_over()) tools_.link->StopStudySearch(id(), study_id);
  if (step.empty) return absl::OkStatus();
  changed_.insert(study_id);
  has_news_ = true;
  Announce(own, step);
  return absl::OkStatus();
}

absl::Status JobRun::Commit(Study& study, StudyStep* step, const tunefarm::v1::BestConfig* incumbent) {
  const StudyContext& context = study.context();
  if (step->promotion.has_value()) {
    RETURN_IF_ERROR(
        Promote({tools_.devices, tools_.catalog, tools_.bests, tools_.executor->clock()}, incumbent, &study, step));
  }
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
    const std::string& problem = context.problem->key;  // Empty where the kernel has no dims.
    PublishMessage(problem.empty() ? message : fmt::format("{}: {}", problem, message));
  }
  if (step.drive.state.has_value() || !step.drive.priors.empty()) PublishStudy(study);
  if (step.drive.new_units.empty() && !step.drive.device_selector.has_value()) return;
  if (context.row.device_selector.empty() && !step.drive.device_selector.has_value() && study.finals_device().empty()) {
    tools_.link->WakeFor(context.row.class_id, step.drive.new_units.size());
  } else {
    tools_.link->Wake();
  }
}

std::optional<JobRun::Beginning> JobRun::TakeNextToBegin() {
  if (is_stopped() || (row_.state != JobState::kQueued && row_.state != JobState::kRunning)) return std::nullopt;
  for (const auto& [study_id, task] : tasks_) {
    if (task.kind == TaskKind::kBegin) return std::nullopt;
  }
  // Devices of one class take no work of another one's studies.
  std::map<std::string, int64_t> open;
  std::set<std::string> waiting;
  for (const auto& [study_id, study] : studies_) {
    if (!study->has_begun()) continue;
    const std::string& class_id = study->context().row.class_id;
    open[class_id] += study->open_trials();
    if (tasks_.count(study_id) > 0) waiting.insert(class_id);  // for what it is about to propose
  }
  for (const auto& [study_id, study] : studies_) {
    const StudyRow& row = study->context().row;
    if (study->has_begun() || broken_.count(study_id) > 0 || !waiting.insert(row.class_id).second) continue;
    if (open[row.class_id] >= OpenAtBegin(study->context(), DevicesFor(study_id))) continue;
    const std::shared_ptr<WorkLimit> limit = loader_->NewLimit();
    tasks_[study_id] = {TaskKind::kBegin, limit};
    return Beginning{study_id,
                     [loader = loader_, context = study->context(), limit,
                      give_up_after = GiveUpAfter(study_id)]() -> absl::StatusOr<StudyTaskResult> {
                       limit->Begin(kTaskTime, give_up_after);
                       StudyTaskResult result;
                       ASSIGN_OR_RETURN(result.study, loader->Begin(context, limit));
                       return result;
                     }};
  }
  return std::nullopt;
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
  // The pace of other problems does not predict that of a running one without a result.
  bool has_pace = QuietTime() == Duration::zero();
  for (const auto& [study_id, study] : studies_) {
    study->AddProgress(&progress);
    if (study->HasOpenUnits() && !study->has_ended_trials()) has_pace = false;
  }
  const int64_t done_now = progress.done() - done_at_begin_;
  if (done_at_begin_ >= 0 && done_now > 0 && has_pace && !IsTerminal(row_.state)) {
    const auto elapsed =
        std::chrono::duration_cast<std::chrono::milliseconds>(tools_.executor->clock()->Now() - began_).count();
    const int64_t left = SaturatingAdd(std::max<int64_t>(0, progress.total() - progress.done()),
                                       std::max<int64_t>(0, progress.finals_total() - progress.finals_done()));
    progress.set_eta_ms(
        SaturatingInt64(static_cast<double>(elapsed) / static_cast<double>(done_now) * static_cast<double>(left)));
  }
  return progress;
}

std::string JobRun::DeviceReason() const {
  if (row_.state != JobState::kQueued && row_.state != JobState::kRunning) return {};
  std::string reason;
  for (const auto& [study_id, study] : studies_) {
    if (study->state() == StudyState::kEnded) continue;
    reason = tools_.devices->WaitingReason(study->context().row.class_id, study->context().row.device_selector);
    if (reason.empty()) break;
  }
  return reason;
}

std::string JobRun::WaitingReason() const {
  if (row_.state != JobState::kQueued && row_.state != JobState::kRunning) return {};
  std::string reason = DeviceReason();
  if (reason.empty()) reason = SpaceReason();
  return reason.empty() ? QuietReason() : reason;
}

Duration JobRun::QuietTime() const {
  if (!has_begun() || row_.state != JobState::kRunning) return Duration::zero();
  const Duration waited = tools_.executor->clock()->Now() - last_ended_;
  if (waited < QuietFirst()) return Duration::zero();
  Duration told = QuietFirst();
  while (told <= waited / 2) told *= 2;
  return told;
}

Duration JobRun::UntilQuiet() const {
  const Duration waited = tools_.executor->clock()->Now() - last_ended_;
  Duration next = QuietFirst();
  while (next <= waited) next *= 2;
  return next - waited;
}

std::string JobRun::QuietReason() const {
  const Duration quiet = QuietTime();
  if (quiet == Duration::zero()) return {};
  // Of several studies, preferably one without a result.
  const Study* waited = nullptr;
  for (const auto& [study_id, study] : studies_) {
    if (study->open_trials() == 0) continue;
    if (waited == nullptr || (waited->has_ended_trials() && !study->has_ended_trials())) waited = study.get();
  }
  if (waited == nullptr) return {};
  const std::string& problem = waited->context().problem->key;  // empty where the kernel has no dims
  return fmt::format("waiting for the {} trial{} for more than {}: it compiles, {}or other jobs use the device",
                     waited->has_ended_trials() ? "next" : "first", problem.empty() ? "" : " of " + problem,
                     FormatDuration(std::chrono::duration<double, std::nano>(quiet).count()),
                     waited->has_ended_trials() ? "it runs, " : "its inputs and its reference are prepared, ");
}

std::string JobRun::SpaceReason() const {
  std::string reason;
  for (const auto& [study_id, study] : studies_) {
    if (study->HasOpenUnits()) return {};
    const auto task = tasks_.find(study_id);
    if (task == tasks_.end() || task->second.kind == TaskKind::kAsk || !IsSlow(study_id)) continue;
    reason = fmt::format("building the space of {}, which takes long", study->context().problem->key);
  }
  return reason;
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
  SummaryOfStudies summary;
  snapshot->studies.reserve(shown_.size());
  for (const auto& [study_id, study] : shown_) {
    summary.Add(*study);
    snapshot->studies.push_back(study);
  }
  *now.mutable_summary() = summary.Get(now.progress());
  snapshot_ = std::move(snapshot);
  has_news_ = false;
  published_ = tools_.executor->clock()->Now();
  board_->Publish(id(), snapshot_);
}

void JobRun::PublishWaiting() {
  const bool lacked_device = lacks_device_;
  lacks_device_ = !DeviceReason().empty();
  if (lacked_device && !lacks_device_) last_ended_ = tools_.executor->clock()->Now();
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
