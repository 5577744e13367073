// Jobs as they are shown to those who ask and those who watch.

#include <chrono>
#include <utility>

#include "server/base/saturating.h"
#include "server/jobs/driver.h"
#include "server/jobs/job_view.h"
#include "server/records/resource_names.h"

namespace tunefarm {

using tunefarm::v1::JobEvent;

tunefarm::v1::Progress Driver::ProgressOf(const Active& job) const {
  tunefarm::v1::Progress progress;
  for (const auto& [study_id, study] : job.studies) study->AddProgress(&progress);
  const int64_t done_now = progress.done() - job.done_at_begin;
  if (job.done_at_begin >= 0 && done_now > 0 && !IsTerminal(job.row.state)) {
    const auto elapsed =
        std::chrono::duration_cast<std::chrono::milliseconds>(deps_.executor->clock()->Now() - job.began).count();
    const int64_t left = SaturatingAdd(std::max<int64_t>(0, progress.total() - progress.done()),
                                       std::max<int64_t>(0, progress.finals_total() - progress.finals_done()));
    progress.set_eta_ms(
        SaturatingInt64(static_cast<double>(elapsed) / static_cast<double>(done_now) * static_cast<double>(left)));
  }
  return progress;
}

void Driver::TellWaiting() {
  Post([](Driver* self) {
    MutexLock lock(&self->mutex_);
    for (const auto& [job_id, job] : self->jobs_) {
      std::string reason = self->WaitingReason(*job);
      if (reason == job->told_waiting) continue;
      job->told_waiting = std::move(reason);
      self->PublishJob(*job);
    }
    self->FreeFinals();
  });
}

std::string Driver::WaitingReason(const Active& job) const {
  if (job.row.state != JobState::kQueued && job.row.state != JobState::kRunning) return {};
  std::string waiting;
  for (const auto& [study_id, study] : job.studies) {
    if (study->state() == StudyState::kEnded) continue;
    waiting = deps_.devices->WaitingReason(study->context().row.class_id, study->context().row.device_uuid);
    if (waiting.empty()) return {};
  }
  return waiting;
}

tunefarm::v1::Job Driver::ToProto(const Active& job, bool with_studies) const {
  tunefarm::v1::Job proto = job.spec;
  proto.clear_starting_configs();
  proto.set_name(JobName(job.row.job_id));
  proto.set_uid(job.row.uid);
  proto.set_state(::tunefarm::ToProto(job.row.state));
  *proto.mutable_progress() = ProgressOf(job);
  proto.set_created_at_ms(job.row.created_at_ms);
  proto.set_started_at_ms(job.row.started_at_ms);
  proto.set_ended_at_ms(job.row.ended_at_ms);
  SetReason(job.row, &proto);
  if (proto.state_reason().empty()) proto.set_state_reason(WaitingReason(job));
  proto.set_device_busy_ms(DeviceBusyMsOf(job));
  if (with_studies) {
    for (const auto& [study_id, study] : job.studies) *proto.add_studies() = study->ToProto();
  }
  return proto;
}

std::optional<tunefarm::v1::Job> Driver::Find(int64_t job_id) const {
  MutexLock lock(&mutex_);
  const auto found = jobs_.find(job_id);
  if (found == jobs_.end() || !MayDrive()) return std::nullopt;  // another node may be further
  return ToProto(*found->second, true);
}

std::optional<tunefarm::v1::Job> Driver::FindSummary(int64_t job_id) const {
  MutexLock lock(&mutex_);
  const auto found = jobs_.find(job_id);
  if (found == jobs_.end() || !MayDrive()) return std::nullopt;  // another node may be further
  return ToProto(*found->second, false);
}

int Driver::active_jobs() const {
  MutexLock lock(&mutex_);
  return static_cast<int>(jobs_.size() + backlog_.waiting() + parked_.size());
}

void Driver::PublishJob(const Active& job) {
  JobEvent event;
  *event.mutable_job() = ToProto(job, true);
  *event.mutable_progress() = event.job().progress();
  deps_.events->Publish(job.row.job_id, std::move(event));
}

void Driver::PublishStudy(const Active& job, const Study& study) {
  JobEvent event;
  *event.mutable_study_changed() = study.ToProto();
  event.set_study(event.study_changed().name());
  *event.mutable_progress() = ProgressOf(job);
  deps_.events->Publish(job.row.job_id, std::move(event));
}

void Driver::PublishMessage(const Active& job, const std::string& text) {
  JobEvent event;
  event.set_message(text);
  *event.mutable_progress() = ProgressOf(job);
  deps_.events->Publish(job.row.job_id, std::move(event));
}

}  // namespace tunefarm
