#include "server/jobs/job_admission.h"

#include <algorithm>

namespace tunefarm {

JobAdmission::Job JobAdmission::JobOf(const JobRow& row) {
  Job job{row.job_id, row.priority, {}};
  for (const StudyRow& study : row.studies) job.class_ids.insert(study.class_id);
  return job;
}

bool JobAdmission::HasRoom(const Job& job) const {
  // One class with room is enough: the job's other studies are held along with it.
  return std::any_of(job.class_ids.begin(), job.class_ids.end(), [&](const std::string& class_id) {
    const auto taken = std::count_if(held_.begin(), held_.end(), [&](const auto& entry) {
      return entry.second.priority >= job.priority && entry.second.class_ids.count(class_id) > 0;
    });
    return static_cast<size_t>(taken) < held_per_class_max_;
  });
}

bool JobAdmission::Admit(const JobRow& row) {
  if (row.state == JobState::kPaused && row.started_at_ms == 0) {
    Park(row.job_id);
    return false;
  }
  if (row.state == JobState::kQueued) return HoldOrWait(JobOf(row));
  // It has begun: its claims, its time or its end must be seen to.
  Hold(row);
  return true;
}

bool JobAdmission::HoldOrWait(Job job) {
  if (held_.count(job.job_id) > 0) return true;
  if (HasRoom(job)) {
    Hold(std::move(job));
    return true;
  }
  const Place place(-job.priority, job.job_id);
  waiting_ids_[job.job_id] = place;
  waiting_[place] = std::move(job);
  return false;
}

void JobAdmission::Hold(Job job) {
  Remove(job.job_id);
  const int64_t job_id = job.job_id;
  held_[job_id] = std::move(job);
}

void JobAdmission::Park(int64_t job_id) {
  Remove(job_id);
  parked_.insert(job_id);
}

void JobAdmission::Remove(int64_t job_id) {
  held_.erase(job_id);
  parked_.erase(job_id);
  const auto waits = waiting_ids_.find(job_id);
  if (waits == waiting_ids_.end()) return;
  waiting_.erase(waits->second);
  waiting_ids_.erase(waits);
}

std::optional<int64_t> JobAdmission::TakeNext() {
  const auto next =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& entry) { return HasRoom(entry.second); });
  if (next == waiting_.end()) return std::nullopt;
  Job job = std::move(next->second);
  const int64_t job_id = job.job_id;
  Hold(std::move(job));
  return job_id;
}

}  // namespace tunefarm
