// What happened to jobs, for those who watch: a bounded ring of events per job and any number of watchers, each at its
// own pace. A watcher that falls behind the ring gets a snapshot instead of what it missed.
//
// Threads: all methods may be called from any thread. Callbacks run on the executor, one at a time, with no lock of the
// service held.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/executor.h"
#include "server/base/mutex.h"
#include "tunefarm/v1/job.pb.h"

namespace tunefarm {

// Ends a Watch: no callback is under way or will come once its destructor has returned. Not to be destroyed from one of
// its own callbacks.
class WatchSubscription {
 public:
  virtual ~WatchSubscription() = default;
};

class EventHub : public std::enable_shared_from_this<EventHub> {
 public:
  // The job as it is now; called on the executor. NotFound when it was deleted.
  using Snapshot = std::function<absl::StatusOr<tunefarm::v1::Job>(int64_t job_id)>;

  // Ids start far above those of an earlier run of the daemon, so that a watcher's old position shows as a gap.
  // Several daemons tell of one job, each with ids of its own: `salt` (not 0) sets theirs apart, so that a position in
  // another's events, or in those of a stream that was forgotten here, shows as a gap too.
  EventHub(Executor* executor, int events_max, int ended_jobs_max, Snapshot snapshot, int64_t salt = 0);

  // Whether anybody has watched the job here. If not, who comes first begins with a snapshot, and needs no event of
  // before.
  bool IsFollowed(int64_t job_id) const LOCKS_EXCLUDED(mutex_);
  // Sets id and time.
  void Publish(int64_t job_id, tunefarm::v1::JobEvent event);
  // No more events of the job: watchers get what is left, then `end` with OK. With a snapshot in between where nothing
  // that was published says how it ended.
  void End(int64_t job_id, bool with_snapshot = false);
  // All watchers get `end` with `status`; later ones too.
  void Close(const absl::Status& status);

  int watchers() const LOCKS_EXCLUDED(mutex_);
  // Jobs that have not ended here, and whether anybody watches them.
  std::vector<std::pair<int64_t, bool>> OpenJobs() const LOCKS_EXCLUDED(mutex_);
  // Nobody here tells of the job any more; nothing if somebody watches it.
  void Forget(int64_t job_id) LOCKS_EXCLUDED(mutex_);

  // `ended`: the store says that the job has ended; its last events and End may still be on their way.
  std::unique_ptr<WatchSubscription> Watch(int64_t job_id, int64_t after_event_id, bool ended,
                                           std::function<void(const tunefarm::v1::JobEvent&)> sink,
                                           std::function<void(absl::Status)> end);

 private:
  struct Watcher;
  class Subscription;
  struct Stream {
    std::deque<std::shared_ptr<const tunefarm::v1::JobEvent>> events;
    int64_t last_id = 0;
    bool ended = false;
    bool is_followed = false;
    std::vector<std::weak_ptr<Watcher>> watchers;
  };

  Stream& StreamOf(int64_t job_id) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Wake(int64_t job_id, Stream& stream) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Forgets the oldest ended jobs that are too many and that nobody watches.
  void Trim() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PostDelivery(const std::shared_ptr<Watcher>& watcher) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Deliver(const std::shared_ptr<Watcher>& watcher) LOCKS_EXCLUDED(mutex_);

  Executor* const executor_;
  const size_t events_max_;
  const size_t ended_jobs_max_;
  const Snapshot snapshot_;
  const int64_t salt_;
  const int64_t first_id_;

  mutable Mutex mutex_;
  absl::Status closed_ GUARDED_BY(mutex_);
  std::map<int64_t, Stream> streams_ GUARDED_BY(mutex_);
  std::deque<int64_t> ended_ GUARDED_BY(mutex_);  // oldest first
};

}  // namespace tunefarm
