// Named leases. A lease that has run out keeps its row: its epoch must go on growing.

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/checks.h"
#include "server/store/lease_store.h"
#include "server/store/postgres/facets.h"
#include "server/store/postgres/rows.h"

namespace tunefarm::postgres {
namespace {

#define TUNEFARM_PG_LEASE_COLUMNS \
  "name, holder, detail, epoch, (extract(epoch FROM lease_until - clock_timestamp()) * 1000)::bigint"
LeaseRow ReadLease(const Row& row) { return {row.Bytes(0), row.Bytes(1), row.Bytes(2), row.Int(3), row.Int(4)}; }

class PostgresLeases final : public Facet<LeaseStore> {
 public:
  using Facet::Facet;

  absl::StatusOr<LeaseRow> TakeLease(const LeaseRequest& request) override {
    return pool_->Call(&Pool::Write, [&](Session& session) -> absl::StatusOr<LeaseRow> {
      RETURN_IF_ERROR(CheckLease(request));
      ASSIGN_OR_RETURN(const Rows before,
                       session.Query("SELECT detail FROM lease WHERE name = $1 FOR UPDATE", request.name));
      RETURN_IF_ERROR(session
                          .Run("INSERT INTO lease AS l (name, holder, detail, epoch, lease_until) VALUES ($1, "
                               "$2, $3, 1, clock_timestamp() + $4 * interval '1 millisecond') ON CONFLICT (name) DO "
                               "UPDATE SET epoch = l.epoch + CASE WHEN l.holder <> excluded.holder THEN 1 ELSE 0 END, "
                               "holder = excluded.holder, detail = excluded.detail, lease_until = excluded.lease_until "
                               "WHERE l.holder = excluded.holder OR l.lease_until <= clock_timestamp()",
                               request.name, request.holder, Blob{request.detail}, request.lease_ms)
                          .status());
      // Of nodes that are gone: every process has a name of its own, so they would pile up.
      RETURN_IF_ERROR(session
                          .Run("DELETE FROM lease WHERE name IN (SELECT n.name FROM lease n WHERE n.name LIKE 'node/%' "
                               "AND n.lease_until < clock_timestamp() - interval '1 day' FOR UPDATE SKIP LOCKED)")
                          .status());
      ASSIGN_OR_RETURN(const Rows rows,
                       session.Query("SELECT " TUNEFARM_PG_LEASE_COLUMNS " FROM lease WHERE name = $1", request.name));
      if (rows.empty()) return Internal("lease {} is gone", request.name);
      LeaseRow lease = ReadLease(rows[0]);
      if (!before.empty()) lease.detail_before = before[0].Bytes(0);
      return lease;
    });
  }

  absl::Status ReleaseLease(std::string_view name, std::string_view holder) override {
    return pool_->Write([&](Session& session) {
      return session
          .Run(
              "UPDATE lease SET lease_until = least(lease_until, clock_timestamp()) WHERE name = $1 AND holder = "
              "$2",
              name, holder)
          .status();
    });
  }

  absl::StatusOr<std::vector<LeaseRow>> ListLeases(std::string_view prefix) override {
    return pool_->Call(&Pool::Read, [&](Session& session) -> absl::StatusOr<std::vector<LeaseRow>> {
      ASSIGN_OR_RETURN(
          const Rows rows,
          session.Query("SELECT " TUNEFARM_PG_LEASE_COLUMNS
                        " FROM lease WHERE starts_with(name, $1) AND lease_until > clock_timestamp() ORDER BY name",
                        prefix));
      return ReadAll(rows, ReadLease);
    });
  }
};

}  // namespace

std::unique_ptr<LeaseStore> NewLeaseStore(const Shared& shared) { return std::make_unique<PostgresLeases>(shared); }

}  // namespace tunefarm::postgres
