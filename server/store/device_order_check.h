// What both stores ask of a device's order before they keep it. Pure.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "server/base/status.h"
#include "server/store/farm_rows.h"

namespace tunefarm {

// InvalidArgument, with the field.
inline absl::Status CheckDeviceOrder(const DeviceOrderRow& order) {
  if (order.device_uuid.empty() || order.device_uuid.size() > 256) {
    return InvalidArgument("a device's uuid has 1 to 256 bytes, not {}", order.device_uuid.size());
  }
  if (order.held_out.size() > 1024) {
    return InvalidArgument("the reason for which device {} is held out has {} bytes; at most 1024 are kept",
                           order.device_uuid, order.held_out.size());
  }
  if ((order.device_uuid + order.held_out).find('\0') != std::string::npos) {
    return InvalidArgument("device {}, or the reason for which it is held out, has a NUL byte", order.device_uuid);
  }
  if (!order.held_out.empty() && order.accepted_sentinels_ms != 0) {
    return InvalidArgument("device {} is held out: its sentinels cannot be accepted", order.device_uuid);
  }
  return absl::OkStatus();
}

}  // namespace tunefarm
