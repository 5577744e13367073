// Named leases. A lease that has run out keeps its row: its epoch must go on growing.

#include "server/base/status_macros.h"
#include "server/store/checks.h"
#include "server/store/lease_store.h"
#include "server/store/sqlite/facets.h"
#include "server/store/sqlite/rows.h"

namespace tunefarm::sqlite {
namespace {

// Rows of nodes that are gone: every process has a name of its own, so they would pile up.
constexpr int64_t kDeadNodesKeptMs = int64_t{24} * 3600 * 1000;

#define TUNEFARM_LEASE_COLUMNS "name, holder, detail, epoch, until_ms"
LeaseRow ReadLease(const Statement& row, int64_t now_ms) {
  return {row.Bytes(0), row.Bytes(1), row.Bytes(2), row.Int(3), row.Int(4) - now_ms};
}

class SqliteLeases final : public Facet<LeaseStore> {
 public:
  using Facet::Facet;

  absl::StatusOr<LeaseRow> TakeLease(const LeaseRequest& request) override {
    return writer_->Call([&](Database& database) -> absl::StatusOr<LeaseRow> {
      const int64_t now_ms = clock_->NowMs();
      RETURN_IF_ERROR(CheckLease(request));
      std::string detail_before;
      {
        Statement before = database.Prepare("SELECT detail FROM lease WHERE name = ?");
        ASSIGN_OR_RETURN(const bool has_row, before.Bind(request.name).Step());
        if (has_row) detail_before = before.Bytes(0);
      }
      RETURN_IF_ERROR(
          database
              .Prepare("INSERT INTO lease (" TUNEFARM_LEASE_COLUMNS
                       ") VALUES (?1, ?2, ?3, 1, ?4) ON CONFLICT (name) DO UPDATE SET epoch = epoch + (holder <> "
                       "excluded.holder), holder = excluded.holder, detail = excluded.detail, until_ms = "
                       "excluded.until_ms WHERE lease.holder = excluded.holder OR lease.until_ms <= ?5")
              .Bind(request.name, request.holder, Blob{request.detail}, now_ms + request.lease_ms, now_ms)
              .Run());
      RETURN_IF_ERROR(database.Prepare("DELETE FROM lease WHERE name GLOB 'node/*' AND until_ms < ?")
                          .Bind(now_ms - kDeadNodesKeptMs)
                          .Run());
      Statement row = database.Prepare("SELECT " TUNEFARM_LEASE_COLUMNS " FROM lease WHERE name = ?");
      RETURN_IF_ERROR(row.Bind(request.name).Step().status());
      LeaseRow lease = ReadLease(row, now_ms);
      lease.detail_before = std::move(detail_before);
      return lease;
    });
  }

  absl::Status ReleaseLease(std::string_view name, std::string_view holder) override {
    return writer_->Run([&](Database& database) {
      const int64_t now_ms = clock_->NowMs();
      return database.Prepare("UPDATE lease SET until_ms = min(until_ms, ?) WHERE name = ? AND holder = ?")
          .Bind(now_ms, name, holder)
          .Run();
    });
  }

  absl::StatusOr<std::vector<LeaseRow>> ListLeases(std::string_view prefix) override {
    return readers_->Read([&](Database& database) -> absl::StatusOr<std::vector<LeaseRow>> {
      const int64_t now_ms = clock_->NowMs();
      Statement rows =
          database.Prepare("SELECT " TUNEFARM_LEASE_COLUMNS
                           " FROM lease WHERE substr(name, 1, length(?1)) = ?1 AND until_ms > ?2 ORDER BY name");
      rows.Bind(prefix, now_ms);
      return ReadAll(rows, [&](const Statement& row) { return ReadLease(row, now_ms); });
    });
  }
};

}  // namespace

std::unique_ptr<LeaseStore> NewLeaseStore(const Shared& shared) { return std::make_unique<SqliteLeases>(shared); }

}  // namespace tunefarm::sqlite
