// BestStore: the catalog of best configs, what people decide about them, and its history. Each change is one
// transaction with its entry in the history and the catalog's next revision. Threads and errors: as Store (store.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/page.h"

namespace tunefarm {

struct BestRow {
  std::string kernel_name, kernel_id, program_digest, problem_key, class_id;
  std::string config;  // canonical text
  std::string detail;  // opaque
  double median_ns = 0;
  int64_t job_id = 0, study_id = 0, ordinal = 0;
  int64_t revision = 0;  // of its last change; set by the store
  int64_t promoted_at_ms = 0;
  bool pinned = false;  // this and the note: set by the store
  std::string note;
  // Of a promotion: the revision of the best that it was compared with (0: there was none), which must still be there;
  // -1: whatever is there. Not read back.
  int64_t compared_with = -1;
};

// What a best is filed under.
struct BestKey {
  std::string program_digest, problem_key, class_id;
};

// Values are those of tunefarm.v1.BestConfigChangeKind.
enum class BestChangeKind { kPromoted = 1, kPinned, kUnpinned, kRetired, kAnnotated };

// What a person wants of a best.
struct BestEdit {
  BestChangeKind kind = BestChangeKind::kPinned;  // not kPromoted
  BestKey key;
  std::string reason;         // at most 4096 bytes
  std::string note;           // kAnnotated; at most 4096 bytes
  int64_t from_revision = 0;  // kPinned: of the key's history; 0: the best that is there
  int64_t now_ms = 0;
};

// A change of the catalog.
struct BestChangeRow {
  int64_t revision = 0;  // the catalog's, that it made
  BestChangeKind kind = BestChangeKind::kPromoted;
  BestRow best;  // after the change; for kRetired before it
  std::string reason;
  int64_t changed_at_ms = 0;
};

struct BestChangeQuery {
  std::string kernel_name;     // empty: all
  std::optional<BestKey> key;  // none: all
  PageRequest page;
};

// A name under which the key had a best and has none now: it was taken out, or is filed under another name.
struct BestRemovalRow {
  BestKey key;
  std::string kernel_name;
  int64_t revision = 0;  // of the change
};

class BestStore {
 public:
  virtual ~BestStore() = default;

  // Newest kept of each key's history; older ones go.
  static constexpr int kBestChangesKept = 100;

  virtual absl::StatusOr<std::vector<BestRow>> LoadBests() = 0;
  // Of a higher revision, by revision.
  virtual absl::StatusOr<std::vector<BestRow>> LoadBestsSince(int64_t revision) = 0;
  virtual absl::StatusOr<std::optional<BestRow>> FindBest(std::string_view program_digest, std::string_view problem_key,
                                                          std::string_view class_id) = 0;
  // Grows by one with every change of a best; at least 1.
  virtual absl::StatusOr<int64_t> CatalogRevision() = 0;
  virtual absl::StatusOr<std::vector<BestRemovalRow>> LoadBestRemovals() = 0;  // by revision
  // Replaces the best under the row's keys; answers it as it is filed. A best that has the same config keeps its pin
  // and its note. FailedPrecondition (BEST_PINNED) for another config than a pinned best's; (BEST_CHANGED) where the
  // best is another one than it was compared with.
  virtual absl::StatusOr<BestRow> PromoteBest(const BestRow& best) = 0;
  // Returns the change. An edit that changes nothing is not recorded and has revision 0. NotFound: BEST_NOT_FOUND if
  // there is no best to change, REVISION_NOT_FOUND for a from_revision that is not in the key's history.
  virtual absl::StatusOr<BestChangeRow> EditBest(const BestEdit& edit) = 0;
  // Newest first.
  virtual absl::StatusOr<Page<BestChangeRow>> ListBestChanges(const BestChangeQuery& query) = 0;
};

}  // namespace tunefarm
