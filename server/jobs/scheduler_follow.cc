// Which jobs the scheduler drives, and what others want of them: adoption, orders of people, and what happened through
// other daemons.

#include <algorithm>
#include <set>
#include <utility>

#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/jobs/newer_job.h"
#include "server/jobs/scheduler.h"
#include "server/records/resource_names.h"
#include "server/store/job_store.h"

namespace tunefarm {
namespace {

// Studies whose results are asked for at a time.
constexpr size_t kStudiesAtOnce = 16;

// A running job, whose units come back also when that cannot be stored: with the disk full, that is to be expected.
void PauseForSpace(ControlLink* link, JobOrders* orders, int64_t job_id, const std::string& reason) {
  link->Hold(job_id);
  const absl::Status paused = orders->PauseFor(job_id, reason);
  if (!paused.ok()) {
    LogWarn("jobs", "no unit of {} is handed out, but it is not PAUSED: {}", JobName(job_id), MessageOf(paused));
  }
}

}  // namespace

// ---- Adoption ----

bool Scheduler::KeepName() {
  if (adoption_.IsRenamed()) {
    const std::vector<int64_t> lost = adoption_.All();
    if (!lost.empty()) LogWarn("jobs", "jobs left to other nodes: {}", lost.size());
    for (const int64_t job_id : lost) Remove(job_id);
    adoption_.TakeName();
    if (adoption_.WasReplaced()) {
      others_.Clear();
      deps_.link->BeginAgain();
    }
  }
  return adoption_.has_name();
}

absl::Status Scheduler::AdoptOrphans() {
  const Work work(this);
  if (stopped_ || !KeepName()) return absl::OkStatus();
  return adoption_.Adopt([&](int64_t job_id) {
    if (adoption_.EpochOf(job_id).has_value()) Remove(job_id);
    PostTask([job_id](Scheduler* self) { self->Adopt(job_id); });
  });
}

void Scheduler::Adopt(int64_t job_id, std::shared_ptr<const AdmittedJob> admitted) {
  const auto wait = [&](const absl::Status& status) {
    LogWarn("jobs", "{} waits until it can be read: {}", JobName(job_id), MessageOf(status));
    Post(
        [job_id](Scheduler* self) {
          const Work work(self);
          self->PostTask([job_id](Scheduler* again) { again->Adopt(job_id); });
        },
        kStepRetryDelay);
  };
  const bool is_slow = admitted != nullptr;
  if (!is_slow) {
    std::optional<int64_t> epoch;
    {
      const Work work(this);
      epoch = adoption_.EpochOf(job_id);
      if (stopped_ || !epoch.has_value() || FindRun(job_id) != nullptr) return;
    }
    // Without the turn: a large space takes its time, and what is asked about other jobs must not wait for it.
    auto row = deps_.store->jobs()->GetJob(job_id);
    if (row.ok() ? IsTerminal(row->state) : absl::IsNotFound(row.status())) {
      const Work work(this);
      if (adoption_.EpochOf(job_id) == epoch) Remove(job_id);
      return;
    }
    if (!row.ok()) return wait(row.status());
    if (const std::string unknown = FirstUnknown(*row); !unknown.empty()) {
      // A newer daemon of this store drives it, or will; until then it stays as it is. Only its cancellation needs no
      // knowledge of it.
      const Work work(this);
      if (stopped_ || adoption_.EpochOf(job_id) != epoch) return;
      if (row->state != JobState::kCancelling) {
        const absl::Status left = adoption_.LeaveToNewer(job_id, unknown);
        return left.ok() ? void() : wait(left);
      }
      admission_.Park(job_id);  // looked at until its units are back
      FinishCancel(job_id);
      return;
    }
    const Work work(this);
    if (stopped_ || adoption_.EpochOf(job_id) != epoch || !admission_.Admit(*row)) return;
    admitted = std::make_shared<const AdmittedJob>(AdmittedJob{*std::move(row), *epoch, loading_.Begin(job_id)});
  }
  auto run =
      JobRun::Load(deps_, &board_, admitted->row, is_slow ? Duration::max() : kQuickTaskTime, admitted->is_given_up);

  const Work work(this);
  if (!is_slow && ReasonOf(run.status()) == kWorkLimitReason) {
    tunefarm::v1::Job spec;
    spec.ParseFromString(admitted->row.spec);
    PostTask([job_id, admitted](Scheduler* self) { self->Adopt(job_id, admitted); }, spec.submitted_by());
    return;
  }
  loading_.End(job_id, admitted->is_given_up);
  if (stopped_ || FindRun(job_id) != nullptr || adoption_.EpochOf(job_id) != admitted->epoch) return;
  if (run.status().code() == absl::StatusCode::kUnavailable) return wait(run.status());
  if (absl::IsCancelled(run.status())) {
    // Somebody wants the job's end: looked at until its units are back.
    deps_.link->Cancel(job_id);
    admission_.Park(job_id);
    AdmitNext();
    FinishCancel(job_id);
    return;
  }
  if (!run.ok()) {
    EndJob(job_id, JobState::kFailed, std::string(MessageOf(run.status())));
    if (adoption_.EpochOf(job_id) == admitted->epoch) wait(run.status());
    return;
  }
  // It may have been cancelled or paused meanwhile. Its studies have not: only this driver moves them.
  auto row = deps_.store->jobs()->GetJob(job_id);
  if (!row.ok() && !absl::IsNotFound(row.status())) return wait(row.status());
  if (!row.ok() || IsTerminal(row->state)) {
    Remove(job_id);
    return;
  }
  TakeUp(*std::move(run), *std::move(row), admitted->epoch);
}

void Scheduler::TakeUp(std::unique_ptr<JobRun> run, JobRow row, int64_t epoch) {
  const int64_t job_id = row.job_id;
  for (const auto& [study_id, study] : run->studies()) job_of_study_[study_id] = job_id;
  Driven& driven = jobs_[job_id];
  driven.run = std::move(run);
  driven.run->TakeUp(std::move(row), epoch, arriving_);
  // While another node drove it, the link was told what that one did.
  others_.Forget(job_id);
  const JobState state = driven.run->row().state;
  if (state == JobState::kCancelling) {
    deps_.link->Cancel(job_id);
  } else if (state == JobState::kPaused) {
    deps_.link->Hold(job_id);
  } else {
    deps_.link->Resume(job_id);
  }
  driven.run->CheckDeviceTime();
  StartTimers(driven);
  StepSoon(driven);
  if (state != JobState::kPaused || driven.run->row().state_reason.empty() || !suspended().empty()) return;
  // An earlier process or Suspend paused it for lack of space, and there is enough of it. If it cannot be resumed it
  // stays paused, and says so.
  if (orders_.Resume(job_id).ok())
    Post([](Scheduler* self) {
      const Work work(self);
      self->TakeOrders();
    });
}

void Scheduler::Remove(int64_t job_id) {
  if (const auto found = jobs_.find(job_id); found != jobs_.end()) {
    const Driven& driven = found->second;
    if (!IsTerminal(driven.run->row().state)) LogInfo("jobs", "{} is not driven here from now on", JobName(job_id));
    for (const TimerId timer : {driven.time_timer, driven.retry_timer, driven.publish_timer, driven.quiet_timer}) {
      deps_.executor->Cancel(timer);
    }
    for (const auto& [study_id, study] : driven.run->studies()) job_of_study_.erase(study_id);
    driven.run->GiveUpTasks();
    jobs_.erase(found);
  }
  loading_.GiveUp(job_id);
  adoption_.Forget(job_id);
  admission_.Remove(job_id);
  AdmitNext();
}

void Scheduler::AdmitNext() {
  while (const auto next = admission_.TakeNext()) {
    PostTask([job_id = *next](Scheduler* self) { self->Adopt(job_id); });
  }
}

// ---- Orders ----

absl::Status Scheduler::Cancel(int64_t job_id) {
  const MonotonicTime began = deps_.executor->clock()->Now();
  RETURN_IF_ERROR(orders_.Cancel(job_id));
  TakeOrdersSoon(began);
  return absl::OkStatus();
}

absl::Status Scheduler::Pause(int64_t job_id) {
  const MonotonicTime began = deps_.executor->clock()->Now();
  RETURN_IF_ERROR(orders_.Pause(job_id));
  TakeOrdersSoon(began);
  return absl::OkStatus();
}

absl::Status Scheduler::Resume(int64_t job_id) {
  const MonotonicTime began = deps_.executor->clock()->Now();
  if (const std::string reason = suspended(); !reason.empty()) {
    return WithReason(ResourceExhausted("{} cannot go on: {}", JobName(job_id), reason), "LOW_SPACE");
  }
  RETURN_IF_ERROR(orders_.Resume(job_id));
  TakeOrdersSoon(began);
  return absl::OkStatus();
}

void Scheduler::TakeOrdersSoon(MonotonicTime began) {
  const Duration left = began + kOrderWait - deps_.executor->clock()->Now();
  if (left > Duration::zero() && turn_.TakeFirst(left)) {
    const Work work(this, std::adopt_lock);
    TakeOrders();
    return;
  }
  Post([](Scheduler* self) {
    const Work work(self);
    self->TakeOrders();
  });
}

void Scheduler::TakeOrders() {
  const std::map<int64_t, int64_t> orders = board_.Orders();
  if (orders.empty() || stopped_) return;
  std::vector<int64_t> job_ids;
  for (const auto& [job_id, number] : orders) job_ids.push_back(job_id);
  const auto rows = deps_.store->jobs()->JobStates(job_ids);
  if (!rows.ok()) {
    if (order_timer_ != 0) return;
    order_timer_ = Post(
        [](Scheduler* self) {
          const Work work(self);
          self->order_timer_ = 0;
          self->TakeOrders();
        },
        kStepRetryDelay);
    return;
  }
  for (const JobStateRow& row : *rows) {
    if (adoption_.IsOwn(row)) FollowOwn(row);  // else its driver sees it
  }
  for (const auto& [job_id, number] : orders) board_.Settle(job_id, number);
}

void Scheduler::Suspend(const std::string& reason) {
  const Work work(this);
  if (suspended().empty()) LogWarn("jobs", "jobs pause: {}", reason);
  board_.SetSuspended(reason);
  deps_.link->HoldClaims(true);
  for (const auto& [job_id, driven] : jobs_) {
    if (driven.run->row().state == JobState::kRunning) PauseForSpace(deps_.link, &orders_, job_id, reason);
  }
  TakeOrders();
}

void Scheduler::Unsuspend() {
  const Work work(this);
  if (!suspended().empty()) LogInfo("jobs", "there is space again: jobs go on");
  board_.SetSuspended("");
  for (const auto& [job_id, driven] : jobs_) {
    const JobRow& row = driven.run->row();
    if (row.state == JobState::kRunning) deps_.link->Resume(job_id);
    if (row.state != JobState::kPaused || row.state_reason.empty()) continue;
    const absl::Status resumed = orders_.Resume(job_id);
    if (!resumed.ok()) LogWarn("jobs", "{} stays paused: {}", JobName(job_id), MessageOf(resumed));
  }
  TakeOrders();
  deps_.link->HoldClaims(false);
}

// ---- Other daemons ----

absl::Status Scheduler::Follow() {
  const Work work(this);
  if (stopped_) return absl::OkStatus();
  KeepName();
  // All that are at work here or with agents here, and a part of those that wait.
  std::vector<int64_t> ids = adoption_.Some([&](int64_t job_id) { return FindRun(job_id) == nullptr; });
  for (const auto& [job_id, driven] : jobs_) ids.push_back(job_id);
  for (const std::vector<int64_t>& more : {deps_.link->JobsInHand(), others_.All()}) {
    ids.insert(ids.end(), more.begin(), more.end());
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  if (ids.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<JobStateRow> rows, deps_.store->jobs()->JobStates(ids));
  std::set<int64_t> gone(ids.begin(), ids.end());
  for (const JobStateRow& row : rows) {
    gone.erase(row.job_id);
    if (adoption_.IsOwn(row)) {
      FollowOwn(row);
      continue;
    }
    if (adoption_.EpochOf(row.job_id).has_value()) Remove(row.job_id);
    others_.Follow(row);
  }
  for (const int64_t job_id : gone) {  // deleted
    if (adoption_.EpochOf(job_id).has_value()) Remove(job_id);
    others_.Forget(job_id);
    deps_.link->Forget(job_id);
  }
  for (auto& [job_id, driven] : jobs_) {
    if (driven.run->HasLostFinalsDevice()) StepSoon(driven);
  }
  return FollowResults();
}

void Scheduler::FollowOwn(const JobStateRow& row) {
  Driven* const driven = FindRun(row.job_id);
  if (driven == nullptr) {
    FollowWaiting(row);
    return;
  }
  if (IsTerminal(row.state)) {  // stored by a call whose answer was lost
    Ended(row.job_id, row.state, row.state_reason);
    return;
  }
  JobRun& run = *driven->run;
  const JobState before = run.row().state;
  if (row.state == before && row.state_reason == run.row().state_reason) {
    if (row.state == JobState::kCancelling && row.claimed_units == 0) FinishCancel(row.job_id);
    return;
  }
  if (row.state == JobState::kRunning && before == JobState::kQueued) {
    run.Begin();
    StartTimers(*driven);
    return;
  }
  LogInfo("jobs", "{} is {} from now on", JobName(row.job_id), NameOf(row.state));
  run.SetState(row.state, row.state_reason);
  if (row.state == JobState::kCancelling) {
    deps_.link->Cancel(row.job_id);
    run.GiveUpTasks();
    FinishCancel(row.job_id);
  } else if (row.state == JobState::kPaused) {
    deps_.link->Hold(row.job_id);
    if (!row.state_reason.empty()) return;  // all pause, and nobody needs its room
    admission_.Remove(row.job_id);
    AdmitNext();
  } else {
    deps_.link->Resume(row.job_id);
    admission_.Hold(run.row());
    StepSoon(*driven);
    // It was resumed before Suspend, which did not find it running.
    if (const std::string reason = suspended(); !reason.empty() && row.state == JobState::kRunning) {
      PauseForSpace(deps_.link, &orders_, row.job_id, reason);
      Post([](Scheduler* self) {
        const Work work(self);
        self->TakeOrders();
      });
    }
  }
}

// It is held as an id only, or is being loaded, after which its state is read again where that has not been given up.
void Scheduler::FollowWaiting(const JobStateRow& row) {
  if (IsTerminal(row.state)) {
    Ended(row.job_id, row.state, row.state_reason);
    return;
  }
  if (row.state == JobState::kCancelling) {
    loading_.GiveUp(row.job_id);
    FinishCancel(row.job_id);
    return;
  }
  if (!admission_.IsOut(row.job_id)) return;
  if (row.state == JobState::kPaused) {
    admission_.Park(row.job_id);
  } else if (admission_.Unpark(row.job_id)) {
    PostTask([job_id = row.job_id](Scheduler* self) { self->Adopt(job_id); });
  }
}

absl::Status Scheduler::FollowSearches() {
  std::vector<int64_t> job_ids;
  {
    const Work work(this);
    if (stopped_) return absl::OkStatus();
    job_ids = others_.Searching([&](int64_t job_id) { return adoption_.EpochOf(job_id).has_value(); });
  }
  return OtherJobs::EndSearches(deps_.store, deps_.link, job_ids);
}

absl::Status Scheduler::FollowResults() {
  std::vector<std::pair<int64_t, int64_t>> studies;  // and their jobs
  const MonotonicTime now = deps_.executor->clock()->Now();
  for (const auto& [job_id, driven] : jobs_) {
    if (driven.run->row().state == JobState::kPaused || driven.retry_timer != 0) continue;
    for (const int64_t study_id : driven.run->StudiesToAsk(now)) studies.emplace_back(study_id, job_id);
  }
  // Round by round, each its turn.
  std::sort(studies.begin(), studies.end());
  const auto first = std::upper_bound(studies.begin(), studies.end(), std::make_pair(results_after_, INT64_MAX));
  std::rotate(studies.begin(), first, studies.end());
  if (studies.size() > kStudiesAtOnce) studies.resize(kStudiesAtOnce);
  for (const auto& [study_id, job_id] : studies) {
    results_after_ = study_id;
    Driven* const driven = FindRun(job_id);
    if (driven == nullptr) continue;  // a step for an earlier one has ended it
    JobRun& run = *driven->run;
    ASSIGN_OR_RETURN(const bool is_known, run.TakeDone(study_id, arriving_));
    if (run.CheckDeviceTime()) StepSoon(*driven);
    PublishSoon(*driven);
    if (!is_known) run.Break(study_id);
    if (!is_known || run.study(study_id).HasDoneUnits()) Step(job_id);
  }
  return absl::OkStatus();
}

}  // namespace tunefarm
