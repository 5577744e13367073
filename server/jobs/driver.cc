#include "server/jobs/driver.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/base/failpoint.h"
#include "server/base/format.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/jobs/job_view.h"
#include "server/records/resource_names.h"

namespace tunefarm {

using tunefarm::v1::JobEvent;
using tunefarm::v1::Trial;

namespace {

// Of a class with more devices than these, jobs that search at the same time have a share each, but no less than that:
// what all of them propose is what the devices can take.
constexpr int kDevicesOfAJob = 8;

}  // namespace

void Driver::Post(std::function<void(Driver*)> task) {
  deps_.executor->Post([weak = weak_from_this(), task = std::move(task)] {
    if (const auto self = weak.lock()) task(self.get());
  });
}

Driver::Active* Driver::FindActive(int64_t job_id) {
  const auto found = jobs_.find(job_id);
  return found == jobs_.end() ? nullptr : found->second.get();
}

void Driver::Stop() {
  MutexLock lock(&mutex_);
  stopped_ = true;
  for (auto& [job_id, job] : jobs_) {
    deps_.executor->Cancel(job->time_timer);
    deps_.executor->Cancel(job->retry_timer);
  }
}

void Driver::StartTimer(Active& job) {
  const int64_t seconds = job.spec.budget().max_seconds();
  if (seconds <= 0 || job.time_timer != 0 || !job.stop_because.empty()) return;
  // The wall clock counts only what passed before this run.
  const int64_t passed_ms = std::max<int64_t>(0, deps_.executor->clock()->WallMs() - job.row.started_at_ms);
  const auto left = std::chrono::milliseconds(std::max<int64_t>(0, seconds * 1000 - passed_ms));
  job.time_timer = deps_.executor->PostAfter(left, [weak = weak_from_this(), job_id = job.row.job_id, seconds] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    MutexLock lock(&self->mutex_);
    Active* active = self->FindActive(job_id);
    if (active == nullptr || self->stopped_) return;
    self->StopSearch(*active, fmt::format("the time is up ({})", FormatDuration(static_cast<double>(seconds) * 1e9)));
    self->Step(job_id);
  });
}

// ---- What happens ----

void Driver::Begin(Active& job) {
  if (job.done_at_begin < 0) {
    job.began = deps_.executor->clock()->Now();
    job.done_at_begin = ProgressOf(job).done();
  }
  // Whatever was asked for since the claim: the job has started, and its time runs.
  if (job.row.started_at_ms == 0) {
    job.row.started_at_ms = deps_.executor->clock()->WallMs();
    StartTimer(job);
  }
  if (job.row.state != JobState::kQueued) return;
  job.row.state = JobState::kRunning;
  PublishJob(job);
}

void Driver::Claimed(int64_t job_id) {
  Post([job_id](Driver* self) {
    MutexLock lock(&self->mutex_);
    if (Active* job = self->FindActive(job_id)) self->Begin(*job);
  });
}

void Driver::Reported(int64_t study_id, int64_t unit_id, std::vector<Trial> trials, bool done) {
  if (done) {
    MutexLock lock(&arriving_mutex_);
    arriving_.insert(unit_id);
  }
  Post([study_id, unit_id, trials = std::move(trials), done](Driver* self) mutable {
    MutexLock lock(&self->mutex_);
    if (done) {
      MutexLock arriving_lock(&self->arriving_mutex_);
      self->arriving_.erase(unit_id);
    }
    const auto job_id = self->job_of_study_.find(study_id);
    if (job_id == self->job_of_study_.end() || self->stopped_) return;
    Active* job = self->FindActive(job_id->second);
    if (job == nullptr) return;
    Study& study = *job->studies.at(study_id);
    self->AddTrials(*job, study, unit_id, std::move(trials));
    if (!done) {
      self->BeginNext(*job);
      return;
    }
    // Told before, as the store was asked meanwhile; or of a step whose answer was lost, which is read again.
    if (!study.HasUnit(unit_id)) return;
    if (!study.IsComplete(unit_id)) {
      // Some of it may have been reported through others: the store has all of it.
      const absl::StatusOr<bool> taken = self->TakeDone(*job, study);
      if (!taken.ok()) {
        job->broken.insert(study_id);
        self->RetryLater(*job);
        return;
      }
      if (!*taken) job->broken.insert(study_id);
    } else {
      study.UnitDone(unit_id);
    }
    self->StepSoon(*job);
  });
}

