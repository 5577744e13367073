// Misses: the table of problems that were looked up in vain, kept over restarts, and what clients ask of it.
//
// Threads: all methods from any thread. Counting (table) never waits for the store.
#pragma once

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
  // The store outlives it.
  // `catalog`: other daemons count into the same store. Each then adds what it has counted and keeps nothing of it, and
  // lists are of what the store has, less what the catalog has exact bests for by now. Null: nobody else does.
  explicit Misses(Store* store, const Catalog* catalog = nullptr) : store_(store), catalog_(catalog) {}

  MissTable* table() { return &table_; }

  // Before the first question, when the catalog has its bests: what was written down, less what was tuned after that.
  // The store's errors.
  absl::Status Load(const Catalog& catalog);

  // Writes down what has changed since the last time. The store's errors: what is not written is tried again the next
  // time.
  absl::Status Write() LOCKS_EXCLUDED(write_mutex_);

  // Problems of which the store does not know the latest. Waits for a write that is under way.
  int64_t unwritten() const LOCKS_EXCLUDED(write_mutex_);

  // Most often asked first; those asked equally often by kernel name, class and problem. A miss whose count grows
  // between two pages may be on neither, but none is on both. InvalidArgument for the page size or token.
  absl::StatusOr<tunefarm::v1::ListMissesResponse> List(const tunefarm::v1::ListMissesRequest& request)
      LOCKS_EXCLUDED(write_mutex_);

  // Answers when it is durable. When the store fails they are forgotten all the same, until the next restart.
  absl::StatusOr<tunefarm::v1::DeleteMissesResponse> Delete(const tunefarm::v1::DeleteMissesRequest& request)
      LOCKS_EXCLUDED(write_mutex_);

 private:
  absl::Status WriteChanges(MissTable* table) EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  absl::Status AddCounted() EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  // What the store has, without what was tuned since.
  static absl::Status Fill(Store* store, const Catalog& catalog, MissTable* table);
  static tunefarm::v1::ListMissesResponse Page(const MissTable& table, const tunefarm::v1::ListMissesRequest& request,
                                               const std::string& after, int page_size);

  Store* const store_;
  const Catalog* const catalog_;
  MissTable table_;
  mutable Mutex write_mutex_;  // one writer at a time: an older count never replaces a newer one
};

}  // namespace tunefarm
