#include "server/base/status_macros.h"
#include "server/store/checks.h"
#include "server/store/device_store.h"
#include "server/store/sqlite/facets.h"
#include "server/store/sqlite/rows.h"

namespace tunefarm::sqlite {
namespace {

class SqliteDevices final : public Facet<DeviceStore> {
 public:
  using Facet::Facet;

  absl::Status PutDevice(const DeviceRow& device, const DeviceClassRow& device_class) override {
    RETURN_IF_ERROR(CheckDevice(device, device_class));
    return writer_->Run([&](Database& database) -> absl::Status {
      RETURN_IF_ERROR(
          database
              .Prepare(
                  "INSERT INTO device_class (class_id, display_name, properties) VALUES (?, ?, ?) ON CONFLICT "
                  "(class_id) DO UPDATE SET display_name = excluded.display_name, properties = excluded.properties")
              .Bind(device_class.class_id, device_class.display_name, Blob{device_class.properties})
              .Run());
      return database
          .Prepare(
              "INSERT INTO device (uuid, class_id, properties, seen_at_ms) VALUES (?, ?, ?, ?) ON CONFLICT (uuid) DO "
              "UPDATE SET class_id = excluded.class_id, properties = excluded.properties, seen_at_ms = "
              "excluded.seen_at_ms")
          .Bind(device.uuid, device.class_id, Blob{device.properties}, device.seen_at_ms)
          .Run();
    });
  }

  absl::StatusOr<std::vector<DeviceClassRow>> ListDeviceClasses() override {
    return readers_->Read([](Database& database) -> absl::StatusOr<std::vector<DeviceClassRow>> {
      Statement rows =
          database.Prepare("SELECT class_id, display_name, properties FROM device_class ORDER BY class_id");
      return ReadAll(rows, [](const Statement& row) {
        return DeviceClassRow{row.Bytes(0), row.Bytes(1), row.Bytes(2)};
      });
    });
  }

  absl::Status SetDeviceOrder(const DeviceOrderRow& order) override {
    return writer_->Run([&](Database& database) -> absl::Status {
      RETURN_IF_ERROR(CheckDeviceOrder(order));
      RETURN_IF_ERROR(database
                          .Prepare("INSERT INTO device_order (" TUNEFARM_DEVICE_ORDER_COLUMNS
                                   ") VALUES (?, ?, ?, ?, 1) ON CONFLICT (device_uuid) DO UPDATE SET held_out = "
                                   "excluded.held_out, accepted_sentinels_ms = excluded.accepted_sentinels_ms, "
                                   "set_at_ms = excluded.set_at_ms, revision = revision + 1")
                          .Bind(order.device_uuid, order.held_out, order.accepted_sentinels_ms, order.set_at_ms)
                          .Run());
      return database
          .Prepare(
              "DELETE FROM device_order WHERE held_out = '' AND device_uuid NOT IN (SELECT device_uuid FROM "
              "device_order WHERE held_out = '' ORDER BY set_at_ms DESC, device_uuid LIMIT ?)")
          .Bind(kReleasedDevicesKept)
          .Run();
    });
  }

  absl::StatusOr<std::vector<DeviceOrderRow>> ListDeviceOrders() override {
    return readers_->Read([](Database& database) -> absl::StatusOr<std::vector<DeviceOrderRow>> {
      Statement rows =
          database.Prepare("SELECT " TUNEFARM_DEVICE_ORDER_COLUMNS " FROM device_order ORDER BY device_uuid");
      return ReadAll(rows, ReadDeviceOrder<Statement>);
    });
  }
};

}  // namespace

std::unique_ptr<DeviceStore> NewDeviceStore(const Shared& shared) { return std::make_unique<SqliteDevices>(shared); }

}  // namespace tunefarm::sqlite
