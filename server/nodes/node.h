// Node: a control daemon on a store that others may share. It lives under a name as long as it holds the lease
// "node/NAME", and drives jobs only while it knows that nobody else may take them over.
//
// A node that could not renew in time is another node from then on: what it drove under the old name is lost to it, and
// it takes up what is there under a new one. So a daemon that stood still needs no memory of what it had, and an
// adoption that it never heard the answer of is found under the name that it had then.
//
// Once the store has been replaced (Store::Replacements) this daemon drives nothing until it is another node, since
// what it knows is of no use any more. Nor does every replacement show there: so each renewal leaves a mark in the
// lease's row, which the next one must find. A database that has forgotten it was restored to an older state.
//
// Time is this daemon's own monotonic clock, which runs as fast as the database's and need not agree with it: a lease
// counts from before the call that took it, and ends a sixth early.
//
// Thread-safe. Renew is called by one thread at a time; it waits for the store with no lock held.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/store/store.h"

namespace tunefarm {

struct NodeOptions {
  static constexpr Duration kNever = Duration::max();

  std::string id;                                  // of this start of the process, never used again; 1 to 128 bytes
  std::string detail;                              // for people: its address
  Duration lease = std::chrono::seconds(15);       // renewed at a third
  Duration poll = std::chrono::milliseconds(200);  // for what others did, while it drives jobs or its agents hold units
  Duration idle_poll = std::chrono::seconds(1);
  int adopted_at_once = 16;  // jobs: few, so that what a dead node leaves is spread over those that live
  // Steps of one job are made no more often: results that arrive meanwhile through many agents are told in one step.
  Duration step_pause = std::chrono::milliseconds(20);
  // Trials proposed and not ended, per device. In a farm results and demands are under way for a while: two large
  // units.
  int open_trials_per_device = 128;
};

// Of the only daemon that may open its store (the lock of its data directory sees to that): the lease ends with the
// process, nobody else's work is polled for, all jobs are adopted at once, and steps follow results directly.
NodeOptions PermanentNode(std::string id);

// For that daemon, before it starts: what an earlier process held, which ended without a word, is free: the leases of
// its nodes and the units of agents without a lease. Returns the number of units. The store's errors.
absl::StatusOr<int64_t> ReleaseEarlierProcess(Store* store, Clock* clock);

class Node {
 public:
  // `store` and `clock` outlive it.
  Node(Store* store, Clock* clock, NodeOptions options);

  // Takes the lease, or renews it; under a new name where the old lease may have run out. The store's errors: it lives
  // on until the lease ends.
  absl::Status Renew() LOCKS_EXCLUDED(mutex_);
  // The name under which it may drive now; empty: it may not.
  std::string Name() const LOCKS_EXCLUDED(mutex_);
  // Gives the lease back, for good: what it drove is free at once.
  void Leave() LOCKS_EXCLUDED(mutex_);

  // How often the database was found to have been restored to an older state, as it is under the name of now.
  int64_t replacements() const LOCKS_EXCLUDED(mutex_);

  const NodeOptions& options() const { return options_; }

 private:
  // What was left in the row of a name: renewals are counted, and of those whose answer was lost nobody knows.
  struct Mark {
    std::string name;
    int64_t known = 0, tried = 0;
  };
  absl::Status RenewOnce() LOCKS_EXCLUDED(mutex_);
  // One call of the store, under a name that may be an old one. False: what the mark was left in is gone.
  absl::StatusOr<bool> TakeLease(Duration lease, Mark* mark);
  absl::Status CheckOldName(const std::string& name);
  void CheckStore() LOCKS_EXCLUDED(mutex_);
  // Nothing that was driven under the name counts in the database as it is now.
  void NoteReplacement() LOCKS_EXCLUDED(mutex_);

  Store* const store_;
  Clock* const clock_;
  const NodeOptions options_;
  Mark mark_;  // Renew's

  mutable Mutex mutex_;
  bool left_ GUARDED_BY(mutex_) = false;
  int64_t replacements_ GUARDED_BY(mutex_) = 0;
  int64_t of_store_ GUARDED_BY(mutex_);   // replacements that the store knew of when the name was taken
  int64_t names_ GUARDED_BY(mutex_) = 0;  // that it has had
  std::string name_ GUARDED_BY(mutex_);
  MonotonicTime until_ GUARDED_BY(mutex_){};  // may drive until then
};

}  // namespace tunefarm
