// JobBacklog: which jobs the driver holds in memory, and which wait their turn in the store. A driven job has its
// spaces and strategies in memory and units in the queue, which costs from kilobytes to megabytes; one that waits costs
// its id.
//
// Per device class a bounded number of jobs is driven at once, those of higher priority first, then in the order of
// their ids; a job is also driven when only jobs of lower priority have taken the room. Pure, not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace tunefarm {

class JobBacklog {
 public:
  struct Job {
    int64_t job_id = 0;
    int priority = 0;
    std::set<std::string> class_ids;
  };

  explicit JobBacklog(size_t driven_per_class_max) : driven_per_class_max_(driven_per_class_max) {}

  // True: the job counts as driven from now on (or did before). False: it waits.
  bool DriveOrWait(Job job);
  // It counts as driven, whether there is room or not.
  void Drive(Job job);
  // It neither counts as driven nor waits. Unknown ids are fine.
  void Remove(int64_t job_id);
  // The first in line that there is room for; it counts as driven from now on.
  std::optional<int64_t> TakeNext();

  bool IsWaiting(int64_t job_id) const { return waiting_ids_.count(job_id) > 0; }
  size_t waiting() const { return waiting_.size(); }

 private:
  using Place = std::pair<int, int64_t>;  // negated priority and id: the first in line is the least

  bool HasRoom(const Job& job) const;

  const size_t driven_per_class_max_;
  std::map<int64_t, Job> driven_;
  std::map<Place, Job> waiting_;
  std::map<int64_t, Place> waiting_ids_;
};

}  // namespace tunefarm
