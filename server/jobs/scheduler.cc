#include "server/jobs/scheduler.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/base/failpoint.h"
#include "server/base/format.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/records/resource_names.h"

namespace tunefarm {

using tunefarm::v1::Trial;

namespace {

// Enough to keep every device of a class busy while jobs come and go, few enough to hold their spaces in memory.
constexpr size_t kHeldPerClassMax = 64;
// Of a class with more devices than these, jobs that search at the same time have a share each, but no less than that:
// what all of them propose is what the devices can take.
constexpr int kDevicesOfAJob = 8;

}  // namespace

Scheduler::Scheduler(const Dependencies& dependencies)
    : deps_(dependencies),
      orders_(deps_.store, deps_.executor->clock(), &board_),
      adoption_(deps_.store, deps_.node, &board_),
      admission_(kHeldPerClassMax),
      others_(deps_.link) {}

Scheduler::Work::~Work() {
  Scheduler& s = *scheduler_;
  s.board_.SetCounts(static_cast<int>(s.jobs_.size() + s.admission_.out()), !s.jobs_.empty() || !s.others_.empty());
  s.turn_.Give();
}

TimerId Scheduler::Post(std::function<void(Scheduler*)> task, Duration delay) {
  auto run = [weak = weak_from_this(), task = std::move(task)] {
    if (const auto self = weak.lock()) task(self.get());
  };
  if (delay > Duration::zero()) return deps_.executor->PostAfter(delay, std::move(run));
  deps_.executor->Post(std::move(run));
  return 0;
}

void Scheduler::PostTask(std::function<void(Scheduler*)> task, std::optional<std::string> slow_owner) {
  if (stopped_) return;
  auto run = [weak = weak_from_this(), task = std::move(task)] {
    if (const auto self = weak.lock()) task(self.get());
  };
  if (slow_owner.has_value()) {
    deps_.tasks->PostSlow(*std::move(slow_owner), std::move(run));
  } else {
    deps_.tasks->Post(std::move(run));
  }
}

Scheduler::Driven* Scheduler::FindRun(int64_t job_id) {
  const auto found = jobs_.find(job_id);
  return found == jobs_.end() ? nullptr : &found->second;
}

std::optional<tunefarm::v1::Job> Scheduler::Find(int64_t job_id, bool with_studies) const {
  const std::string name = board_.name();
  if (name.empty() || deps_.node->Name() != name) return std::nullopt;  // another node may be further
  return board_.Find(job_id, with_studies);
}

void Scheduler::Stop() {
  const Work work(this);
  stopped_ = true;
  for (const auto& [job_id, driven] : jobs_) {
    for (const TimerId timer : {driven.time_timer, driven.retry_timer, driven.publish_timer, driven.quiet_timer}) {
      deps_.executor->Cancel(timer);
    }
    driven.run->GiveUpTasks();
  }
  loading_.GiveUpAll();
}

// ---- What happens ----

void Scheduler::StartTimers(Driven& driven) {
  const JobRun& run = *driven.run;
  if (run.has_begun() && driven.quiet_timer == 0) {
    driven.quiet_timer = Post(
        [job_id = run.id()](Scheduler* self) {
          const Work work(self);
          Driven* const quiet = self->FindRun(job_id);
          if (quiet == nullptr || self->stopped_) return;
          quiet->quiet_timer = 0;
          quiet->run->PublishWaiting();
          self->StartTimers(*quiet);
        },
        run.UntilQuiet());
  }
  const int64_t seconds = run.spec().budget().max_seconds();
  if (seconds <= 0 || run.row().started_at_ms == 0 || driven.time_timer != 0 || run.is_stopped()) return;
  // The wall clock counts only what passed before this run.
  const int64_t passed_ms = std::max<int64_t>(0, deps_.executor->clock()->WallMs() - run.row().started_at_ms);
  const auto left = std::chrono::milliseconds(std::max<int64_t>(1, seconds * 1000 - passed_ms));
  driven.time_timer = Post(
      [job_id = run.id(), seconds](Scheduler* self) {
        const Work work(self);
        Driven* const late = self->FindRun(job_id);
        if (late == nullptr || self->stopped_) return;
        late->run->StopSearch(fmt::format("the time is up ({})", FormatDuration(static_cast<double>(seconds) * 1e9)));
        self->Step(job_id);
      },
      left);
}

void Scheduler::Claimed(int64_t job_id) {
  Post([job_id](Scheduler* self) {
    const Work work(self);
    Driven* const driven = self->FindRun(job_id);
    if (driven == nullptr) return;
    driven->run->Begin();
    self->StartTimers(*driven);
    self->PublishSoon(*driven);
  });
}

void Scheduler::Reported(int64_t study_id, int64_t unit_id, std::vector<Trial> trials, bool done) {
  if (done) arriving_.Add(unit_id);
  Post([study_id, unit_id, trials = std::move(trials), done](Scheduler* self) mutable {
    const Work work(self);
    if (done) self->arriving_.Remove(unit_id);
    const auto job_id = self->job_of_study_.find(study_id);
    Driven* const driven = job_id == self->job_of_study_.end() ? nullptr : self->FindRun(job_id->second);
    if (driven == nullptr || self->stopped_) return;
    JobRun& run = *driven->run;
    run.AddTrials(study_id, unit_id, std::move(trials));
    if (run.CheckDeviceTime()) self->StepSoon(*driven);
    self->PublishSoon(*driven);
    if (!done) {
      self->BeginNext(*driven);
      return;
    }
    Study& study = run.study(study_id);
    // Told before, as the store was asked meanwhile; or of a step whose answer was lost, which is read again.
    if (!study.HasUnit(unit_id)) return;
    if (study.IsComplete(unit_id)) {
      study.UnitDone(unit_id);
    } else {
      // Some of it may have been reported through others: the store has all of it.
      const absl::StatusOr<bool> taken = run.TakeDone(study_id, self->arriving_);
      if (!taken.ok() || !*taken) run.Break(study_id);
      if (!taken.ok()) {
        self->RetryLater(*driven);
        return;
      }
    }
    self->StepSoon(*driven);
  });
}

void Scheduler::Gone(int64_t job_id) {
  Post([job_id](Scheduler* self) {
    const Work work(self);
    const Driven* const driven = self->FindRun(job_id);
    const bool may_end = driven != nullptr ? driven->run->row().state == JobState::kCancelling
                                           : self->admission_.parked().count(job_id) > 0;
    if (may_end) self->FinishCancel(job_id);
  });
}

void Scheduler::TellWaiting() {
  Post([](Scheduler* self) {
    const Work work(self);
    for (auto& [job_id, driven] : self->jobs_) {
      driven.run->PublishWaiting();
      // With a device again it waits from now on.
      self->deps_.executor->Cancel(driven.quiet_timer);
      driven.quiet_timer = 0;
      self->StartTimers(driven);
      if (driven.run->HasLostFinalsDevice()) self->StepSoon(driven);
    }
  });
}

void Scheduler::AgentsChanged() {
  Post([](Scheduler* self) {
    const Work work(self);
    std::vector<int64_t> cancelling;
    for (const int64_t job_id : self->admission_.parked()) {
      if (self->FindRun(job_id) == nullptr) cancelling.push_back(job_id);
    }
    for (const auto& [job_id, driven] : self->jobs_) {
      if (driven.run->row().state == JobState::kCancelling) cancelling.push_back(job_id);
    }
    for (const int64_t job_id : cancelling) self->FinishCancel(job_id);
  });
  TellWaiting();
}

void Scheduler::PublishSoon(Driven& driven) {
  JobRun& run = *driven.run;
  if (!run.has_news() || driven.publish_timer != 0) return;
  const Duration left = run.published() + JobRun::kPublishPause - deps_.executor->clock()->Now();
  if (left <= Duration::zero()) {
    run.Publish();
    return;
  }
  driven.publish_timer = Post(
      [job_id = run.id()](Scheduler* self) {
        const Work work(self);
        Driven* const late = self->FindRun(job_id);
        if (late == nullptr) return;
        late->publish_timer = 0;
        if (late->run->has_news()) late->run->Publish();
      },
      left);
}

// ---- Steps ----

void Scheduler::StepSoon(Driven& driven) {
  if (std::exchange(driven.step_posted, true)) return;
  const Duration pause = driven.stepped + deps_.node->options().step_pause - deps_.executor->clock()->Now();
  Post(
      [job_id = driven.run->id()](Scheduler* self) {
        const Work work(self);
        Driven* const later = self->FindRun(job_id);
        if (later == nullptr) return;
        later->step_posted = false;
        later->stepped = self->deps_.executor->clock()->Now();
        self->Step(job_id);
      },
      pause);
}

int Scheduler::OpenTrialsWanted(const JobRun& run, const std::string& class_id, int devices) const {
  // Who compiles for others begins where the devices have not come yet.
  const int times = deps_.link->compiles_for_others() ? 2 : 1;
  const int per_device = deps_.node->options().open_trials_per_device;
  const int all = times * per_device * devices;
  if (devices <= kDevicesOfAJob) return all;
  // What is more urgent leaves them nothing, and what is less urgent takes nothing from them.
  int sharers = 0;
  for (const auto& [job_id, other] : jobs_) {
    const JobRow& row = other.run->row();
    if (row.priority < run.row().priority || row.state == JobState::kPaused) continue;
    sharers += other.run->IsSearching(class_id);
    if (sharers * kDevicesOfAJob >= devices) break;
  }
  return std::max(all / std::max(sharers, 1), per_device * kDevicesOfAJob);
}

void Scheduler::Step(int64_t job_id, std::optional<int64_t> only) {
  TakeOrders();
  Driven* const driven = FindRun(job_id);
  if (driven == nullptr || stopped_ || driven->retry_timer != 0 || !adoption_.MayDrive()) return;
  JobRun& run = *driven->run;
  if (run.row().state == JobState::kCancelling) {
    FinishCancel(job_id);
    return;
  }
  if (run.row().state == JobState::kPaused) return;
  for (const auto& [study_id, study] : run.studies()) {
    if (only.value_or(study_id) != study_id || !run.NeedsStep(study_id)) continue;
    // Orders come between the steps of two studies.
    if (turn_.IsWanted() || !board_.Orders().empty()) {
      StepSoon(*driven);
      return;
    }
    const int devices = run.DevicesFor(study_id);
    const int open_trials = OpenTrialsWanted(run, study->context().row.class_id, devices);
    if (StudyTask task = run.PrepareStep(study_id, open_trials, devices)) {
      RunTask(*driven, study_id, std::move(task));
      continue;
    }
    const absl::Status stepped = run.StepStudy(study_id);
    if (!stepped.ok()) {
      OnStepError(*driven, study_id, stepped);
      return;
    }
    // What was reported while the strategy was asked.
    if (study->HasDoneUnits()) StepSoon(*driven);
  }
  if (run.HasEnded()) {
    const std::string lost = run.WhyAllWereLost();
    EndJob(job_id, lost.empty() ? JobState::kSucceeded : JobState::kFailed, lost);
    return;
  }
  BeginNext(*driven);
  PublishSoon(*driven);
}

void Scheduler::BeginNext(Driven& driven) {
  if (driven.retry_timer != 0 || stopped_) return;
  if (auto next = driven.run->TakeNextToBegin()) RunTask(driven, next->study_id, std::move(next->task));
}

void Scheduler::RunTask(const Driven& driven, int64_t study_id, StudyTask task) {
  const bool is_slow = driven.run->IsSlow(study_id);
  if (is_slow) driven.run->PublishWaiting();
  const auto begin = [run = driven.run, study_id, is_slow, task = std::move(task)](Scheduler* self) {
    // Shared, since tasks of executors can be copied.
    const auto result = std::make_shared<absl::StatusOr<StudyTaskResult>>(task());
    self->Post([run, study_id, is_slow, result](Scheduler* later) {
      const Work work(later);
      Driven* const now = later->FindRun(run->id());
      // The job may have been given up meanwhile, and taken up again.
      if (now == nullptr || now->run != run || later->stopped_) return;
      const absl::Status status = run->FinishTask(study_id, std::move(*result), later->arriving_);
      if (is_slow) run->PublishWaiting();
      if (status.ok()) {
        later->Step(run->id(), study_id);
      } else if (run->row().state != JobState::kCancelling) {
        // Else somebody wanted its end meanwhile, which waits for the units in flight: the job ends with that.
        later->OnStepError(*now, study_id, status);
      }
    });
  };
  PostTask(begin, is_slow ? std::optional(driven.run->spec().submitted_by()) : std::nullopt);
}

void Scheduler::OnStepError(Driven& driven, int64_t study_id, const absl::Status& status) {
  JobRun& run = *driven.run;
  const int64_t job_id = run.id();
  if (ReasonOf(status) == "DRIVER_EPOCH") {
    Remove(job_id);
    return;
  }
  run.Break(study_id);  // for every error: the job's end may have to wait too, and then steps go on
  if (ReasonOf(status) == "BEST_CHANGED") {
    LogInfo("jobs", "{} is compared again: {}", JobName(job_id), MessageOf(status));
    StepSoon(driven);
    return;
  }
  // The database may have been restored: its present content counts.
  const bool is_mismatch =
      status.code() == absl::StatusCode::kFailedPrecondition && run.CountMismatch() <= kMismatchesMax;
  if (status.code() == absl::StatusCode::kUnavailable || is_mismatch) {
    LogWarn("jobs", "{} waits, its next step cannot be stored: {}", JobName(job_id), MessageOf(status));
    RetryLater(driven);
    return;
  }
  LogError("jobs", "{} cannot go on: {}", JobName(job_id), MessageOf(status));
  EndJob(job_id, JobState::kFailed, std::string(MessageOf(status)));
}

void Scheduler::RetryLater(Driven& driven) {
  if (driven.retry_timer != 0) return;
  driven.retry_timer = Post(
      [job_id = driven.run->id()](Scheduler* self) {
        const Work work(self);
        Driven* const again = self->FindRun(job_id);
        if (again == nullptr) return;
        again->retry_timer = 0;
        self->Step(job_id);
      },
      kStepRetryDelay);
}

// ---- Ends ----

void Scheduler::EndJob(int64_t job_id, JobState to, const std::string& error) {
  PassFailpoint("jobs.end.before");
  const std::optional<int64_t> epoch = adoption_.EpochOf(job_id);
  if (!epoch.has_value() || !adoption_.MayDrive()) return;
  std::vector<JobState> from = {JobState::kQueued, JobState::kRunning, JobState::kPaused, JobState::kCancelling};
  // Somebody may have asked another daemon for something else a moment ago.
  if (to == JobState::kSucceeded) from = {JobState::kQueued, JobState::kRunning};
  if (to == JobState::kCancelled) from = {JobState::kCancelling};
  const absl::Status ended =
      deps_.store->jobs()->SetJobState(job_id, from, to, error, deps_.executor->clock()->WallMs(), *epoch);
  if (ended.ok()) {
    Ended(job_id, to, error);
    return;
  }
  if (ReasonOf(ended) == "DRIVER_EPOCH" || absl::IsNotFound(ended)) {
    Remove(job_id);
    return;
  }
  LogWarn("jobs", "the end of {} cannot be stored yet: {}", JobName(job_id), MessageOf(ended));
  if (Driven* const driven = FindRun(job_id)) {
    RetryLater(*driven);
  } else if (to == JobState::kCancelled) {
    FinishCancel(job_id, kStepRetryDelay);
  }
}

void Scheduler::Ended(int64_t job_id, JobState to, const std::string& error) {
  Driven* const driven = FindRun(job_id);
  const bool is_published = driven != nullptr;
  if (driven != nullptr) driven->run->SetState(to, error);
  Remove(job_id);
  deps_.events->End(job_id, !is_published);
  deps_.link->Forget(job_id);
  deps_.link->Wake();
  LogInfo("jobs", "{} {}{}{}", JobName(job_id), NameOf(to), error.empty() ? "" : ": ", error);
}

void Scheduler::FinishCancel(int64_t job_id, Duration delay) {
  if (delay > Duration::zero()) {
    Post(
        [job_id](Scheduler* self) {
          const Work work(self);
          if (!self->stopped_) self->FinishCancel(job_id);
        },
        delay);
    return;
  }
  if (!adoption_.EpochOf(job_id).has_value()) return;
  // The store knows of units with agents of all daemons.
  const auto rows = deps_.store->jobs()->JobStates({job_id});
  if (!rows.ok()) {
    FinishCancel(job_id, kStepRetryDelay);
    return;
  }
  if (rows->empty() || rows->front().state != JobState::kCancelling || rows->front().claimed_units > 0) return;
  EndJob(job_id, JobState::kCancelled, "");
}

}  // namespace tunefarm
