// MissStore: problems that were looked up and had no exact best config. Threads and errors: as Store (store.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

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

class MissStore {
 public:
  virtual ~MissStore() = default;

  // In one transaction: first what is gone, then what is present. InvalidArgument, with nothing changed, for more than
  // 1000 rows in all.
  virtual absl::Status WriteMisses(const MissChanges& changes) = 0;
  // By kernel name, problem key and class.
  virtual absl::StatusOr<std::vector<MissRow>> LoadMisses() = 0;
};

}  // namespace tunefarm
