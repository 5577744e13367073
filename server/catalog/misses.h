// Misses: the table of problems that were looked up in vain, kept over restarts, and what clients ask of it.
//
// Threads: all methods from any thread. Counting (table) never waits for the store.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/mutex.h"
#include "server/catalog/catalog.h"
#include "server/catalog/miss_table.h"
#include "server/store/store.h"
#include "tunefarm/v1/catalog_service.pb.h"

namespace tunefarm {

class Misses {
 public:
  // Both outlive it. Several daemons may count into one store: each adds what it has counted and keeps nothing of it,
  // and lists are of what the store has, less the problems for which the catalog has a best that was promoted after
  // they were last asked: of the program that was asked for, or of the newest definition of the kernel's name.
  Misses(Store* store, const Catalog* catalog) : store_(store), catalog_(catalog) {}

  MissTable* table() { return &table_; }

  // Adds what was counted since the last time to the store, and removes from it what was tuned or is more than a
  // MissTable holds. The store's errors: what is not written is tried again the next time.
  absl::Status Write() LOCKS_EXCLUDED(write_mutex_);

  // Problems of which the store does not know the latest. Waits for a write that is under way.
  int64_t unwritten() const LOCKS_EXCLUDED(write_mutex_);
  // Problems in the store when it was last read or written here.
  int64_t stored() const { return stored_.load(std::memory_order_relaxed); }

  // Most often asked first; those asked equally often by kernel name, class and problem. A miss whose count grows
  // between two pages may be on neither, but none is on both. InvalidArgument for the page size or token.
  absl::StatusOr<tunefarm::v1::ListMissesResponse> List(const tunefarm::v1::ListMissesRequest& request)
      LOCKS_EXCLUDED(write_mutex_);

  // Answers when it is durable. The store's errors: nothing, or a part, was deleted.
  absl::StatusOr<tunefarm::v1::DeleteMissesResponse> Delete(const tunefarm::v1::DeleteMissesRequest& request)
      LOCKS_EXCLUDED(write_mutex_);

 private:
  absl::Status WriteChanges(MissTable* table) EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  absl::Status AddCounted() EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  // Adds what was counted, reads all that the store has into an empty table, and removes from the store what the table
  // has no room for and what was tuned.
  absl::Status ReadAll(MissTable* all) EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  static tunefarm::v1::ListMissesResponse Page(const MissTable& table, const tunefarm::v1::ListMissesRequest& request,
                                               const std::string& after, int page_size);

  Store* const store_;
  const Catalog* const catalog_;
  MissTable table_;
  std::atomic<int64_t> stored_{0};
  mutable Mutex write_mutex_;  // one writer at a time: an older count never replaces a newer one
};

}  // namespace tunefarm
