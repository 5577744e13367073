// JobAdoption: which jobs are this daemon's to drive, and under which epochs. Several daemons may share one store
// (node.h): a job is driven by the node that adopted it last, under the epoch of that adoption, which every step and
// change of state of its driver names. A job of which this program does not know all is left to newer daemons.
//
// Not thread-safe: the scheduler uses it with its turn. What others read of it stands on the board.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/jobs/job_board.h"
#include "server/nodes/node.h"
#include "server/store/job_store.h"
#include "server/store/store.h"

namespace tunefarm {

class JobAdoption {
 public:
  // All outlive it.
  JobAdoption(Store* store, Node* node, JobBoard* board) : store_(store), node_(node), board_(board) {}

  // Whether the node has another name, under which nothing of the old one's is driven any more: the owner must Forget
  // all of it, and then take the name.
  bool IsRenamed() const { return node_->Name() != name_; }
  void TakeName();
  // Whether the database was replaced by an older state since this was asked last.
  bool WasReplaced();
  // Whether the node may drive under the name that its jobs were adopted under.
  bool MayDrive() const { return !name_.empty() && node_->Name() == name_; }
  bool has_name() const { return !name_.empty(); }

  // Adopts jobs that nobody drives, as many as the node takes at once, and calls `adopted` for each, before it is
  // noted. After a call whose answer was lost: also those that the store says are this node's. The store's errors.
  absl::Status Adopt(const std::function<void(int64_t job_id)>& adopted);
  // A job that this program does not know all of: it goes back, and is not adopted again. The store's errors.
  absl::Status LeaveToNewer(int64_t job_id, const std::string& unknown);
  void Forget(int64_t job_id);

  std::optional<int64_t> EpochOf(int64_t job_id) const;
  // Whether the store's row is that of the adoption which is known here.
  bool IsOwn(const JobStateRow& row) const;
  std::vector<int64_t> All() const;
  // Of the jobs for which `is_wanted`: some at a time, each its turn.
  std::vector<int64_t> Some(const std::function<bool(int64_t job_id)>& is_wanted);

 private:
  void Note(const DrivenJob& job, const std::function<void(int64_t)>& adopted);
  absl::Status FindAdopted(const std::function<void(int64_t)>& adopted);

  Store* const store_;
  Node* const node_;
  JobBoard* const board_;
  std::string name_;                   // the node's, under which jobs were adopted
  int64_t replacements_ = 0;           // of the database, that are known of
  std::map<int64_t, int64_t> epochs_;  // of all jobs that are the node's, also those that wait
  std::set<int64_t> left_;             // to newer daemons
  bool is_answer_lost_ = false;        // an adoption's
  int64_t some_after_ = 0;             // where the next part of Some begins
};

}  // namespace tunefarm
