#include <fmt/core.h>

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
          sql.ReadOne(ReadKernel,
                      "SELECT " TUNEFARM_KERNEL_COLUMNS " FROM kernel WHERE kernel_id = $1 AND deleted_at_ms IS NULL",
                      kernel_id));
      if (kernel.has_value()) return *std::move(kernel);
      ASSIGN_OR_RETURN(const std::optional<std::string> deleted,
                       sql.ReadOne(Sql::ReadBytes, "SELECT display_name FROM kernel WHERE kernel_id = $1", kernel_id));
      if (!deleted.has_value()) return NotFound("no kernel has the id {}", kernel_id);
      return WithReason(
          NotFound("the kernel {} ({}) was deleted; submit its definition again to restore it", kernel_id, *deleted),
          "KERNEL_DELETED");
    });
  }

  absl::StatusOr<KernelRow> FindKernel(std::string_view display_name) override {
    return backend_->Read([&](Sql& sql) -> absl::StatusOr<KernelRow> {
      ASSIGN_OR_RETURN(
          std::optional<KernelRow> kernel,
          sql.ReadOne(ReadKernel,
                      "SELECT " TUNEFARM_KERNEL_COLUMNS
                      " FROM kernel WHERE display_name = $1 AND deleted_at_ms IS NULL ORDER BY kernel_seq DESC LIMIT 1",
                      display_name));
      if (!kernel.has_value()) return NotFound("no kernel is called \"{}\"", display_name);
      return *std::move(kernel);
    });
  }

  absl::StatusOr<KernelRow> FindProgram(std::string_view display_name, std::string_view program_digest) override {
    return backend_->Read([&](Sql& sql) -> absl::StatusOr<KernelRow> {
      ASSIGN_OR_RETURN(std::optional<KernelRow> kernel,
                       sql.ReadOne(ReadKernel,
                                   "SELECT " TUNEFARM_KERNEL_COLUMNS
                                   " FROM kernel WHERE program_digest = $1 AND display_name = $2 AND deleted_at_ms IS "
                                   "NULL ORDER BY kernel_seq DESC LIMIT 1",
                                   program_digest, display_name));
      if (!kernel.has_value()) return NotFound("no kernel \"{}\" has the program {}", display_name, program_digest);
      return *std::move(kernel);
    });
  }

  absl::StatusOr<std::map<std::string, std::string, std::less<>>> NewestPrograms() override {
    return backend_->Read([&](Sql& sql) -> absl::StatusOr<std::map<std::string, std::string, std::less<>>> {
      std::map<std::string, std::string, std::less<>> programs;
      const auto read = [&](const SqlRow& row) { return programs.try_emplace(row.Bytes(0), row.Bytes(1)).second; };
      RETURN_IF_ERROR(sql.ReadAll(read,
                                  "SELECT display_name, program_digest FROM kernel WHERE kernel_seq IN (SELECT "
                                  "max(n.kernel_seq) FROM kernel n WHERE n.deleted_at_ms IS NULL GROUP BY "
                                  "n.display_name)")
                          .status());
      return programs;
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
        places.push_back(row.Int(6));
        return ReadKernel(row);
      };
      ASSIGN_OR_RETURN(
          result.rows,
          sql.ReadAll(read,
                      "SELECT " TUNEFARM_KERNEL_COLUMNS
                      ", kernel_seq FROM kernel WHERE kernel_seq < $1 AND deleted_at_ms IS NULL ORDER BY kernel_seq "
                      "DESC LIMIT $2",
                      after.has_value() ? (*after)[0] : std::numeric_limits<int64_t>::max(), size + 1));
      if (CutToPage(size, &result.rows)) {
        result.next_page_token = EncodePageToken(kQuery, {places[result.rows.size() - 1]});
      }
      return result;
    });
  }

  absl::StatusOr<int64_t> DeleteUnusedKernels(int64_t created_before_ms) override {
    return backend_->Write([&](Sql& sql) {
      // A counted miss is a kernel that is looked up. A deleted one waits for the last that refers to it.
      return sql.Change(
          "DELETE FROM kernel AS k WHERE (k.created_at_ms < $1 OR k.deleted_at_ms IS NOT NULL) AND NOT EXISTS (SELECT "
          "1 "
          "FROM job j WHERE j.kernel_id = k.kernel_id) AND NOT EXISTS (SELECT 1 FROM best_config b WHERE b.kernel_id = "
          "k.kernel_id) AND (k.deleted_at_ms IS NOT NULL OR NOT EXISTS (SELECT 1 FROM miss m WHERE m.kernel_name = "
          "k.display_name AND m.program_digest = k.program_digest))",
          created_before_ms);
    });
  }

  absl::Status DeleteKernel(std::string_view kernel_id, const std::optional<std::string>& owner,
                            int64_t now_ms) override {
    return backend_->Write([&](Sql& sql) -> absl::Status {
      // The lock keeps submissions of jobs of it waiting until the end of the transaction.
      ASSIGN_OR_RETURN(const std::optional<std::string> own,
                       sql.ReadOne(Sql::ReadBytes,
                                   TUNEFARM_FOR_UPDATE(
                                       sql, "SELECT owner FROM kernel WHERE kernel_id = $1 AND deleted_at_ms IS NULL"),
                                   kernel_id));
      if (!own.has_value()) return NotFound("no kernel has the id {}", kernel_id);
      if (owner.has_value() && *owner != *own) {
        return WithReason(PermissionDenied("the kernel {} belongs to {}; its owner or an administrator deletes it",
                                           kernel_id, own->empty() ? "the users of the local sockets" : *own),
                          "KERNEL_OWNER");
      }
      ASSIGN_OR_RETURN(
          const std::optional<int64_t> active,
          sql.ReadOne(Sql::ReadInt, "SELECT job_id FROM job WHERE kernel_id = $1 AND state < 5 ORDER BY job_id LIMIT 1",
                      kernel_id));
      if (active.has_value()) {
        return WithReason(FailedPrecondition("job {} of the kernel {} has not ended; cancel it or wait for its end, "
                                             "then delete the kernel",
                                             *active, kernel_id),
                          "KERNEL_IN_USE");
      }
      ASSIGN_OR_RETURN(
          const int64_t removed,
          sql.Change("DELETE FROM kernel WHERE kernel_id = $1 AND NOT EXISTS (SELECT 1 FROM job j WHERE "
                     "j.kernel_id = $1) AND NOT EXISTS (SELECT 1 FROM best_config b WHERE b.kernel_id = $1)",
                     kernel_id));
      if (removed > 0) return absl::OkStatus();
      return sql.Run("UPDATE kernel SET definition = $1, deleted_at_ms = $2 WHERE kernel_id = $3", Blob{}, now_ms,
                     kernel_id);
    });
  }
};

