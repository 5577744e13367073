// What people say of devices.

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/device_order_check.h"
#include "server/store/postgres/operations.h"
#include "server/store/postgres/rows.h"

namespace tunefarm::postgres {
namespace {

#define TUNEFARM_PG_DEVICE_ORDER_COLUMNS "device_uuid, held_out, accepted_sentinels_ms, set_at_ms, revision"
DeviceOrderRow ReadOrder(const Row& row) { return {row.Bytes(0), row.Bytes(1), row.Int(2), row.Int(3), row.Int(4)}; }

}  // namespace

absl::Status SetDeviceOrder(Session& session, const DeviceOrderRow& order) {
  RETURN_IF_ERROR(CheckDeviceOrder(order));
  RETURN_IF_ERROR(session
                      .Run("INSERT INTO device_order AS o (" TUNEFARM_PG_DEVICE_ORDER_COLUMNS
                           ") VALUES ($1, $2, $3, $4, 1) ON CONFLICT (device_uuid) DO UPDATE SET held_out = "
                           "excluded.held_out, accepted_sentinels_ms = excluded.accepted_sentinels_ms, set_at_ms = "
                           "excluded.set_at_ms, revision = o.revision + 1",
                           order.device_uuid, order.held_out, order.accepted_sentinels_ms, order.set_at_ms)
                      .status());
  return session
      .Run(
          "DELETE FROM device_order WHERE held_out = '' AND device_uuid NOT IN (SELECT device_uuid FROM device_order "
          "WHERE held_out = '' ORDER BY set_at_ms DESC, device_uuid LIMIT $1)",
          kReleasedDevicesKept)
      .status();
}

absl::StatusOr<std::vector<DeviceOrderRow>> ListDeviceOrders(Session& session) {
  ASSIGN_OR_RETURN(const Rows rows,
                   session.Query("SELECT " TUNEFARM_PG_DEVICE_ORDER_COLUMNS " FROM device_order ORDER BY device_uuid"));
  return ReadAll(rows, ReadOrder);
}

}  // namespace tunefarm::postgres
