#include <limits>

#include "server/store/kernel_store.h"
#include "server/store/read_rows.h"
#include "server/store/shared/facets.h"

namespace tunefarm {
namespace {

class Kernels final : public SharedFacet<KernelStore> {
 public:
  using SharedFacet::SharedFacet;

  absl::Status PutKernel(const KernelRow& kernel) override {
    return backend_->Write([&](Sql& sql) { return InsertKernel(sql, kernel); });
  }

  absl::StatusOr<KernelRow> GetKernel(std::string_view kernel_id) override {
    return backend_->Read([&](Sql& sql) -> absl::StatusOr<KernelRow> {
      ASSIGN_OR_RETURN(
          std::optional<KernelRow> kernel,
          sql.ReadOne(ReadKernel, "SELECT " TUNEFARM_KERNEL_COLUMNS " FROM kernel WHERE kernel_id = $1", kernel_id));
      if (!kernel.has_value()) return NotFound("no kernel has the id {}", kernel_id);
      return *std::move(kernel);
    });
  }

  absl::StatusOr<KernelRow> FindKernel(std::string_view display_name) override {
    return backend_->Read([&](Sql& sql) -> absl::StatusOr<KernelRow> {
      ASSIGN_OR_RETURN(std::optional<KernelRow> kernel,
                       sql.ReadOne(ReadKernel,
                                   "SELECT " TUNEFARM_KERNEL_COLUMNS
                                   " FROM kernel WHERE display_name = $1 ORDER BY kernel_seq DESC LIMIT 1",
                                   display_name));
      if (!kernel.has_value()) return NotFound("no kernel is called \"{}\"", display_name);
      return *std::move(kernel);
    });
  }

  absl::StatusOr<Page<KernelRow>> ListKernels(const PageRequest& page) override {
    constexpr std::string_view kQuery = "kernels";
    ASSIGN_OR_RETURN(const auto after, DecodePageToken(kQuery, page.page_token, 1));
    const int size = EffectivePageSize(page.page_size);
    return backend_->Read([&](Sql& sql) -> absl::StatusOr<Page<KernelRow>> {
      Page<KernelRow> result;
      std::vector<int64_t> places;
      const auto read = [&](const SqlRow& row) {
        places.push_back(row.Int(5));
        return ReadKernel(row);
      };
      ASSIGN_OR_RETURN(result.rows,
                       sql.ReadAll(read,
                                   "SELECT " TUNEFARM_KERNEL_COLUMNS
                                   ", kernel_seq FROM kernel WHERE kernel_seq < $1 ORDER BY kernel_seq DESC LIMIT $2",
                                   after.has_value() ? (*after)[0] : std::numeric_limits<int64_t>::max(), size + 1));
      if (CutToPage(size, &result.rows)) {
        result.next_page_token = EncodePageToken(kQuery, {places[result.rows.size() - 1]});
      }
      return result;
    });
  }

  absl::StatusOr<int64_t> DeleteUnusedKernels(int64_t created_before_ms) override {
    return backend_->Write([&](Sql& sql) {
      return sql.Change(
          "DELETE FROM kernel AS k WHERE k.created_at_ms < $1 AND EXISTS (SELECT 1 FROM kernel n WHERE n.display_name "
          "= k.display_name AND n.kernel_seq > k.kernel_seq) AND NOT EXISTS (SELECT 1 FROM job j WHERE j.kernel_id = "
          "k.kernel_id) AND NOT EXISTS (SELECT 1 FROM best_config b WHERE b.kernel_id = k.kernel_id)",
          created_before_ms);
    });
  }
};

}  // namespace

absl::Status InsertKernel(Sql& sql, const KernelRow& kernel) {
  // The id covers the whole content: a row with the same id is the same kernel.
  return sql.Run(
      "INSERT INTO kernel (" TUNEFARM_KERNEL_COLUMNS ") VALUES ($1, $2, $3, $4, $5) ON CONFLICT (kernel_id) DO NOTHING",
      kernel.kernel_id, kernel.program_digest, kernel.display_name, Blob{kernel.definition}, kernel.created_at_ms);
}

std::unique_ptr<KernelStore> NewKernelStore(SqlBackend* backend) { return std::make_unique<Kernels>(backend); }

}  // namespace tunefarm
