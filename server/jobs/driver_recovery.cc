// How the driver takes jobs up: new ones, those of an earlier run, and a study whose last step was lost.

#include <algorithm>
#include <utility>

#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/jobs/driver.h"
#include "server/jobs/newer_job.h"
#include "server/records/resource_names.h"
#include "server/records/trial_rows.h"

namespace tunefarm {

using tunefarm::v1::Trial;

namespace {

// Of a history, which may be of millions of trials: a few MiB.
constexpr int kHistoryEventsAtOnce = 128;
// Remembered; beyond it they are looked at again.
constexpr size_t kLeftAloneMax = 10'000;

}  // namespace

absl::StatusOr<StudyContext> Driver::ContextOf(const Active& job, const StudyRow& row) {
  StudyContext context;
  context.job_id = job.row.job_id;
  context.spec = job.spec;
  // Studies live as long as the job: of what is tried first each keeps its own.
  auto* const starting = context.spec.mutable_starting_configs();
  starting->erase(std::remove_if(starting->begin(), starting->end(),
                                 [&](const tunefarm::v1::StartingConfig& one) {
                                   // A study for each problem, and again for each further class.
                                   return one.problem_index() != (row.number - 1) % job.spec.problems_size();
                                 }),
                  starting->end());
  ASSIGN_OR_RETURN(context.plan, deps_.kernels->GetById(job.row.kernel_id));
  tunefarm::v1::Problem problem;
  tunefarm::v1::Study summary;
  if (!problem.ParseFromString(row.problem) || !summary.ParseFromString(row.space_summary)) {
    return DataLoss("{} cannot be read", StudyNameOf(job.row.job_id, row.number));
  }
  ASSIGN_OR_RETURN(ResolvedProblem resolved, context.plan->ResolveProblem(problem));
  context.problem = std::make_shared<const ResolvedProblem>(std::move(resolved));
  context.size = summary.space();
  context.flops = summary.flops();
  context.bytes = summary.bytes();
  context.floor_ns = summary.floor_ns();
  context.row = row;
  ASSIGN_OR_RETURN(const std::vector<DeviceClassRow> classes, deps_.store->ListDeviceClasses());
  const auto found =
      std::find_if(classes.begin(), classes.end(), [&](const DeviceClassRow& c) { return c.class_id == row.class_id; });
  tunefarm::v1::DeviceClass proto;
  if (found == classes.end() || !proto.ParseFromString(found->properties)) {
    return DataLoss("device class {} of {} cannot be read", row.class_id, StudyNameOf(job.row.job_id, row.number));
  }
  ASSIGN_OR_RETURN(context.device_class, DeviceClass::FromProto(proto));
  return context;
}

absl::StatusOr<std::unique_ptr<Study>> Driver::LoadStudy(const Active& job, const StudyRow& row) {
  ASSIGN_OR_RETURN(StudyContext context, ContextOf(job, row));
  std::unique_ptr<Study> study = Study::Create(std::move(context));
  const bool has_begun = row.next_ordinal > 0;
  if (has_begun && row.state != StudyState::kEnded) {
    ChosenPriors priors;  // as they were chosen then
    ASSIGN_OR_RETURN(priors.rows, deps_.store->LoadPriors(row.study_id));
    RETURN_IF_ERROR(study->Begin(priors));
  }
  int64_t after_sequence = 0;
  while (true) {  // nothing, if it has not begun
    ASSIGN_OR_RETURN(const StudyHistory part,
                     deps_.store->LoadHistory(row.study_id, after_sequence, kHistoryEventsAtOnce));
    if (part.events.empty()) break;
    after_sequence = part.events.back().sequence;
    RETURN_IF_ERROR(study->Replay(part, [&](int64_t ordinal) -> absl::StatusOr<Trial> {
      ASSIGN_OR_RETURN(const TrialRow trial, deps_.store->GetTrial(job.row.job_id, row.number, ordinal));
      return TrialOfRow(trial);
    }));
  }
  if (study->state() == StudyState::kEnded) {
    const auto best = deps_.catalog->Find(study->context().plan->program_digest(), row.problem_key, row.class_id);
    if (best != nullptr && best->job() == JobName(job.row.job_id)) study->SetBest(*best);
  }
  return study;
}

absl::StatusOr<std::unique_ptr<Study>> Driver::ReloadStudy(const Active& job, int64_t study_id) {
  ASSIGN_OR_RETURN(const JobRow row, deps_.store->GetJob(job.row.job_id));
  for (const StudyRow& study_row : row.studies) {
    if (study_row.study_id == study_id) return LoadStudy(job, study_row);
  }
  return DataLoss("study {} of {} is no longer stored", study_id, JobName(job.row.job_id));
}

absl::StatusOr<std::unique_ptr<Driver::Active>> Driver::Load(const JobRow& row) {
  auto job = std::make_unique<Active>();
  job->row = row;
  if (!job->spec.ParseFromString(row.spec))
    return DataLoss("the stored request of {} cannot be read", JobName(row.job_id));
  for (const StudyRow& study_row : row.studies) {
    ASSIGN_OR_RETURN(job->studies[study_row.study_id], LoadStudy(*job, study_row));
  }
  return job;
}

// A newer daemon of this store drives it, or will; until then it stays as it is. Only its cancellation needs no
// knowledge of it.
absl::Status Driver::LeaveAlone(const JobRow& row, int64_t epoch, const std::string& unknown) {
  MutexLock lock(&mutex_);
  if (stopped_ || !HoldsEpoch(row.job_id, epoch)) return absl::OkStatus();
  if (row.state == JobState::kCancelling) {
    parked_.insert(row.job_id);  // looked at until its units are back
    FinishCancel(row.job_id);
    return absl::OkStatus();
  }
  if (left_alone_.size() >= kLeftAloneMax) left_alone_.clear();
  if (left_alone_.insert(row.job_id).second) {
    LogWarn("jobs", "{} is left to newer daemons: {} is not known here", JobName(row.job_id), unknown);
  }
  RETURN_IF_ERROR(deps_.store->YieldJob(row.job_id, epoch));
  epochs_.erase(row.job_id);
  return absl::OkStatus();
}

void Driver::TakeUp(std::unique_ptr<Active> job) {
  const int64_t job_id = job->row.job_id;
  for (const auto& [study_id, study] : job->studies) job_of_study_[study_id] = job_id;
  Active& active = *(jobs_[job_id] = std::move(job));
  if (active.row.state == JobState::kCancelling) deps_.link->Cancel(job_id);
  if (active.row.state == JobState::kPaused) deps_.link->Hold(job_id);
  active.told_waiting = WaitingReason(active);
  CheckDeviceTime(active);
  if (active.row.started_at_ms > 0) StartTimer(active);
  // While another node drove it, the link was told what that one did.
  if (active.row.state == JobState::kQueued || active.row.state == JobState::kRunning) deps_.link->Resume(job_id);
  told_link_.erase(job_id);
  PublishJob(active);
  // A job that an earlier process or Suspend paused for lack of space, while there is enough of it.
  if (active.row.state == JobState::kPaused && !active.row.error.empty() && suspended_.empty()) {
    Post([job_id](Driver* self) {
      MutexLock lock(&self->mutex_);
      const Active* paused = self->FindActive(job_id);
      if (paused == nullptr || paused->row.state != JobState::kPaused || paused->row.error.empty()) return;
      if (self->suspended_.empty()) self->TakeUpPaused(job_id).IgnoreError();  // it stays paused, and says so
    });
  }
  Post([job_id](Driver* self) {
    MutexLock lock(&self->mutex_);
    self->Step(job_id);
  });
}

void Driver::Adopt(int64_t job_id) {
  Post([job_id](Driver* self) {
    int64_t epoch = 0;
    {
      MutexLock lock(&self->mutex_);
      const auto own = self->epochs_.find(job_id);
      if (own == self->epochs_.end()) return;
      epoch = own->second;
    }
    self->TryAdopt(job_id, epoch);
  });
}

void Driver::TryAdopt(int64_t job_id, int64_t epoch) {
  {
    MutexLock lock(&mutex_);
    if (stopped_ || FindActive(job_id) != nullptr || !HoldsEpoch(job_id, epoch)) return;
  }
  const auto wait = [&](const absl::Status& status) {
    LogWarn("jobs", "{} waits until it can be read: {}", JobName(job_id), MessageOf(status));
    deps_.executor->PostAfter(kStepRetryDelay, [weak = weak_from_this(), job_id, epoch] {
      if (const auto again = weak.lock()) again->TryAdopt(job_id, epoch);
    });
  };
  // Without the lock: a large space takes its time, and what is asked about other jobs must not wait for it.
  auto row = deps_.store->GetJob(job_id);
  if (row.ok() ? IsTerminal(row->state) : absl::IsNotFound(row.status())) {
    MutexLock lock(&mutex_);
    if (HoldsEpoch(job_id, epoch)) epochs_.erase(job_id);
    return;
  }
  if (!row.ok()) return wait(row.status());
  if (const std::string unknown = FirstUnknown(*row); !unknown.empty()) {
    const absl::Status left = LeaveAlone(*row, epoch, unknown);
    return left.ok() ? void() : wait(left);
  }
  {
    MutexLock lock(&mutex_);
    if (!HoldsEpoch(job_id, epoch) || !Admit(*row)) return;
  }
  auto job = Load(*row);

  MutexLock lock(&mutex_);
  if (stopped_ || FindActive(job_id) != nullptr || !HoldsEpoch(job_id, epoch)) return;
  if (job.status().code() == absl::StatusCode::kUnavailable) return wait(job.status());
  if (!job.ok()) {
    EndJob(job_id, JobState::kFailed, std::string(MessageOf(job.status())));
    if (HoldsEpoch(job_id, epoch)) wait(job.status());
    return;
  }
  // It may have been cancelled or paused meanwhile. Its studies have not: only this driver moves them.
  row = deps_.store->GetJob(job_id);
  if (!row.ok() && !absl::IsNotFound(row.status())) return wait(row.status());
  if (!row.ok() || IsTerminal(row->state)) {
    epochs_.erase(job_id);
    MakeRoom(job_id);
    return;
  }
  (*job)->row = *std::move(row);
  (*job)->epoch = epoch;
  TakeUp(*std::move(job));
}

}  // namespace tunefarm
