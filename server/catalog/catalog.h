// Catalog: the best configs, in memory, and the rules by which one of them answers a question.
//
// Threads: all methods may be called from any thread. Readers take a snapshot (a shared_ptr copied under a lock held
// for nanoseconds) and never wait for a promotion, which copies the parts of the indexes that it changes; only the
// first question about a kernel that has no exact answer waits for an index of its shapes. The store is used only by
// Load.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/mutex.h"
#include "server/catalog/catalog_entry.h"
#include "server/catalog/match_rules.h"
#include "server/catalog/shape_index.h"
#include "server/device/device_class.h"
#include "server/store/best_store.h"
#include "server/store/device_store.h"
#include "server/store/store.h"
#include "tunefarm/v1/best_config.pb.h"

namespace tunefarm {

struct CatalogSnapshot;

struct CatalogAnswer {
  std::shared_ptr<const tunefarm::v1::BestConfig> best;  // null for NOT_FOUND; for DEFAULT only the config is set
  tunefarm::v1::Match match = tunefarm::v1::MATCH_NOT_FOUND;
  double distance = 0;   // NEAREST_SHAPE: as ShapeDistance (match_rules.h) counts it
  int64_t revision = 0;  // of the catalog when the answer was made
};

// What to do to the bests of an earlier revision to have those of `revision`. No key is in both.
struct CatalogChanges {
  std::vector<std::shared_ptr<const tunefarm::v1::BestConfig>> bests;  // put in, under their keys
  std::vector<BestKey> removed;                                        // take out, where they are
  int64_t revision = 0;
};

// All that a catalog is made of.
struct CatalogContents {
  std::vector<DeviceClassRow> classes;
  std::vector<BestRow> bests;
  std::vector<BestRemovalRow> removals;  // by revision
  int64_t revision = 0;
};

class Catalog {
 public:
  Catalog();
  ~Catalog();
  Catalog(const Catalog&) = delete;
  Catalog& operator=(const Catalog&) = delete;

  // Reads all bests and device classes, before the first question or in the place of what a copy said. The store's
  // errors.
  absl::Status Load(Store* store);
  // The same from elsewhere. DataLoss for what cannot be read.
  absl::Status Load(const CatalogContents& contents);

  // Files a changed best (with its revision), in place of the one under the same program, problem and class, whatever
  // kernel name it was filed under. A row that is no newer than what is there changes nothing. Changes come in the
  // order of their revisions: a watcher that was told of one is never told of an earlier one. A row with a detail that
  // is no BestConfig is DataLoss.
  absl::Status Update(const BestRow& row);
  // Takes out the best of a key, if there is one; `revision` as with Update.
  void Remove(const BestKey& key, int64_t revision);

  // Makes a class known, so that its bests can answer for others of its compute capability.
  void AddClass(std::string_view class_id, const DeviceClass& device_class);

  // Never fails: the match says how good the answer is. In this order, the first that applies: EXACT (same program,
  // problem and class), STALE (see IsStale), STALE_SOURCE (same name, another program), NEAREST_SHAPE
  // (same name and class, EXACT dims equal, BUCKET dims in the same bucket, NEXT_POWER_OF_TWO dims from the asked value
  // to its next power of two, nearest by the distance above and within the definition's lookup_distance_max, pins
  // obeyed), SAME_ARCH (another class of the same compute capability; the same problem, else one that differs in dims
  // with inputs_only alone), DEFAULT, NOT_FOUND. From STALE_SOURCE on, only configs that the asked definition accepts
  // for the asked problem and class answer. Among equally good answers the asked program's own come first, then those
  // whose dims with inputs_only have their defaults, then the newest.
  CatalogAnswer Lookup(const CatalogQuery& query) const;

  // How many other programs of the name have a best for the problem on the class.
  int CountOtherPrograms(const CatalogQuery& query) const;

  // The best filed under exactly these keys; null if there is none.
  std::shared_ptr<const tunefarm::v1::BestConfig> Find(std::string_view program_digest, std::string_view problem_key,
                                                       std::string_view class_id) const;

