// The one way in which bests change: promotions of finals and what people decide. A change goes to the store first,
// then to the catalog in memory, then to those who watch it, and the next one begins after that: so watchers are told
// of changes in the order of their revisions, and miss none. Where other daemons change bests of the same store too,
// the catalog learns of all changes from the store, its own among them, in their order (Follow).
//
// Threads: all methods may be called from any thread; those that write block until the write is durable.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/catalog/catalog.h"
#include "server/catalog/catalog_watch.h"
#include "server/catalog/miss_table.h"
#include "server/store/best_store.h"
#include "server/store/store.h"
#include "tunefarm/v1/catalog_service.pb.h"

namespace tunefarm {

// What became of a final's winner.
enum class PromotionVerdict {
  kFiled,        // it is the best
  kFiledBefore,  // by an earlier attempt, and others have changed the best since: it stays as they left it
  kKeptPinned,   // it is not filed: somebody wants the best that is there to stay
};

class BestChanges {
 public:
  // All of them outlive it.
  BestChanges(Store* store, Catalog* catalog, MissTable* misses, CatalogWatch* watch, Clock* clock);

  // What was changed since the catalog was loaded, or since the last call. The store's errors; FailedPrecondition
  // (CATALOG_REPLACED) where the store has been restored to an older state: the catalog is to be loaded again.
  absl::Status Follow() LOCKS_EXCLUDED(mutex_);
  // The catalog is about to be loaded again, from what may be an older state.
  void Forget() LOCKS_EXCLUDED(mutex_);

  // May be repeated for one study and ordinal. The store's errors; FailedPrecondition (BEST_CHANGED) where another
  // daemon has changed the best that the row was compared with, which the catalog has then.
  absl::StatusOr<PromotionVerdict> Promote(const BestRow& row);

  // The next four: InvalidArgument (BEST_KEY_INVALID, TEXT_TOO_LONG, REVISION_INVALID), NotFound (BEST_NOT_FOUND,
  // REVISION_NOT_FOUND), the store's errors. What is so already stays so, and is no change.
  absl::StatusOr<tunefarm::v1::BestConfig> Pin(const tunefarm::v1::PinBestConfigRequest& request);
  absl::StatusOr<tunefarm::v1::BestConfig> Unpin(const tunefarm::v1::UnpinBestConfigRequest& request);
  absl::StatusOr<tunefarm::v1::BestConfig> Annotate(const tunefarm::v1::AnnotateBestConfigRequest& request);
  // The new revision.
  absl::StatusOr<int64_t> Retire(const tunefarm::v1::RetireBestConfigRequest& request);

  // InvalidArgument (BEST_KEY_INVALID, PAGE_SIZE_INVALID, PAGE_TOKEN_INVALID), the store's errors.
  absl::StatusOr<tunefarm::v1::ListBestConfigChangesResponse> List(
      const tunefarm::v1::ListBestConfigChangesRequest& request);

 private:
  // In memory; a problem that has a best is no miss any more.
  absl::Status File(const BestRow& row) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // After a change was stored: the catalog learns of it.
  void Changed() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CatchUp() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<BestChangeRow> Edit(BestEdit edit, const tunefarm::v1::BestConfigKey& key) LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<tunefarm::v1::BestConfig> EditedBest(BestEdit edit, const tunefarm::v1::BestConfigKey& key);

  Store* const store_;
  Catalog* const catalog_;
  MissTable* const misses_;
  CatalogWatch* const watch_;
  Clock* const clock_;
  Mutex mutex_;                              // held from a change's transaction until the catalog has it
  int64_t followed_ GUARDED_BY(mutex_) = 0;  // the catalog has what was changed up to this revision
};

}  // namespace tunefarm
