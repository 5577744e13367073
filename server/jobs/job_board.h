// JobBoard: what is known outside of the scheduler about the jobs that are driven here. Readers take it without waiting
// for a step: its lock is held for copies of pointers only, never across a call of the store.
//
// The scheduler publishes a job at once when its state changes, and its counts at most every 100 ms. An order (cancel,
// pause, resume) is shown from the moment that it is stored, until the scheduler has acted on it.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "server/base/mutex.h"
#include "server/store/job_rows.h"
#include "tunefarm/v1/job.pb.h"

namespace tunefarm {

// A job at one moment. Its parts are shared with earlier snapshots as far as they have not changed: a job may have
// thousands of studies.
struct JobSnapshot {
  std::shared_ptr<const tunefarm::v1::Job> request;  // as accepted, with its name
  tunefarm::v1::Job now;                             // what changes, without studies
  std::vector<std::shared_ptr<const tunefarm::v1::Study>> studies;
};

class JobBoard {
 public:
  // --- the scheduler ---
  // The node's name under which jobs are driven; empty: none may be.
  void SetName(std::string name) LOCKS_EXCLUDED(mutex_);
  // The job is driven here, or waits here for its turn.
  void Drive(int64_t job_id) LOCKS_EXCLUDED(mutex_);
  // It is not any more.
  void Leave(int64_t job_id) LOCKS_EXCLUDED(mutex_);
  // Of a job that is driven.
  void Publish(int64_t job_id, std::shared_ptr<const JobSnapshot> snapshot) LOCKS_EXCLUDED(mutex_);
  // `active`: jobs that are driven or wait. `is_busy`: some are driven, or agents here hold units of other nodes' jobs.
  void SetCounts(int active, bool is_busy) LOCKS_EXCLUDED(mutex_);
  // Why all jobs pause; empty: they do not.
  void SetSuspended(std::string reason) LOCKS_EXCLUDED(mutex_);
  // Jobs with orders that are not settled, and the number of the last order of each.
  std::map<int64_t, int64_t> Orders() const LOCKS_EXCLUDED(mutex_);
  // The job was published, or left, with the order of this number in effect.
  void Settle(int64_t job_id, int64_t number) LOCKS_EXCLUDED(mutex_);

  // --- orders ---
  // The state was stored; nothing for a job that is not driven here. `reason`: as JobRow::error.
  void Order(int64_t job_id, JobState state, std::string reason) LOCKS_EXCLUDED(mutex_);

  // --- readers ---
  // Nothing: it is not driven here, or is being loaded.
  std::optional<tunefarm::v1::Job> Find(int64_t job_id, bool with_studies) const LOCKS_EXCLUDED(mutex_);
  std::string name() const LOCKS_EXCLUDED(mutex_);
  bool Drives(int64_t job_id) const LOCKS_EXCLUDED(mutex_);
  int active() const LOCKS_EXCLUDED(mutex_);
  bool is_busy() const LOCKS_EXCLUDED(mutex_);
  std::string suspended() const LOCKS_EXCLUDED(mutex_);

 private:
  struct Ordered {
    JobState state = JobState::kQueued;
    std::string reason;
    int64_t number = 0;
  };

  mutable Mutex mutex_;
  std::string name_ GUARDED_BY(mutex_);
  std::set<int64_t> driven_ GUARDED_BY(mutex_);
  std::map<int64_t, std::shared_ptr<const JobSnapshot>> snapshots_ GUARDED_BY(mutex_);
  std::map<int64_t, Ordered> orders_ GUARDED_BY(mutex_);
  int64_t last_order_ GUARDED_BY(mutex_) = 0;
  int active_ GUARDED_BY(mutex_) = 0;
  bool is_busy_ GUARDED_BY(mutex_) = false;
  std::string suspended_ GUARDED_BY(mutex_);
};

// The whole message.
tunefarm::v1::Job ToProto(const JobSnapshot& snapshot, bool with_studies);

}  // namespace tunefarm
