// Rows of the catalog: bests, what people decide about them, their history, and problems that were looked up in vain.
// Plain values; who writes them is said at Store's methods.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/store/page.h"

namespace tunefarm {

// A problem that was looked up and had no exact best; by kernel name, problem key and class.
struct MissRow {
  std::string kernel_name, problem_key, class_id;  // at most 256, 4096 and 256 bytes
  std::string class_name;                          // at most 256 bytes
  std::string program_digest;                      // of the program that was asked last
  std::string problem;                             // opaque; at most 64 KiB
  int64_t asked = 0;                               // how often
  int match = 0;                                   // of the last answer, as tunefarm.v1.Match
  double distance = 0;                             // of the last answer
  int64_t first_asked_at_ms = 0, last_asked_at_ms = 0;
};
struct MissChanges {
  std::vector<MissRow> gone;     // only what names them is looked at; need not be there
  std::vector<MissRow> present;  // put in, or in the place of what was there
  // `asked` of what is present counts on top of what was there, and the later answer stays: several daemons count.
  bool adds = false;
};

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

}  // namespace tunefarm
