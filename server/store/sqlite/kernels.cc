#include <limits>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/kernel_store.h"
#include "server/store/page_token.h"
#include "server/store/sqlite/facets.h"
#include "server/store/sqlite/operations.h"
#include "server/store/sqlite/rows.h"

namespace tunefarm::sqlite {
namespace {

class SqliteKernels final : public Facet<KernelStore> {
 public:
  using Facet::Facet;

  absl::Status PutKernel(const KernelRow& kernel) override {
    return writer_->Run([&](Database& database) { return InsertKernel(database, kernel); });
  }

  absl::StatusOr<KernelRow> GetKernel(std::string_view kernel_id) override {
    return readers_->Read([&](Database& database) -> absl::StatusOr<KernelRow> {
      Statement row = database.Prepare("SELECT " TUNEFARM_KERNEL_COLUMNS " FROM kernel WHERE kernel_id = ?");
      ASSIGN_OR_RETURN(const bool found, row.Bind(kernel_id).Step());
      if (!found) return NotFound("no kernel has the id {}", kernel_id);
      return ReadKernel(row);
    });
  }

  absl::StatusOr<KernelRow> FindKernel(std::string_view display_name) override {
    return readers_->Read([&](Database& database) -> absl::StatusOr<KernelRow> {
      Statement row = database.Prepare("SELECT " TUNEFARM_KERNEL_COLUMNS
                                       " FROM kernel WHERE display_name = ? ORDER BY kernel_seq DESC LIMIT 1");
      ASSIGN_OR_RETURN(const bool found, row.Bind(display_name).Step());
      if (!found) return NotFound("no kernel is called \"{}\"", display_name);
      return ReadKernel(row);
    });
  }

  absl::StatusOr<Page<KernelRow>> ListKernels(const PageRequest& page) override {
    return readers_->Read([&](Database& database) -> absl::StatusOr<Page<KernelRow>> {
      constexpr std::string_view kQuery = "kernels";
      ASSIGN_OR_RETURN(const auto after, DecodePageToken(kQuery, page.page_token, 1));
      const auto size = static_cast<size_t>(EffectivePageSize(page.page_size));
      Page<KernelRow> result;
      Statement rows =
          database.Prepare("SELECT " TUNEFARM_KERNEL_COLUMNS
                           ", kernel_seq FROM kernel WHERE kernel_seq < ? ORDER BY kernel_seq DESC LIMIT ?");
      // One row more than asked for tells whether there is a next page.
      rows.Bind(after.has_value() ? (*after)[0] : std::numeric_limits<int64_t>::max(), static_cast<int64_t>(size + 1));
      int64_t last = 0;
      while (true) {
        ASSIGN_OR_RETURN(const bool has_row, rows.Step());
        if (!has_row) return result;
        if (result.rows.size() == size) {
          result.next_page_token = EncodePageToken(kQuery, {last});
          return result;
        }
        result.rows.push_back(ReadKernel(rows));
        last = rows.Int(5);
      }
    });
  }

  absl::StatusOr<int64_t> DeleteUnusedKernels(int64_t created_before_ms) override {
    return writer_->Call([&](Database& database) -> absl::StatusOr<int64_t> {
      RETURN_IF_ERROR(database
                          .Prepare("DELETE FROM kernel WHERE created_at_ms < ? AND EXISTS (SELECT 1 FROM kernel n "
                                   "WHERE n.display_name = kernel.display_name AND n.kernel_seq > kernel.kernel_seq) "
                                   "AND NOT EXISTS (SELECT 1 FROM job j WHERE j.kernel_id = kernel.kernel_id) AND NOT "
                                   "EXISTS (SELECT 1 FROM best_config b WHERE b.kernel_id = kernel.kernel_id)")
                          .Bind(created_before_ms)
                          .Run());
      return database.Changes();
    });
  }
};

}  // namespace

std::unique_ptr<KernelStore> NewKernelStore(const Shared& shared) { return std::make_unique<SqliteKernels>(shared); }

}  // namespace tunefarm::sqlite
