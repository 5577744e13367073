#include "server/store/sqlite/operations.h"

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/checks.h"

namespace tunefarm::sqlite {

absl::Status InsertKernel(Database& database, const KernelRow& kernel) {
  // The id covers the whole content: a row with the same id is the same kernel.
  return database
      .Prepare(
          "INSERT INTO kernel (kernel_id, program_digest, display_name, definition, created_at_ms) "
          "VALUES (?, ?, ?, ?, ?) ON CONFLICT (kernel_id) DO NOTHING")
      .Bind(kernel.kernel_id, kernel.program_digest, kernel.display_name, Blob{kernel.definition}, kernel.created_at_ms)
      .Run();
}

absl::Status CheckEpoch(Database& database, std::string_view agent_id, int64_t epoch) {
  Statement current =
      database.Prepare("SELECT 1 FROM agent WHERE agent_id = ? AND epoch = ? AND released_at_ms IS NULL");
  ASSIGN_OR_RETURN(const bool is_current, current.Bind(agent_id, epoch).Step());
  if (is_current) return absl::OkStatus();
  return EpochEnded(agent_id, epoch);
}

absl::StatusOr<int64_t> NextClaimSequence(Database& database) {
  Statement next = database.Prepare("UPDATE sequence SET value = value + 1 WHERE name = 'claim_seq' RETURNING value");
  ASSIGN_OR_RETURN(const bool has_row, next.Step());
  if (!has_row) return DataLoss("{}: the row claim_seq is missing from table sequence", database.path());
  const int64_t value = next.Int(0);
  // The change counts as made only once the statement is done.
  RETURN_IF_ERROR(next.Run());
  return value;
}

absl::StatusOr<int64_t> DeletePart(Database& database, std::string_view sql, int64_t selector, int rows_max) {
  RETURN_IF_ERROR(database.Prepare(sql).Bind(selector, rows_max).Run());
  return database.Changes();
}

}  // namespace tunefarm::sqlite
