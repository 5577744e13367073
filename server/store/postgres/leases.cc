// Named leases. A lease that has run out keeps its row: its epoch must go on growing.

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/checks.h"
#include "server/store/lease_store.h"
#include "server/store/postgres/facets.h"
#include "server/store/read_rows.h"

namespace tunefarm::postgres {
namespace {

#define TUNEFARM_PG_LEASES \
  "SELECT " TUNEFARM_LEASE_COLUMNS "(extract(epoch FROM lease_until - clock_timestamp()) * 1000)::bigint FROM lease "

class PostgresLeases final : public Facet<LeaseStore> {
 public:
  using Facet::Facet;

  absl::StatusOr<LeaseRow> TakeLease(const LeaseRequest& request) override {
    return pool_->Call(&Pool::Write, [&](Session& session) -> absl::StatusOr<LeaseRow> {
      RETURN_IF_ERROR(CheckLease(request));
      ASSIGN_OR_RETURN(
          std::optional<std::string> before,
          session.ReadOne(Sql::ReadBytes, "SELECT detail FROM lease WHERE name = $1 FOR UPDATE", request.name));
      RETURN_IF_ERROR(
          session.Run("INSERT INTO lease AS l (name, holder, detail, epoch, lease_until) VALUES ($1, "
                      "$2, $3, 1, clock_timestamp() + $4 * interval '1 millisecond') ON CONFLICT (name) DO "
                      "UPDATE SET epoch = l.epoch + CASE WHEN l.holder <> excluded.holder THEN 1 ELSE 0 END, "
                      "holder = excluded.holder, detail = excluded.detail, lease_until = excluded.lease_until "
                      "WHERE l.holder = excluded.holder OR l.lease_until <= clock_timestamp()",
                      request.name, request.holder, Blob{request.detail}, request.lease_ms));
      // Of nodes that are gone: every process has a name of its own, so they would pile up.
      RETURN_IF_ERROR(
          session.Run("DELETE FROM lease WHERE name IN (SELECT n.name FROM lease n WHERE n.name LIKE 'node/%' "
                      "AND n.lease_until < clock_timestamp() - interval '1 day' FOR UPDATE SKIP LOCKED)"));
      ASSIGN_OR_RETURN(std::optional<LeaseRow> lease,
                       session.ReadOne(ReadLease, TUNEFARM_PG_LEASES "WHERE name = $1", request.name));
      if (!lease.has_value()) return Internal("lease {} is gone", request.name);
      if (before.has_value()) lease->detail_before = *std::move(before);
      return *std::move(lease);
    });
  }

  absl::Status ReleaseLease(std::string_view name, std::string_view holder) override {
    return pool_->Write([&](Session& session) {
      return session.Run(
          "UPDATE lease SET lease_until = least(lease_until, clock_timestamp()) WHERE name = $1 AND holder = $2", name,
          holder);
    });
  }

  absl::StatusOr<std::vector<LeaseRow>> ListLeases(std::string_view prefix) override {
    return pool_->Call(&Pool::Read, [&](Session& session) {
      return session.ReadAll(
          ReadLease, TUNEFARM_PG_LEASES "WHERE starts_with(name, $1) AND lease_until > clock_timestamp() ORDER BY name",
          prefix);
    });
  }
};

}  // namespace

std::unique_ptr<LeaseStore> NewLeaseStore(const Shared& shared) { return std::make_unique<PostgresLeases>(shared); }

}  // namespace tunefarm::postgres
