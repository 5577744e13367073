#include <limits>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/page_token.h"
#include "server/store/postgres/operations.h"
#include "server/store/postgres/rows.h"

namespace tunefarm::postgres {

absl::StatusOr<KernelRow> GetKernel(Session& session, std::string_view kernel_id) {
  ASSIGN_OR_RETURN(const Rows rows,
                   session.Query("SELECT " TUNEFARM_PG_KERNEL_COLUMNS " FROM kernel WHERE kernel_id = $1", kernel_id));
  if (rows.empty()) return NotFound("no kernel has the id {}", kernel_id);
  return ReadKernel(rows[0]);
}

absl::StatusOr<KernelRow> FindKernel(Session& session, std::string_view display_name) {
  ASSIGN_OR_RETURN(const Rows rows,
                   session.Query("SELECT " TUNEFARM_PG_KERNEL_COLUMNS
                                 " FROM kernel WHERE display_name = $1 ORDER BY kernel_seq DESC LIMIT 1",
                                 display_name));
  if (rows.empty()) return NotFound("no kernel is called \"{}\"", display_name);
  return ReadKernel(rows[0]);
}

absl::StatusOr<Page<KernelRow>> ListKernels(Session& session, const PageRequest& page) {
  constexpr std::string_view kQuery = "kernels";
  ASSIGN_OR_RETURN(const auto after, DecodePageToken(kQuery, page.page_token, 1));
  const int size = EffectivePageSize(page.page_size);
  // One row more than asked for tells whether there is a next page.
  ASSIGN_OR_RETURN(const Rows rows,
                   session.Query("SELECT " TUNEFARM_PG_KERNEL_COLUMNS
                                 ", kernel_seq FROM kernel WHERE kernel_seq < $1 ORDER BY kernel_seq DESC LIMIT $2",
                                 after.has_value() ? (*after)[0] : std::numeric_limits<int64_t>::max(), size + 1));
  Page<KernelRow> result;
  for (int i = 0; i < rows.size() && i < size; ++i) result.rows.push_back(ReadKernel(rows[i]));
  if (rows.size() > size) result.next_page_token = EncodePageToken(kQuery, {rows[size - 1].Int(5)});
  return result;
}

absl::StatusOr<std::vector<DeviceClassRow>> ListDeviceClasses(Session& session) {
  ASSIGN_OR_RETURN(const Rows rows,
                   session.Query("SELECT class_id, display_name, properties FROM device_class ORDER BY class_id"));
  std::vector<DeviceClassRow> classes;
  for (int i = 0; i < rows.size(); ++i) classes.push_back({rows[i].Bytes(0), rows[i].Bytes(1), rows[i].Bytes(2)});
  return classes;
}

}  // namespace tunefarm::postgres
