// OtherJobs: jobs that other nodes drive while agents here hold units of them. What their drivers decide is found in
// the store, and the link is told what its agents may do with the units.
//
// Not thread-safe: the scheduler uses it with its turn.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "server/farm/control_link.h"
#include "server/store/job_store.h"
#include "server/store/store.h"

namespace tunefarm {

class OtherJobs {
 public:
  // The link outlives it.
  explicit OtherJobs(ControlLink* link) : link_(link) {}

  // What the store says of the state of such a job.
  void Follow(const JobStateRow& row);
  // It was deleted, or is driven here from now on.
  void Forget(int64_t job_id) { told_.erase(job_id); }
  void Clear() { told_.clear(); }
  // Forgets those that agents here hold nothing of any more. Of the others, for which `is_own` is false, some.
  std::vector<int64_t> Searching(const std::function<bool(int64_t job_id)>& is_own);
  // Takes units of searches back that have ended according to the store. The store's errors.
  static absl::Status EndSearches(Store* store, ControlLink* link, const std::vector<int64_t>& job_ids);
  std::vector<int64_t> All() const;
  bool empty() const { return told_.empty(); }

 private:
  ControlLink* const link_;
  std::map<int64_t, JobState> told_;  // what the link was told last
};

}  // namespace tunefarm
