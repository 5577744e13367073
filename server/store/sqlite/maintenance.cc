#include "server/base/status_macros.h"
#include "server/store/shared/facets.h"
#include "server/store/sqlite/facets.h"
#include "server/store/store_maintenance.h"

namespace tunefarm::sqlite {
namespace {

class SqliteMaintenance final : public Facet<StoreMaintenance> {
 public:
  using Facet::Facet;

  absl::StatusOr<StoreStatus> Status() override {
    return readers_->Read([](Database& database) -> absl::StatusOr<StoreStatus> {
      StoreStatus status;
      ASSIGN_OR_RETURN(const int64_t version, database.QueryInt("PRAGMA user_version"));
      status.schema_version = static_cast<int>(version);
      ASSIGN_OR_RETURN(const int64_t pages, database.QueryInt("PRAGMA page_count"));
      ASSIGN_OR_RETURN(const int64_t page_bytes, database.QueryInt("PRAGMA page_size"));
      status.database_bytes = pages * page_bytes;
      ASSIGN_OR_RETURN(const int64_t free_pages, database.QueryInt("PRAGMA freelist_count"));
      status.used_bytes = (pages - free_pages) * page_bytes;
      ASSIGN_OR_RETURN(status.active_jobs, database.QueryInt("SELECT count(*) FROM job WHERE state < 5"));
      ASSIGN_OR_RETURN(status.stored_trials, database.QueryInt("SELECT count(*) FROM trial_result"));
      return status;
    });
  }

  absl::StatusOr<QueueCounts> CountQueue() override {
    return readers_->Read([](Database& database) { return tunefarm::CountQueue(database); });
  }

  CommitStats Commits() const override { return writer_->stats(); }

  absl::Status CheckWritable() override {
    return writer_->Run([](Database& database) {
      // The same value again: SQLite writes the page all the same, and the commit is synced.
      return database.Run("UPDATE setting SET value = value WHERE name = 'store.open'");
    });
  }

  absl::Status Backup(const std::string& path) override {
    // From a reader: writing goes on meanwhile.
    return readers_->Use([&](Database& database) { return database.CopyTo(path); });
  }
};

}  // namespace

std::unique_ptr<StoreMaintenance> NewStoreMaintenance(const Shared& shared) {
  return std::make_unique<SqliteMaintenance>(shared);
}

}  // namespace tunefarm::sqlite
