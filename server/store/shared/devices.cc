#include "server/store/checks.h"
#include "server/store/device_store.h"
#include "server/store/read_rows.h"
#include "server/store/shared/facets.h"

namespace tunefarm {
namespace {

class Devices final : public SharedFacet<DeviceStore> {
 public:
  using SharedFacet::SharedFacet;

  absl::Status PutDevice(const DeviceRow& device, const DeviceClassRow& device_class) override {
    RETURN_IF_ERROR(CheckDevice(device, device_class));
    return backend_->Write([&](Sql& sql) -> absl::Status {
      RETURN_IF_ERROR(
          sql.Run("INSERT INTO device_class (class_id, display_name, properties) VALUES ($1, $2, $3) ON CONFLICT "
                  "(class_id) DO UPDATE SET display_name = excluded.display_name, properties = excluded.properties",
                  device_class.class_id, device_class.display_name, Blob{device_class.properties}));
      return sql.Run(
          "INSERT INTO device (uuid, class_id, properties, seen_at_ms) VALUES ($1, $2, $3, $4) ON CONFLICT (uuid) "
          "DO UPDATE SET class_id = excluded.class_id, properties = excluded.properties, seen_at_ms = "
          "excluded.seen_at_ms",
          device.uuid, device.class_id, Blob{device.properties}, device.seen_at_ms);
    });
  }

  absl::StatusOr<std::vector<DeviceClassRow>> ListDeviceClasses() override {
    const auto read = [](const SqlRow& row) { return DeviceClassRow{row.Bytes(0), row.Bytes(1), row.Bytes(2)}; };
    return backend_->Read([&](Sql& sql) {
      return sql.ReadAll(read, "SELECT class_id, display_name, properties FROM device_class ORDER BY class_id");
    });
  }

  absl::Status SetDeviceOrder(const DeviceOrderRow& order) override {
    RETURN_IF_ERROR(CheckDeviceOrder(order));
    return backend_->Write([&](Sql& sql) -> absl::Status {
      RETURN_IF_ERROR(sql.Run("INSERT INTO device_order AS o (" TUNEFARM_DEVICE_ORDER_COLUMNS
                              ") VALUES ($1, $2, $3, $4, 1) ON CONFLICT (device_uuid) DO UPDATE SET held_out = "
                              "excluded.held_out, accepted_sentinels_ms = excluded.accepted_sentinels_ms, set_at_ms = "
                              "excluded.set_at_ms, revision = o.revision + 1",
                              order.device_uuid, order.held_out, order.accepted_sentinels_ms, order.set_at_ms));
      return sql.Run(
          "DELETE FROM device_order WHERE held_out = '' AND device_uuid NOT IN (SELECT device_uuid FROM "
          "device_order WHERE held_out = '' ORDER BY set_at_ms DESC, device_uuid LIMIT $1)",
          kReleasedDevicesKept);
    });
  }

  absl::StatusOr<std::vector<DeviceOrderRow>> ListDeviceOrders() override {
    return backend_->Read([](Sql& sql) {
      return sql.ReadAll(ReadDeviceOrder,
                         "SELECT " TUNEFARM_DEVICE_ORDER_COLUMNS " FROM device_order ORDER BY device_uuid");
    });
  }
};

}  // namespace

std::unique_ptr<DeviceStore> NewDeviceStore(SqlBackend* backend) { return std::make_unique<Devices>(backend); }

}  // namespace tunefarm
