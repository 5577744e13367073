// NodeFollower: keeps what a node has in memory like what the store has: the catalog, device classes, the
// newest kernel of each name, and what those are told who watch jobs that other nodes drive. It begins with the store,
// or with a local copy of the catalog where the store is away.
//
// Threads: Load and Refresh on one executor at a time (before the node's clockwork starts, and then on its poll
// executor), SaveCopy on the lease's; the others from any.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/base/random.h"
#include "server/catalog/best_changes.h"
#include "server/catalog/catalog.h"
#include "server/catalog/catalog_watch.h"
#include "server/farm/device_directory.h"
#include "server/jobs/event_hub.h"
#include "server/jobs/scheduler.h"
#include "server/nodes/node.h"
#include "server/records/kernel_registry.h"
#include "server/store/store.h"

namespace tunefarm {

class NodeFollower {
 public:
  // All outlive it.
  struct Dependencies {
    Store* store = nullptr;
    Clock* clock = nullptr;
    EntropySource* entropy = nullptr;
    DeviceDirectory* devices = nullptr;
    Catalog* catalog = nullptr;
    KernelRegistry* kernels = nullptr;
    CatalogWatch* watch = nullptr;
    BestChanges* bests = nullptr;
    EventHub* events = nullptr;
    Scheduler* scheduler = nullptr;
    std::string local_copy;  // a file; empty: no copy is kept
    const Node* node = nullptr;
  };

  explicit NodeFollower(Dependencies dependencies) : deps_(std::move(dependencies)) {}

  // The catalog, from the store. Its errors.
  absl::Status Load();
  // The same from the local copy. How old it is, or why there is none that can be used.
  absl::StatusOr<Duration> LoadCopy();
  // The devices of this daemon, into the store. Its errors.
  absl::Status RecordDevices() { return RecordDevices(deps_.devices->List()); }
  absl::Status RecordDevices(const std::vector<tunefarm::v1::Device>& devices);
  // They are recorded with the next Refresh.
  void RecordDevicesLater() { devices_unrecorded_ = true; }

  // Once a second. Whatever fails, the rest is done; the first of the store's errors.
  absl::Status Refresh();
  // If there is anything new in it. `age`: since the store was agreed with.
  void SaveCopy(int64_t age_ms) LOCKS_EXCLUDED(mutex_);

 private:
  absl::Status FollowCatalog();
  absl::Status ReadAgain();
  absl::Status FollowClasses();
  absl::Status FollowWatched();

  const Dependencies deps_;
  std::atomic<bool> is_loaded_{false};  // from the store
  int64_t replacements_ = 0;            // of the database, that the catalog's id has followed
  std::atomic<bool> devices_unrecorded_{false};
  std::map<int64_t, uint64_t> told_;  // a digest of what watchers were told last, by job
  int64_t watched_after_ = 0;         // the job with which the last part of those that are watched ended
  std::string saved_;                 // what the local copy was made of

  Mutex mutex_;
  std::string catalog_id_ GUARDED_BY(mutex_);
};

}  // namespace tunefarm