  // The bests of a program on a class as they are now, for many questions of the kind that Find answers. Both texts
  // outlive the view.
  class View;
  View Read(std::string_view program_digest, std::string_view class_id) const;

  // Up to `page_size` bests in the order of (kernel name, class id, problem key, program), of one kernel name, of one
  // program and of one class, or all where they are empty. InvalidArgument (PAGE_TOKEN_INVALID) for a token that is not
  // from here.
  absl::StatusOr<std::pair<std::vector<std::shared_ptr<const tunefarm::v1::BestConfig>>, std::string>> List(
      std::string_view kernel_name, int page_size, std::string_view page_token, std::string_view program_digest = {},
      std::string_view class_id = {}) const;

  // What has changed after `revision` (0: everything there is) among the bests of one kernel name, or all if empty. A
  // best that is filed under another name now is removed from its old one. Costs what it answers for those who are a
  // few hundred changes behind at most; others make it read the whole catalog.
  CatalogChanges ChangesSince(int64_t revision, std::string_view kernel_name) const;

  int64_t revision() const;
  // Another number after each change, of whatever kind, and sometimes without one. Of this object alone.
  int64_t version() const LOCKS_EXCLUDED(mutex_);
  // All of them, in no order that means anything; and the classes by id.
  std::vector<std::shared_ptr<const CatalogEntry>> Entries() const;
  std::vector<std::pair<std::string, std::shared_ptr<const DeviceClass>>> Classes() const;

 private:
  static absl::StatusOr<std::shared_ptr<const CatalogEntry>> MakeEntry(const BestRow& row);
  // The best of the asked problem by another program on the asked class; null if there is none that is accepted.
  static std::shared_ptr<const tunefarm::v1::BestConfig> OfOtherProgram(const CatalogSnapshot& snapshot,
                                                                        const CatalogQuery& query,
                                                                        Acceptance* acceptance);
  // The best of the asked problem, else of one that differs in its inputs, by any program on the other classes of the
  // asked compute capability; null if there is none that is accepted.
  static std::shared_ptr<const tunefarm::v1::BestConfig> OfOtherClass(const CatalogSnapshot& snapshot,
                                                                      const ShapeIndex& index,
                                                                      const CatalogQuery& query,
                                                                      Acceptance* acceptance);
  static CatalogAnswer NearShape(const CatalogSnapshot& snapshot, const ShapeIndex& index, const CatalogQuery& query,
                                 Acceptance* acceptance);
  static std::shared_ptr<const tunefarm::v1::BestConfig> FirstAccepted(std::vector<const CatalogEntry*>* entries,
                                                                       const CatalogQuery& query,
                                                                       Acceptance* acceptance);

  std::shared_ptr<const CatalogSnapshot> Current() const LOCKS_EXCLUDED(mutex_);
  void Publish(std::shared_ptr<const CatalogSnapshot> snapshot) const EXCLUSIVE_LOCKS_REQUIRED(change_mutex_)
      LOCKS_EXCLUDED(mutex_);
  // A snapshot with an index for these scaling dims, made at the first question that needs it.
  std::shared_ptr<const CatalogSnapshot> WithIndex(std::string_view kernel_name, const ScalingDims& scaling_dims) const
      LOCKS_EXCLUDED(change_mutex_, mutex_);

  // Held while a snapshot is made of the one before; mutex_ only while they are exchanged.
  mutable Mutex change_mutex_ ACQUIRED_BEFORE(mutex_);
  mutable Mutex mutex_;
  mutable std::shared_ptr<const CatalogSnapshot> snapshot_ GUARDED_BY(mutex_);
  mutable int64_t version_ GUARDED_BY(mutex_) = 0;
};

class Catalog::View {
 public:
  // As Catalog's; valid as long as the view.
  const CatalogEntry* Find(std::string_view problem_key) const;
  int64_t revision() const;

 private:
  friend class Catalog;
  View(std::shared_ptr<const CatalogSnapshot> snapshot, std::string_view program_digest, std::string_view class_id);

  std::shared_ptr<const CatalogSnapshot> snapshot_;
  std::string_view program_digest_, class_id_;
  uint64_t owner_hash_;
};

}  // namespace tunefarm
