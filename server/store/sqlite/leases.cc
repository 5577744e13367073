// Named leases. A lease that has run out keeps its row: its epoch must go on growing.

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/checks.h"
#include "server/store/lease_store.h"
#include "server/store/read_rows.h"
#include "server/store/sqlite/facets.h"

namespace tunefarm::sqlite {
namespace {

// Rows of nodes that are gone: every process has a name of its own, so they would pile up.
constexpr int64_t kDeadNodesKeptMs = int64_t{24} * 3600 * 1000;

// As of $1.
#define TUNEFARM_SQLITE_LEASES "SELECT " TUNEFARM_LEASE_COLUMNS "until_ms - $1 FROM lease "

class SqliteLeases final : public Facet<LeaseStore> {
 public:
  using Facet::Facet;

  absl::StatusOr<LeaseRow> TakeLease(const LeaseRequest& request) override {
    return writer_->Call([&](Database& database) -> absl::StatusOr<LeaseRow> {
      const int64_t now_ms = clock_->NowMs();
      RETURN_IF_ERROR(CheckLease(request));
      ASSIGN_OR_RETURN(std::optional<std::string> before,
                       database.ReadOne(Sql::ReadBytes, "SELECT detail FROM lease WHERE name = $1", request.name));
      RETURN_IF_ERROR(
          database.Run("INSERT INTO lease (" TUNEFARM_LEASE_COLUMNS "until_ms"
                       ") VALUES ($1, $2, $3, 1, $4) ON CONFLICT (name) DO UPDATE SET epoch = epoch + (holder <> "
                       "excluded.holder), holder = excluded.holder, detail = excluded.detail, until_ms = "
                       "excluded.until_ms WHERE lease.holder = excluded.holder OR lease.until_ms <= $5",
                       request.name, request.holder, Blob{request.detail}, now_ms + request.lease_ms, now_ms));
      RETURN_IF_ERROR(
          database.Run("DELETE FROM lease WHERE name GLOB 'node/*' AND until_ms < $1", now_ms - kDeadNodesKeptMs));
      ASSIGN_OR_RETURN(std::optional<LeaseRow> lease,
                       database.ReadOne(ReadLease, TUNEFARM_SQLITE_LEASES "WHERE name = $2", now_ms, request.name));
      if (!lease.has_value()) return Internal("lease {} is gone", request.name);
      if (before.has_value()) lease->detail_before = *std::move(before);
      return *std::move(lease);
    });
  }

  absl::Status ReleaseLease(std::string_view name, std::string_view holder) override {
    return writer_->Run([&](Database& database) {
      const int64_t now_ms = clock_->NowMs();
      return database.Run("UPDATE lease SET until_ms = min(until_ms, $1) WHERE name = $2 AND holder = $3", now_ms, name,
                          holder);
    });
  }

  absl::StatusOr<std::vector<LeaseRow>> ListLeases(std::string_view prefix) override {
    return readers_->Read([&](Database& database) {
      return database.ReadAll(
          ReadLease, TUNEFARM_SQLITE_LEASES "WHERE substr(name, 1, length($2)) = $2 AND until_ms > $1 ORDER BY name",
          clock_->NowMs(), prefix);
    });
  }
};

}  // namespace

std::unique_ptr<LeaseStore> NewLeaseStore(const Shared& shared) { return std::make_unique<SqliteLeases>(shared); }

}  // namespace tunefarm::sqlite
