#include "server/base/status_macros.h"
#include "server/store/checks.h"
#include "server/store/device_store.h"
#include "server/store/postgres/facets.h"
#include "server/store/postgres/rows.h"

namespace tunefarm::postgres {
namespace {

class PostgresDevices final : public Facet<DeviceStore> {
 public:
  using Facet::Facet;

  absl::Status PutDevice(const DeviceRow& device, const DeviceClassRow& device_class) override {
    RETURN_IF_ERROR(CheckDevice(device, device_class));
    return pool_->Write([&](Session& session) -> absl::Status {
      RETURN_IF_ERROR(
          session
              .Run("INSERT INTO device_class (class_id, display_name, properties) VALUES ($1, $2, $3) ON CONFLICT "
                   "(class_id) DO UPDATE SET display_name = excluded.display_name, properties = excluded.properties",
                   device_class.class_id, device_class.display_name, Blob{device_class.properties})
              .status());
      return session
          .Run(
              "INSERT INTO device (uuid, class_id, properties, seen_at_ms) VALUES ($1, $2, $3, $4) ON CONFLICT (uuid) "
              "DO UPDATE SET class_id = excluded.class_id, properties = excluded.properties, seen_at_ms = "
              "excluded.seen_at_ms",
              device.uuid, device.class_id, Blob{device.properties}, device.seen_at_ms)
          .status();
    });
  }

  absl::StatusOr<std::vector<DeviceClassRow>> ListDeviceClasses() override {
    return pool_->Call(&Pool::Read, [](Session& session) -> absl::StatusOr<std::vector<DeviceClassRow>> {
      ASSIGN_OR_RETURN(const Rows rows,
                       session.Query("SELECT class_id, display_name, properties FROM device_class ORDER BY class_id"));
      std::vector<DeviceClassRow> classes;
      for (int i = 0; i < rows.size(); ++i) classes.push_back({rows[i].Bytes(0), rows[i].Bytes(1), rows[i].Bytes(2)});
      return classes;
    });
  }

  absl::Status SetDeviceOrder(const DeviceOrderRow& order) override {
    return pool_->Write([&](Session& session) -> absl::Status {
      RETURN_IF_ERROR(CheckDeviceOrder(order));
      RETURN_IF_ERROR(session
                          .Run("INSERT INTO device_order AS o (" TUNEFARM_DEVICE_ORDER_COLUMNS
                               ") VALUES ($1, $2, $3, $4, 1) ON CONFLICT (device_uuid) DO UPDATE SET held_out = "
                               "excluded.held_out, accepted_sentinels_ms = excluded.accepted_sentinels_ms, set_at_ms = "
                               "excluded.set_at_ms, revision = o.revision + 1",
                               order.device_uuid, order.held_out, order.accepted_sentinels_ms, order.set_at_ms)
                          .status());
      return session
          .Run(
              "DELETE FROM device_order WHERE held_out = '' AND device_uuid NOT IN (SELECT device_uuid FROM "
              "device_order WHERE held_out = '' ORDER BY set_at_ms DESC, device_uuid LIMIT $1)",
              kReleasedDevicesKept)
          .status();
    });
  }

  absl::StatusOr<std::vector<DeviceOrderRow>> ListDeviceOrders() override {
    return pool_->Call(&Pool::Read, [](Session& session) -> absl::StatusOr<std::vector<DeviceOrderRow>> {
      ASSIGN_OR_RETURN(const Rows rows, session.Query("SELECT " TUNEFARM_DEVICE_ORDER_COLUMNS
                                                      " FROM device_order ORDER BY device_uuid"));
      return ReadAll(rows, ReadDeviceOrder<Row>);
    });
  }
};

}  // namespace

std::unique_ptr<DeviceStore> NewDeviceStore(const Shared& shared) { return std::make_unique<PostgresDevices>(shared); }

}  // namespace tunefarm::postgres
