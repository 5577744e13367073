#include "server/jobs/job_backlog.h"

#include <algorithm>

namespace tunefarm {

bool JobBacklog::HasRoom(const Job& job) const {
  // One class with room is enough: the job's other studies are driven along with it.
  return std::any_of(job.class_ids.begin(), job.class_ids.end(), [&](const std::string& class_id) {
    const auto taken = std::count_if(driven_.begin(), driven_.end(), [&](const auto& entry) {
      return entry.second.priority >= job.priority && entry.second.class_ids.count(class_id) > 0;
    });
    return static_cast<size_t>(taken) < driven_per_class_max_;
  });
}

bool JobBacklog::DriveOrWait(Job job) {
  if (driven_.count(job.job_id) > 0) return true;
  if (HasRoom(job)) {
    Drive(std::move(job));
    return true;
  }
  const Place place(-job.priority, job.job_id);
  waiting_ids_[job.job_id] = place;
  waiting_[place] = std::move(job);
  return false;
}

void JobBacklog::Drive(Job job) {
  Remove(job.job_id);
  const int64_t job_id = job.job_id;
  driven_[job_id] = std::move(job);
}

void JobBacklog::Remove(int64_t job_id) {
  driven_.erase(job_id);
  const auto waits = waiting_ids_.find(job_id);
  if (waits == waiting_ids_.end()) return;
  waiting_.erase(waits->second);
  waiting_ids_.erase(waits);
}

std::optional<int64_t> JobBacklog::TakeNext() {
  const auto next =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& entry) { return HasRoom(entry.second); });
  if (next == waiting_.end()) return std::nullopt;
  Job job = std::move(next->second);
  const int64_t job_id = job.job_id;
  Drive(std::move(job));
  return job_id;
}

}  // namespace tunefarm