void Driver::StepSoon(Active& job) {
  const int64_t job_id = job.row.job_id;
  if (std::exchange(job.step_posted, true)) return;
  const auto step = [weak = weak_from_this(), job_id] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    MutexLock lock(&self->mutex_);
    Active* active = self->FindActive(job_id);
    if (active == nullptr) return;
    active->step_posted = false;
    active->stepped = self->deps_.executor->clock()->Now();
    self->Step(job_id);
  };
  const Duration pause = job.stepped + deps_.node->options().step_pause - deps_.executor->clock()->Now();
  if (pause > Duration::zero()) {
    deps_.executor->PostAfter(pause, step);
  } else {
    deps_.executor->Post(step);
  }
}

int Driver::OpenTrialsWanted(const Active& job, const std::string& class_id, int devices) const {
  // Who compiles for others begins where the devices have not come yet.
  const int times = deps_.link->compiles_for_others() ? 2 : 1;
  const int per_device = deps_.node->options().open_trials_per_device;
  const int all = times * per_device * devices;
  if (devices <= kDevicesOfAJob) return all;
  // What is more urgent leaves them nothing, and what is less urgent takes nothing from them.
  int sharers = 0;
  for (const auto& [job_id, other] : jobs_) {
    if (other->row.priority < job.row.priority || other->row.state == JobState::kPaused) continue;
    sharers += std::any_of(other->studies.begin(), other->studies.end(), [&](const auto& entry) {
      return entry.second->has_begun() && entry.second->state() == StudyState::kSearching &&
             entry.second->context().row.class_id == class_id;
    });
    if (sharers * kDevicesOfAJob >= devices) break;
  }
  return std::max(all / std::max(sharers, 1), per_device * kDevicesOfAJob);
}

void Driver::AddTrials(Active& job, Study& study, int64_t unit_id, std::vector<Trial> trials) {
  const int number = study.context().row.number;
  const std::string study_name = StudyNameOf(job.row.job_id, number);
  const std::vector<const Trial*> added = study.AddTrials(unit_id, std::move(trials));
  const bool is_followed = deps_.events->IsFollowed(job.row.job_id);
  for (const Trial* trial : added) {
    if (!is_followed) break;
    JobEvent event;
    event.set_study(study_name);
    *event.mutable_progress() = ProgressOf(job);
    *event.mutable_trial_ended() = *trial;
    event.mutable_trial_ended()->set_name(TrialNameOf(job.row.job_id, number, trial->ordinal()));
    event.mutable_trial_ended()->mutable_measurement()->clear_sample_ns();
    deps_.events->Publish(job.row.job_id, std::move(event));
  }
  CheckDeviceTime(job);
}

void Driver::Gone(int64_t job_id) {
  Post([job_id](Driver* self) {
    MutexLock lock(&self->mutex_);
    const Active* job = self->FindActive(job_id);
    if (job != nullptr && job->row.state == JobState::kCancelling) self->FinishCancel(job_id);
  });
}

// ---- Steps ----

void Driver::Step(int64_t job_id) {
  Active* job = FindActive(job_id);
  if (job == nullptr || stopped_ || job->retry_timer != 0 || !MayDrive()) return;
  if (job->row.state == JobState::kCancelling) {
    FinishCancel(job_id);
    return;
  }
  if (job->row.state == JobState::kPaused) return;
  bool ended = true;
  std::vector<int64_t> study_ids;
  for (const auto& [study_id, study] : job->studies) study_ids.push_back(study_id);
  for (int64_t study_id : study_ids) {
    if (!StepStudy(*job, study_id)) return;
    ended = ended && job->studies.at(study_id)->state() == StudyState::kEnded;
  }
  if (ended) {
    const std::string lost = WhyAllWereLost(*job);
    EndJob(job_id, lost.empty() ? JobState::kSucceeded : JobState::kFailed, lost);
  } else {
    BeginNext(*job);
  }
}

std::string Driver::WhyAllWereLost(const Active& job) {
  std::string first;
  for (const auto& [study_id, study] : job.studies) {
    std::string why = study->WhyAllWereLost();
    if (why.empty()) return "";
    if (first.empty()) first = std::move(why);
  }
  return first;
}

