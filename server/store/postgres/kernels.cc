#include <limits>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/kernel_store.h"
#include "server/store/page_token.h"
#include "server/store/postgres/facets.h"
#include "server/store/postgres/operations.h"
#include "server/store/postgres/rows.h"

namespace tunefarm::postgres {
namespace {

class PostgresKernels final : public Facet<KernelStore> {
 public:
  using Facet::Facet;

  absl::Status PutKernel(const KernelRow& kernel) override {
    return pool_->Write([&](Session& session) { return InsertKernel(session, kernel); });
  }

  absl::StatusOr<KernelRow> GetKernel(std::string_view kernel_id) override {
    return pool_->Call(&Pool::Read, [&](Session& session) -> absl::StatusOr<KernelRow> {
      ASSIGN_OR_RETURN(const Rows rows,
                       session.Query("SELECT " TUNEFARM_KERNEL_COLUMNS " FROM kernel WHERE kernel_id = $1", kernel_id));
      if (rows.empty()) return NotFound("no kernel has the id {}", kernel_id);
      return ReadKernel(rows[0]);
    });
  }

  absl::StatusOr<KernelRow> FindKernel(std::string_view display_name) override {
    return pool_->Call(&Pool::Read, [&](Session& session) -> absl::StatusOr<KernelRow> {
      ASSIGN_OR_RETURN(const Rows rows,
                       session.Query("SELECT " TUNEFARM_KERNEL_COLUMNS
                                     " FROM kernel WHERE display_name = $1 ORDER BY kernel_seq DESC LIMIT 1",
                                     display_name));
      if (rows.empty()) return NotFound("no kernel is called \"{}\"", display_name);
      return ReadKernel(rows[0]);
    });
  }

  absl::StatusOr<Page<KernelRow>> ListKernels(const PageRequest& page) override {
    return pool_->Call(&Pool::Read, [&](Session& session) -> absl::StatusOr<Page<KernelRow>> {
      constexpr std::string_view kQuery = "kernels";
      ASSIGN_OR_RETURN(const auto after, DecodePageToken(kQuery, page.page_token, 1));
      const int size = EffectivePageSize(page.page_size);
      // One row more than asked for tells whether there is a next page.
      ASSIGN_OR_RETURN(const Rows rows,
                       session.Query("SELECT " TUNEFARM_KERNEL_COLUMNS
                                     ", kernel_seq FROM kernel WHERE kernel_seq < $1 ORDER BY kernel_seq DESC LIMIT $2",
                                     after.has_value() ? (*after)[0] : std::numeric_limits<int64_t>::max(), size + 1));
      Page<KernelRow> result;
      for (int i = 0; i < rows.size() && i < size; ++i) result.rows.push_back(ReadKernel(rows[i]));
      if (rows.size() > size) result.next_page_token = EncodePageToken(kQuery, {rows[size - 1].Int(5)});
      return result;
    });
  }

  absl::StatusOr<int64_t> DeleteUnusedKernels(int64_t created_before_ms) override {
    return pool_->Call(&Pool::Write, [&](Session& session) -> absl::StatusOr<int64_t> {
      return session.Run(
          "DELETE FROM kernel k WHERE k.created_at_ms < $1 AND EXISTS (SELECT 1 FROM kernel n WHERE n.display_name = "
          "k.display_name AND n.kernel_seq > k.kernel_seq) AND NOT EXISTS (SELECT 1 FROM job j WHERE j.kernel_id = "
          "k.kernel_id) AND NOT EXISTS (SELECT 1 FROM best_config b WHERE b.kernel_id = k.kernel_id)",
          created_before_ms);
    });
  }
};

}  // namespace

std::unique_ptr<KernelStore> NewKernelStore(const Shared& shared) { return std::make_unique<PostgresKernels>(shared); }

}  // namespace tunefarm::postgres
