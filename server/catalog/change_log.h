// ChangeLog: what has changed in the catalog since a revision, without a look at all of it: the newest bests that were
// filed, and every name that a best is gone from. A value type that is made to be copied, like EntryMap.
//
// Threads: a log that others may read is const; a writer changes its own copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "server/catalog/catalog_entry.h"
#include "server/store/best_store.h"

namespace tunefarm {

class ChangeLog {
 public:
  ChangeLog() = default;
  // Of a catalog as it is at `revision`: what was filed before is not known. Removals by revision.
  ChangeLog(int64_t revision, const std::vector<BestRemovalRow>& removals);

  // The next change: each has a higher revision than those before it.
  void Filed(std::shared_ptr<const CatalogEntry> entry);
  void Removed(BestRemovalRow removal);

  // Whether FiledSince knows all that were filed after the revision.
  bool Reaches(int64_t revision) const { return revision >= filed_after_; }
  // Oldest first; an entry may have been replaced since.
  std::vector<std::shared_ptr<const CatalogEntry>> FiledSince(int64_t revision) const;
  // Oldest first.
  std::vector<std::shared_ptr<const BestRemovalRow>> RemovedSince(int64_t revision) const;

 private:
  // Watchers are rarely more changes behind than this; each change copies as many pointers.
  static constexpr size_t kFiledMax = 256;
  using Removals = std::vector<std::shared_ptr<const BestRemovalRow>>;

  int64_t filed_after_ = 0;
  std::vector<std::shared_ptr<const CatalogEntry>> filed_;  // the newest, by revision
  std::shared_ptr<const Removals> removals_;                // by revision; null: none
};

}  // namespace tunefarm