bool Driver::StepStudy(Active& job, int64_t study_id) {
  std::unique_ptr<Study>& slot = job.studies.at(study_id);
  if (job.broken.count(study_id) > 0) {
    auto again = ReloadStudy(job, study_id);
    if (!again.ok()) {
      OnStepError(job, study_id, again.status());
      return false;
    }
    slot = *std::move(again);
    job.broken.erase(study_id);
  }
  Study& study = *slot;
  if (!study.has_begun() && job.stop_because.empty()) return true;  // its turn comes
  const StudyContext& context = study.context();
  const int devices = std::max(1, deps_.devices->CountReady(context.row.class_id, context.row.device_uuid));
  if (HasLostFinalsDevice(study)) study.LeaveFinalsDevice();
  const auto incumbent =
      deps_.catalog->Find(context.plan->program_digest(), context.row.problem_key, context.row.class_id);
  auto step =
      study.Next(job.stop_because, OpenTrialsWanted(job, context.row.class_id, devices), devices, incumbent.get());
  if (!step.ok()) {
    OnStepError(job, study_id, step.status());
    return false;
  }
  if (study.search_is_over()) deps_.link->StopStudySearch(job.row.job_id, study_id);
  if (step->empty) return true;
  absl::Status committed;
  if (step->promotion.has_value()) committed = Promote(job, study, &*step, incumbent.get());
  if (committed.ok()) {
    step->drive.now_ms = deps_.executor->clock()->WallMs();
    step->drive.driver_epoch = job.epoch;
    committed = Failpoint("jobs.step.before");
  }
  if (committed.ok()) {
    const auto result = deps_.store->Drive(step->drive);
    PassFailpoint("jobs.step.after");
    committed = result.status();
    if (result.ok()) {
      study.Committed(*step, *result);
      job.mismatches = 0;
      if (context.plan->language() == tunefarm::v1::LANGUAGE_CUDA) {
        deps_.link->WillRun(job.row, context.row, context.device_class, step->drive.new_units, result->unit_ids);
      }
    }
  }
  if (!committed.ok()) {
    // What the strategy was asked may or may not be recorded: it is made again from what is.
    OnStepError(job, study_id, committed);
    return false;
  }
  for (const std::string& message : step->messages) {
    PublishMessage(job, fmt::format("{}: {}", context.problem->key, message));
  }
  if (step->drive.state.has_value() || !step->drive.priors.empty()) PublishStudy(job, study);
  if (!step->drive.new_units.empty() || step->drive.device_uuid.has_value()) {
    if (context.row.device_uuid.empty() && !step->drive.device_uuid.has_value() && study.finals_device().empty()) {
      deps_.link->WakeFor(context.row.class_id, step->drive.new_units.size());
    } else {
      deps_.link->Wake();
    }
  }
  return true;
}

bool Driver::HasLostFinalsDevice(const Study& study) const {
  return study.state() == StudyState::kFinals && !study.finals_device().empty() &&
         !deps_.devices->IsReady(study.finals_device()) &&
         deps_.devices->CountReady(study.context().row.class_id, study.device_selector()) > 0;
}

void Driver::FreeFinals() {
  std::vector<int64_t> job_ids;
  for (const auto& [job_id, job] : jobs_) {
    if (std::any_of(job->studies.begin(), job->studies.end(),
                    [&](const auto& study) { return HasLostFinalsDevice(*study.second); })) {
      job_ids.push_back(job_id);
    }
  }
  for (const int64_t job_id : job_ids) Step(job_id);
}

void Driver::OnStepError(Active& job, int64_t study_id, const absl::Status& status) {
  const int64_t job_id = job.row.job_id;
  if (ReasonOf(status) == "DRIVER_EPOCH") {
    Drop(job_id);
    return;
  }
  job.broken.insert(study_id);  // for every error: the job's end may have to wait too, and then steps go on
  if (ReasonOf(status) == "BEST_CHANGED") {
    LogInfo("jobs", "{} is compared again: {}", JobName(job_id), MessageOf(status));
    Post([job_id](Driver* self) {
      MutexLock lock(&self->mutex_);
      self->Step(job_id);
    });
    return;
  }
  // The store may have been put back to what it was: what it has now is what counts.
  const bool is_mismatch = status.code() == absl::StatusCode::kFailedPrecondition && ++job.mismatches <= kMismatchesMax;
  if (status.code() == absl::StatusCode::kUnavailable || is_mismatch) {
    LogWarn("jobs", "{} waits, its next step cannot be stored: {}", JobName(job_id), MessageOf(status));
    RetryLater(job);
    return;
  }
  LogError("jobs", "{} cannot go on: {}", JobName(job_id), MessageOf(status));
  EndJob(job_id, JobState::kFailed, std::string(MessageOf(status)));
}

void Driver::RetryLater(Active& job) {
  if (job.retry_timer != 0) return;
  job.retry_timer = deps_.executor->PostAfter(kStepRetryDelay, [weak = weak_from_this(), job_id = job.row.job_id] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    MutexLock lock(&self->mutex_);
    if (Active* again = self->FindActive(job_id)) {
      again->retry_timer = 0;
      self->Step(job_id);
    }
  });
}

