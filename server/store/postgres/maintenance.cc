#include <algorithm>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/postgres/facets.h"
#include "server/store/shared/facets.h"
#include "server/store/store_maintenance.h"

namespace tunefarm::postgres {
namespace {

class PostgresMaintenance final : public Facet<StoreMaintenance> {
 public:
  using Facet::Facet;

  absl::StatusOr<StoreStatus> Status() override {
    return pool_->Call(&Pool::Read, [](Session& session) -> absl::StatusOr<StoreStatus> {
      // Below this many trials they are counted; above, the server's own estimate has to do.
      constexpr int64_t kCountedMax = 200'000;
      StoreStatus status;
      ASSIGN_OR_RETURN(const int64_t version, session.QueryInt("SELECT max(number) FROM schema_migration"));
      status.schema_version = static_cast<int>(version);
      // In use: the tables of this schema, less what the dead rows are estimated to take.
      ASSIGN_OR_RETURN(
          const Rows sizes,
          session.Query("SELECT pg_database_size(current_database()), coalesce(sum(pg_total_relation_size(relid) * "
                        "(n_live_tup + 1)::float8 / (n_live_tup + n_dead_tup + 1)), 0)::bigint FROM "
                        "pg_stat_user_tables WHERE schemaname = current_schema()"));
      status.database_bytes = sizes[0].Int(0);
      status.used_bytes = std::min(sizes[0].Int(1), status.database_bytes);
      ASSIGN_OR_RETURN(status.active_jobs, session.QueryInt("SELECT count(*) FROM job WHERE state < 5"));
      ASSIGN_OR_RETURN(
          status.stored_trials,
          session.QueryInt(
              "SELECT coalesce(sum(greatest(c.reltuples, pg_stat_get_live_tuples(c.oid), 0)), 0)::bigint FROM "
              "pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'trial_result'::regclass"));
      if (status.stored_trials <= kCountedMax) {
        ASSIGN_OR_RETURN(status.stored_trials, session.QueryInt("SELECT count(*) FROM trial_result"));
      }
      return status;
    });
  }

  absl::StatusOr<QueueCounts> CountQueue() override {
    return pool_->Call(&Pool::Read, [](Session& session) { return tunefarm::CountQueue(session); });
  }

  CommitStats Commits() const override { return pool_->stats(); }

  absl::Status CheckWritable() override {
    return pool_->Write([](Session& session) -> absl::Status {
      ASSIGN_OR_RETURN(const int64_t changes,
                       session.Change("UPDATE setting SET value = value WHERE name = 'store.writable'"));
      return changes == 1 ? absl::OkStatus() : DataLoss("{}: the setting store.writable is missing", session.server());
    });
  }

  absl::Status Backup(const std::string& /*path*/) override {
    return FailedPrecondition(
        "the store is on PostgreSQL: make copies of it with pg_dump, or with what its server has");
  }
};

}  // namespace

std::unique_ptr<StoreMaintenance> NewStoreMaintenance(const Shared& shared) {
  return std::make_unique<PostgresMaintenance>(shared);
}

}  // namespace tunefarm::postgres
