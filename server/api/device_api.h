// DeviceApi: the calls of DeviceService. Devices and known device classes are listed, and devices released.
//
// Thread-safe.
#pragma once

#include "absl/status/statusor.h"
#include "server/farm/device_directory.h"
#include "server/farm/device_orders.h"
#include "tunefarm/v1/device_service.pb.h"

namespace tunefarm {

class DeviceApi {
 public:
  // Both outlive it.
  DeviceApi(const DeviceDirectory* devices, DeviceOrders* orders) : devices_(devices), orders_(orders) {}

  // GPUs first. InvalidArgument (PAGE_TOKEN_INVALID).
  absl::StatusOr<v1::ListDevicesResponse> ListDevices(const v1::ListDevicesRequest& request);
  absl::StatusOr<v1::ListDeviceClassesResponse> ListDeviceClasses(const v1::ListDeviceClassesRequest& request);
  // Takes back QuarantineDevice and accepts sentinels that deviate, and tells the device's agent that it is to serve
  // again. A device in service stays so. Answers with the device as it was before. NotFound (DEVICE_NOT_FOUND); the
  // store's errors.
  absl::StatusOr<v1::ReleaseDeviceResponse> ReleaseDevice(const v1::ReleaseDeviceRequest& request);

 private:
  const DeviceDirectory* const devices_;
  DeviceOrders* const orders_;
};

}  // namespace tunefarm
