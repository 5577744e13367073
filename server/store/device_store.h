// DeviceStore: what devices are, and what people say of them. Threads and errors: as Store (store.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tunefarm {

struct DeviceClassRow {
  std::string class_id;
  std::string display_name;
  std::string properties;  // opaque
};

struct DeviceRow {
  std::string uuid;
  std::string class_id;
  std::string properties;  // opaque
  int64_t seen_at_ms = 0;
};

// What a person last said of a device.
struct DeviceOrderRow {
  std::string device_uuid;            // 1 to 256 bytes
  std::string held_out;               // why it is out of service, at most 1024 bytes; empty: released
  int64_t accepted_sentinels_ms = 0;  // released although its sentinels, measured then, deviate; 0: none are accepted
  int64_t set_at_ms = 0;
  int64_t revision = 0;  // grows with each order for the device; of what is set ignored
};
// Of released devices the newest are kept; who was held out stays so.
inline constexpr int kReleasedDevicesKept = 1024;

class DeviceStore {
 public:
  virtual ~DeviceStore() = default;

  virtual absl::Status PutDevice(const DeviceRow& device, const DeviceClassRow& device_class) = 0;
  virtual absl::StatusOr<std::vector<DeviceClassRow>> ListDeviceClasses() = 0;
  // Instead of what was said of the device before. InvalidArgument for what DeviceOrderRow's limits do not allow.
  virtual absl::Status SetDeviceOrder(const DeviceOrderRow& order) = 0;
  virtual absl::StatusOr<std::vector<DeviceOrderRow>> ListDeviceOrders() = 0;  // by uuid
};

}  // namespace tunefarm
