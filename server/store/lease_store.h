// LeaseStore: named leases, which run by the database's own clock. Threads and errors: as Store (store.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tunefarm {

struct LeaseRequest {
  std::string name, holder;  // 1 to 256 bytes each
  std::string detail;        // opaque, the holder's to fill; at most 64 KiB
  int64_t lease_ms = 0;      // from now
};

struct LeaseRow {
  std::string name, holder, detail;
  int64_t epoch = 0;    // grows with every change of the holder
  int64_t left_ms = 0;  // 0 or less: run out
  // Of TakeLease: the detail that was there before, also of a lease that had run out; empty: there was none. Who takes
  // a lease again and again sees by it whether the database has forgotten the last time.
  std::string detail_before = {};
};

// A control daemon of a farm is a node. Node N lives as long as it holds the lease "node/N".
inline constexpr char kNodeLeasePrefix[] = "node/";

class LeaseStore {
 public:
  virtual ~LeaseStore() = default;

  // Takes a lease that is free or has run out, or renews the holder's own. Answers the row as it is then: the caller
  // has the lease if it is the holder.
  virtual absl::StatusOr<LeaseRow> TakeLease(const LeaseRequest& request) = 0;
  // Ends it if `holder` has it.
  virtual absl::Status ReleaseLease(std::string_view name, std::string_view holder) = 0;
  // Those that run and whose names begin so, by name.
  virtual absl::StatusOr<std::vector<LeaseRow>> ListLeases(std::string_view prefix) = 0;
};

}  // namespace tunefarm