tunefarm::v1::BestConfig Driver::BestOf(const Active& job, const Study& study,
                                        const StudyStep::Promotion& promotion) const {
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
  best.set_job(JobName(job.row.job_id));
  best.set_ordinal(promotion.winner.ordinal());
  best.set_driver_version(deps_.devices->DriverOf(promotion.winner.device_uuid()));
  best.set_toolkit_version(deps_.devices->ToolkitOf(promotion.winner.device_uuid()));
  best.set_promoted_at_ms(deps_.executor->clock()->WallMs());
  if (const auto config = plan.ParseConfig(promotion.winner.config()); config.ok()) {
    best.set_flops(plan.Flops(*context.problem, *config, context.device_class));
    best.set_bytes(plan.Bytes(*context.problem, *config, context.device_class));
  }
  best.set_floor_ns(context.floor_ns);
  return best;
}

absl::Status Driver::Promote(Active& job, Study& study, StudyStep* step, const tunefarm::v1::BestConfig* incumbent) {
  const StudyContext& context = study.context();
  const StudyStep::Promotion& promotion = *step->promotion;
  const tunefarm::v1::BestConfig best = BestOf(job, study, promotion);
  ASSIGN_OR_RETURN(const Config config, context.plan->ParseConfig(promotion.winner.config()));
  BestRow row;
  row.kernel_name = context.plan->display_name();
  row.kernel_id = context.plan->kernel_id();
  row.program_digest = context.plan->program_digest();
  row.problem_key = context.row.problem_key;
  row.class_id = context.row.class_id;
  row.config = config.ToText();
  row.detail = best.SerializeAsString();
  row.median_ns = best.measurement().median_ns();
  row.job_id = job.row.job_id;
  row.study_id = context.row.study_id;
  row.ordinal = promotion.winner.ordinal();
  row.promoted_at_ms = best.promoted_at_ms();
  // Another daemon may be promoting for the same problem: who comes second is measured against who came first.
  row.compared_with = incumbent == nullptr ? 0 : incumbent->revision();
  ASSIGN_OR_RETURN(const PromotionVerdict verdict, deps_.bests->Promote(row));
  RETURN_IF_ERROR(Failpoint("jobs.promote.after"));
  if (verdict == PromotionVerdict::kKeptPinned) study.NoteNotPromoted("the best is pinned", step);
  const auto filed = deps_.catalog->Find(row.program_digest, row.problem_key, row.class_id);
  // What is not in the catalog has no revision.
  const bool is_own = filed != nullptr && filed->job() == best.job() && filed->ordinal() == best.ordinal();
  study.SetBest(verdict == PromotionVerdict::kFiled && is_own ? *filed : best);
  return absl::OkStatus();
}

void Driver::EndJob(int64_t job_id, JobState to, const std::string& error) {
  PassFailpoint("jobs.end.before");
  Active* job = FindActive(job_id);
  const auto own = epochs_.find(job_id);
  if (own == epochs_.end() || !MayDrive()) return;
  std::vector<JobState> from = {JobState::kQueued, JobState::kRunning, JobState::kPaused, JobState::kCancelling};
  // Somebody may have asked another daemon for something else a moment ago.
  if (to == JobState::kSucceeded) from = {JobState::kQueued, JobState::kRunning};
  const absl::Status ended =
      deps_.store->SetJobState(job_id, from, to, error, deps_.executor->clock()->WallMs(), own->second);
  if (ended.ok()) {
    Ended(job_id, to, error);
    return;
  }
  if (ReasonOf(ended) == "DRIVER_EPOCH" || absl::IsNotFound(ended)) {
    Drop(job_id);
    return;
  }
  LogWarn("jobs", "the end of {} cannot be stored yet: {}", JobName(job_id), MessageOf(ended));
  if (job != nullptr) {
    RetryLater(*job);
  } else if (to == JobState::kCancelled) {
    FinishCancelLater(job_id);
  }
}

void Driver::FinishCancelLater(int64_t job_id) {
  deps_.executor->PostAfter(kStepRetryDelay, [weak = weak_from_this(), job_id] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    MutexLock lock(&self->mutex_);
    if (!self->stopped_) self->FinishCancel(job_id);
  });
}

void Driver::Ended(int64_t job_id, JobState to, const std::string& error) {
  Active* job = FindActive(job_id);
  const bool is_published = job != nullptr;
  if (job != nullptr) {
    job->row.state = to;
    job->row.error = error;
    job->row.ended_at_ms = deps_.executor->clock()->WallMs();
    PublishJob(*job);
    deps_.executor->Cancel(job->time_timer);
    deps_.executor->Cancel(job->retry_timer);
    for (const auto& [study_id, study] : job->studies) job_of_study_.erase(study_id);
    jobs_.erase(job_id);
  }
  epochs_.erase(job_id);
  MakeRoom(job_id);
  deps_.events->End(job_id, !is_published);
  deps_.link->Forget(job_id);
  deps_.link->Wake();
  LogInfo("jobs", "{} {}{}{}", JobName(job_id), NameOf(to), error.empty() ? "" : ": ", error);
}

}  // namespace tunefarm
