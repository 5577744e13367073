// JobAdmission: which of the jobs that are this daemon's are held in memory, and which wait in the store. A job that is
// held has its spaces and strategies in memory and units in the queue, which costs from kilobytes to megabytes; one
// that waits costs its id.
//
// Per device class a bounded number of jobs is held at once, those of higher priority first, then in the order of their
// ids; a job is also held when only jobs of lower priority have taken the room. A job that was paused before it ever
// ran, and one that is left to newer daemons and being cancelled, is parked: it neither takes room nor waits for it.
//
// Pure, not thread-safe: the scheduler uses it with its turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/store/job_rows.h"

namespace tunefarm {

class JobAdmission {
 public:
  struct Job {
    int64_t job_id = 0;
    int priority = 0;
    std::set<std::string> class_ids;
  };

  explicit JobAdmission(size_t held_per_class_max) : held_per_class_max_(held_per_class_max) {}

  // True: the job is to be held now. False: it waits for room, or is parked.
  bool Admit(const JobRow& row);
  // True: the job counts as held from now on (or did before). False: it waits.
  bool HoldOrWait(Job job);
  // It counts as held, whether there is room or not.
  void Hold(Job job);
  void Hold(const JobRow& row) { Hold(JobOf(row)); }
  void Park(int64_t job_id);
  // Whether it was parked. It is not any more.
  bool Unpark(int64_t job_id) { return parked_.erase(job_id) > 0; }
  // It is neither held nor waits, nor is it parked. Unknown ids are fine.
  void Remove(int64_t job_id);
  // The first in line that there is room for; it counts as held from now on.
  std::optional<int64_t> TakeNext();

  // Whether it waits for room, or is parked.
  bool IsOut(int64_t job_id) const { return waiting_ids_.count(job_id) > 0 || parked_.count(job_id) > 0; }
  const std::set<int64_t>& parked() const { return parked_; }
  // Jobs that wait or are parked.
  size_t out() const { return waiting_.size() + parked_.size(); }

 private:
  using Place = std::pair<int, int64_t>;  // negated priority and id: the first in line is the least

  static Job JobOf(const JobRow& row);
  bool HasRoom(const Job& job) const;

  const size_t held_per_class_max_;
  std::map<int64_t, Job> held_;
  std::map<Place, Job> waiting_;
  std::map<int64_t, Place> waiting_ids_;
  std::set<int64_t> parked_;
};

}  // namespace tunefarm
