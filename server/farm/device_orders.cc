#include "server/farm/device_orders.h"

#include <utility>
#include <vector>

#include "server/base/status_macros.h"
#include "server/store/device_store.h"

namespace tunefarm {

absl::Status DeviceOrders::HoldOut(std::string_view device_uuid, std::string_view reason) {
  RETURN_IF_ERROR(
      store_->devices()->SetDeviceOrder({std::string(device_uuid), std::string(reason), 0, clock_->WallMs()}));
  return Load();
}

absl::Status DeviceOrders::Release(std::string_view device_uuid) {
  RETURN_IF_ERROR(store_->devices()->SetDeviceOrder(
      {std::string(device_uuid), "", devices_->SentinelsToAccept(device_uuid), clock_->WallMs()}));
  return Load();
}

absl::Status DeviceOrders::Load() {
  std::vector<std::string> released;
  {
    MutexLock lock(&mutex_);
    ASSIGN_OR_RETURN(std::vector<DeviceOrderRow> orders, store_->devices()->ListDeviceOrders());
    std::map<std::string, int64_t> revisions;
    for (const DeviceOrderRow& order : orders) revisions[order.device_uuid] = order.revision;
    if (is_loaded_ && revisions == revisions_) return absl::OkStatus();
    for (const DeviceOrderRow& order : orders) {
      const auto before = revisions_.find(order.device_uuid);
      const bool is_new = before == revisions_.end() || before->second != order.revision;
      // What was released before this daemon began is no news to anybody.
      if (is_loaded_ && is_new && order.held_out.empty()) released.push_back(order.device_uuid);
    }
    devices_->SetOrders(std::move(orders), clock_->WallMs());
    revisions_ = std::move(revisions);
    is_loaded_ = true;
  }
  for (const std::string& uuid : released) released_(devices_->OwnerOf(uuid), uuid);
  return absl::OkStatus();
}

absl::Status DeviceOrders::LoadFirst() {
  {
    MutexLock lock(&mutex_);
    if (is_loaded_) return absl::OkStatus();
  }
  return Load();
}

}  // namespace tunefarm
