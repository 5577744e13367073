// What people say of devices.

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/device_order_check.h"
#include "server/store/sqlite/operations.h"

namespace tunefarm::sqlite {

#define TUNEFARM_DEVICE_ORDER_COLUMNS "device_uuid, held_out, accepted_sentinels_ms, set_at_ms, revision"

absl::Status SetDeviceOrder(Database& database, const DeviceOrderRow& order) {
  RETURN_IF_ERROR(CheckDeviceOrder(order));
  RETURN_IF_ERROR(database
                      .Prepare("INSERT INTO device_order (" TUNEFARM_DEVICE_ORDER_COLUMNS
                               ") VALUES (?, ?, ?, ?, 1) ON CONFLICT (device_uuid) DO UPDATE SET held_out = "
                               "excluded.held_out, accepted_sentinels_ms = excluded.accepted_sentinels_ms, set_at_ms = "
                               "excluded.set_at_ms, revision = revision + 1")
                      .Bind(order.device_uuid, order.held_out, order.accepted_sentinels_ms, order.set_at_ms)
                      .Run());
  return database
      .Prepare(
          "DELETE FROM device_order WHERE held_out = '' AND device_uuid NOT IN (SELECT device_uuid FROM "
          "device_order WHERE held_out = '' ORDER BY set_at_ms DESC, device_uuid LIMIT ?)")
      .Bind(kReleasedDevicesKept)
      .Run();
}

absl::StatusOr<std::vector<DeviceOrderRow>> ListDeviceOrders(Database& database) {
  std::vector<DeviceOrderRow> orders;
  Statement rows = database.Prepare("SELECT " TUNEFARM_DEVICE_ORDER_COLUMNS " FROM device_order ORDER BY device_uuid");
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, rows.Step());
    if (!has_row) return orders;
    orders.push_back({rows.Bytes(0), rows.Bytes(1), rows.Int(2), rows.Int(3), rows.Int(4)});
  }
}

}  // namespace tunefarm::sqlite
