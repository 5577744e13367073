// StoreMaintenance: the state of the database as a whole, and copies of it. Threads and errors: as Store (store.h).
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tunefarm {

struct StoreStatus {
  int schema_version = 0;
  int64_t database_bytes = 0;
  int64_t used_bytes = 0;  // of database_bytes; the rest is free and used again before the file grows
  int64_t active_jobs = 0;
  int64_t stored_trials = 0;
};

// What waits and what has ended, for the metrics.
struct QueueCounts {
  std::array<int64_t, 8> jobs{};  // by JobState
  int64_t ready_units = 0;        // waiting for an agent
  int64_t claimed_units = 0;
};

// Since the store was opened.
struct CommitStats {
  // Upper ends of the latency buckets in milliseconds; one more bucket holds what took longer.
  static constexpr std::array<double, 10> kBoundsMs = {0.5, 1, 2, 5, 10, 20, 50, 100, 500, 2000};
  std::array<int64_t, kBoundsMs.size() + 1> by_latency{};  // commits that succeeded
  double total_ms = 0;
  int64_t failed = 0;
  int64_t operations = 0;  // writes that the commits carried
  int64_t waiting = 0;     // writes in the queue now
};

class StoreMaintenance {
 public:
  virtual ~StoreMaintenance() = default;

  virtual absl::StatusOr<StoreStatus> Status() = 0;
  virtual absl::StatusOr<QueueCounts> CountQueue() = 0;
  // Does not touch the database.
  virtual CommitStats Commits() const = 0;
  // A write that changes nothing, on disk: the same errors as any other.
  virtual absl::Status CheckWritable() = 0;
  // A consistent copy, checked and on disk. AlreadyExists if the path exists.
  virtual absl::Status Backup(const std::string& path) = 0;
};

}  // namespace tunefarm
