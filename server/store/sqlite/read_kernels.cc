#include <limits>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/page_token.h"
#include "server/store/sqlite/operations.h"
#include "server/store/sqlite/rows.h"

namespace tunefarm::sqlite {

absl::StatusOr<KernelRow> GetKernel(Database& database, std::string_view kernel_id) {
  Statement row = database.Prepare("SELECT " TUNEFARM_KERNEL_COLUMNS " FROM kernel WHERE kernel_id = ?");
  ASSIGN_OR_RETURN(const bool found, row.Bind(kernel_id).Step());
  if (!found) return NotFound("no kernel has the id {}", kernel_id);
  return ReadKernel(row);
}

absl::StatusOr<KernelRow> FindKernel(Database& database, std::string_view display_name) {
  Statement row = database.Prepare("SELECT " TUNEFARM_KERNEL_COLUMNS
                                   " FROM kernel WHERE display_name = ? ORDER BY kernel_seq DESC LIMIT 1");
  ASSIGN_OR_RETURN(const bool found, row.Bind(display_name).Step());
  if (!found) return NotFound("no kernel is called \"{}\"", display_name);
  return ReadKernel(row);
}

absl::StatusOr<Page<KernelRow>> ListKernels(Database& database, const PageRequest& page) {
  constexpr std::string_view kQuery = "kernels";
  ASSIGN_OR_RETURN(const auto after, DecodePageToken(kQuery, page.page_token, 1));
  const auto size = static_cast<size_t>(EffectivePageSize(page.page_size));
  Page<KernelRow> result;
  Statement rows = database.Prepare("SELECT " TUNEFARM_KERNEL_COLUMNS
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
}

absl::StatusOr<std::vector<DeviceClassRow>> ListDeviceClasses(Database& database) {
  std::vector<DeviceClassRow> classes;
  Statement rows = database.Prepare("SELECT class_id, display_name, properties FROM device_class ORDER BY class_id");
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, rows.Step());
    if (!has_row) return classes;
    classes.push_back({rows.Bytes(0), rows.Bytes(1), rows.Bytes(2)});
  }
}

}  // namespace tunefarm::sqlite