// ResourceExhausted where the kernel is one more than its owner may have stored.
absl::Status CheckQuota(Sql& sql, const KernelRow& kernel) {
  if (kernel.owner_kernels_max <= 0 && kernel.owner_bytes_max <= 0) return absl::OkStatus();
  // The owner's submissions through several connections are counted one after another.
  RETURN_IF_ERROR(sql.Lock("SELECT pg_advisory_xact_lock(hashtextextended($1, 1))", kernel.owner));
  ASSIGN_OR_RETURN(const bool is_stored,
                   sql.Exists("SELECT 1 FROM kernel WHERE kernel_id = $1 AND deleted_at_ms IS NULL", kernel.kernel_id));
  if (is_stored) return absl::OkStatus();
  const auto read = [](const SqlRow& row) { return std::pair(row.Int(0), row.Int(1)); };
  ASSIGN_OR_RETURN(
      const auto used,
      sql.ReadOne(read,
                  "SELECT count(*), CAST(coalesce(sum(length(definition)), 0) AS bigint) FROM kernel WHERE "
                  "owner = $1 AND deleted_at_ms IS NULL",
                  kernel.owner));
  const int64_t bytes = static_cast<int64_t>(kernel.definition.size());
  const bool has_too_many = kernel.owner_kernels_max > 0 && used->first >= kernel.owner_kernels_max;
  const bool has_too_much = kernel.owner_bytes_max > 0 && used->second + bytes > kernel.owner_bytes_max;
  if (!has_too_many && !has_too_much) return absl::OkStatus();
  const auto describe = [](const SqlRow& row) {
    return fmt::format("{}@{} of {} bytes", row.Bytes(0), row.Bytes(1).substr(0, 12), row.Int(2));
  };
  ASSIGN_OR_RETURN(const std::optional<std::string> largest,
                   sql.ReadOne(describe,
                               "SELECT display_name, kernel_id, length(definition) FROM kernel WHERE owner = $1 AND "
                               "deleted_at_ms IS NULL ORDER BY length(definition) DESC, kernel_seq LIMIT 1",
                               kernel.owner));
  return WithReason(
      ResourceExhausted("{} has {} stored kernels of {} bytes, and this one has {} bytes; at most {} ({}) are allowed. "
                        "Delete some with tunefarm kernels delete NAME@VERSION; the largest is {}",
                        kernel.owner.empty() ? "the local sockets" : kernel.owner, used->first, used->second, bytes,
                        has_too_many ? fmt::format("{} kernels", kernel.owner_kernels_max)
                                     : fmt::format("{} bytes", kernel.owner_bytes_max),
                        has_too_many ? "max_kernels_per_principal" : "max_kernel_bytes_per_principal",
                        largest.value_or("none")),
      "KERNEL_QUOTA");
}

}  // namespace

absl::Status InsertKernel(Sql& sql, const KernelRow& kernel) {
  RETURN_IF_ERROR(CheckQuota(sql, kernel));
  // The id covers the whole content: a row with the same id is the same kernel. One that was deleted is its new
  // submitter's.
  return sql.Run(
      "INSERT INTO kernel (" TUNEFARM_KERNEL_COLUMNS
      ") VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (kernel_id) DO UPDATE SET kernel_seq = excluded.kernel_seq, "
      "definition = excluded.definition, created_at_ms = excluded.created_at_ms, owner = CASE WHEN "
      "kernel.deleted_at_ms "
      "IS NULL THEN kernel.owner ELSE excluded.owner END, deleted_at_ms = NULL",
      kernel.kernel_id, kernel.program_digest, kernel.display_name, Blob{kernel.definition}, kernel.created_at_ms,
      kernel.owner);
}

std::unique_ptr<KernelStore> NewKernelStore(SqlBackend* backend) { return std::make_unique<Kernels>(backend); }

}  // namespace tunefarm
