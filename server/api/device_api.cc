#include "server/api/device_api.h"

#include <string>

#include "server/api/page_of.h"
#include "server/base/status_macros.h"
#include "server/device/device_class.h"

namespace tunefarm {

absl::StatusOr<v1::ListDevicesResponse> DeviceApi::ListDevices(const v1::ListDevicesRequest& request) {
  return PageOf<v1::ListDevicesResponse>(
      devices_->List(), request.page_size(), request.page_token(),
      [](const v1::Device& device, v1::ListDevicesResponse* response) { *response->add_devices() = device; });
}

absl::StatusOr<v1::ListDeviceClassesResponse> DeviceApi::ListDeviceClasses(
    const v1::ListDeviceClassesRequest& /*request*/) {
  v1::ListDeviceClassesResponse response;
  for (const KnownClass& known : KnownClasses()) {
    v1::KnownDeviceClass* added = response.add_classes();
    added->set_short_name(std::string(known.short_name));
    *added->mutable_device_class() = known.device_class.ToProto();
  }
  return response;
}

absl::StatusOr<v1::ReleaseDeviceResponse> DeviceApi::ReleaseDevice(const v1::ReleaseDeviceRequest& request) {
  v1::ReleaseDeviceResponse response;
  ASSIGN_OR_RETURN(*response.mutable_device(), devices_->Get(request.name()));
  RETURN_IF_ERROR(orders_->Release(response.device().uuid()));
  return response;
}

}  // namespace tunefarm
