// What holds up, ends or interrupts a job from outside of its studies: bounds of number, of time, and of space.

#include <fmt/core.h>

#include <utility>

#include "server/base/format.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/jobs/driver.h"
#include "server/records/resource_names.h"

namespace tunefarm {
namespace {

// Enough to keep every device of a class busy while jobs come and go, few enough to hold their spaces in memory.
constexpr size_t kDrivenPerClassMax = 64;

JobBacklog::Job PlaceOf(const JobRow& row) {
  JobBacklog::Job job{row.job_id, row.priority, {}};
  for (const StudyRow& study : row.studies) job.class_ids.insert(study.class_id);
  return job;
}

}  // namespace

Driver::Driver(const Dependencies& dependencies) : deps_(dependencies), backlog_(kDrivenPerClassMax) {}

bool Driver::Admit(const JobRow& row) {
  if (row.state == JobState::kPaused && row.started_at_ms == 0) {
    backlog_.Remove(row.job_id);
    parked_.insert(row.job_id);
    return false;
  }
  if (row.state == JobState::kQueued) return backlog_.DriveOrWait(PlaceOf(row));
  // It has begun: its claims, its time or its end must be seen to.
  backlog_.Drive(PlaceOf(row));
  return true;
}

void Driver::MakeRoom(int64_t job_id) {
  backlog_.Remove(job_id);
  parked_.erase(job_id);
  DriveNext();
}

void Driver::DriveNext() {
  while (const auto next = backlog_.TakeNext()) Adopt(*next);
}

void Driver::StopSearch(Active& job, std::string because) {
  if (!job.stop_because.empty()) return;
  job.stop_because = std::move(because);
  PublishMessage(job, job.stop_because + ": the best so far go to the final");
  deps_.link->StopSearch(job.row.job_id);
}

double Driver::DeviceBusyMsOf(const Active& job) {
  double sum = 0;
  for (const auto& [study_id, study] : job.studies) sum += study->device_busy_ms();
  return sum;
}

void Driver::CheckDeviceTime(Active& job) {
  const double seconds = job.spec.budget().max_device_seconds();
  if (seconds <= 0 || !job.stop_because.empty() || DeviceBusyMsOf(job) < seconds * 1e3) return;
  StopSearch(job, fmt::format("devices have worked for {}", FormatDuration(seconds * 1e9)));
  Post([job_id = job.row.job_id](Driver* self) {
    MutexLock lock(&self->mutex_);
    self->Step(job_id);
  });
}

void Driver::Suspend(const std::string& reason) {
  MutexLock lock(&mutex_);
  if (suspended_.empty()) LogWarn("jobs", "jobs pause: {}", reason);
  suspended_ = reason;
  deps_.link->HoldClaims(true);
  for (const auto& [job_id, job] : jobs_) {
    if (job->row.state != JobState::kRunning) continue;
    // Its units come back also when that cannot be stored: with the disk full, that is to be expected.
    deps_.link->Hold(job_id);
    const absl::Status paused = ChangeState(job_id, {JobState::kRunning}, JobState::kPaused, "paused", reason);
    if (!paused.ok()) LogWarn("jobs", "{} stands still but is not PAUSED: {}", JobName(job_id), MessageOf(paused));
  }
}

void Driver::Unsuspend() {
  MutexLock lock(&mutex_);
  if (!suspended_.empty()) LogInfo("jobs", "there is space again: jobs go on");
  suspended_.clear();
  for (const auto& [job_id, job] : jobs_) {
    if (job->row.state == JobState::kRunning) {
      deps_.link->Resume(job_id);
      continue;
    }
    if (job->row.state != JobState::kPaused || job->row.error.empty()) continue;
    const absl::Status resumed = TakeUpPaused(job_id);
    if (!resumed.ok()) LogWarn("jobs", "{} stays paused: {}", JobName(job_id), MessageOf(resumed));
  }
  deps_.link->HoldClaims(false);
}

std::string Driver::suspended() const {
  MutexLock lock(&mutex_);
  return suspended_;
}

absl::Status Driver::TakeUpPaused(int64_t job_id) {
  const auto row = deps_.store->GetJob(job_id);
  RETURN_IF_ERROR(row.status());
  const JobState to = row->started_at_ms > 0 ? JobState::kRunning : JobState::kQueued;
  RETURN_IF_ERROR(ChangeState(job_id, {JobState::kPaused}, to, "resumed"));
  if (epochs_.count(job_id) == 0) return absl::OkStatus();  // its driver sees it
  deps_.link->Resume(job_id);
  parked_.erase(job_id);
  if (FindActive(job_id) == nullptr) {
    Adopt(job_id);
    return absl::OkStatus();
  }
  backlog_.Drive(PlaceOf(*row));
  Post([job_id](Driver* self) {
    MutexLock lock(&self->mutex_);
    self->Step(job_id);
  });
  return absl::OkStatus();
}

}  // namespace tunefarm
