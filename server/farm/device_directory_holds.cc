// Which devices are held out of service: by a person, or since their sentinels deviate.

#include <algorithm>
#include <utility>

#include "server/base/log.h"
#include "server/farm/device_directory.h"
#include "server/farm/sentinels.h"
#include "server/store/device_store.h"

namespace tunefarm {

void DeviceDirectory::HoldOut(Known* known, std::string_view reason, int64_t now_ms) {
  if (known->held_out.empty()) known->own_word = known->device;
  known->held_out = std::string(reason);
  if (known->device.state() == tunefarm::v1::DEVICE_STATE_OFFLINE) return;
  known->device.set_state(reason.empty() ? known->own_word.state() : tunefarm::v1::DEVICE_STATE_QUARANTINED);
  known->device.set_state_reason(reason.empty() ? known->own_word.state_reason() : std::string(reason));
  known->device.set_state_since_ms(now_ms);
}

void DeviceDirectory::CompareSentinels(Devices* devices, double tolerance, int64_t now_ms) {
  std::vector<const tunefarm::v1::Device*> compared;
  for (const Known& known : *devices) {
    if (known.device.sentinels().empty() || (!known.held_out.empty() && !known.deviates)) continue;
    const bool is_offline = known.device.state() == tunefarm::v1::DEVICE_STATE_OFFLINE;
    compared.push_back(known.deviates && !is_offline ? &known.own_word : &known.device);
  }
  const std::map<std::string, std::string> deviating = FindDeviating(compared, tolerance);
  for (Known& known : *devices) {
    if (!known.held_out.empty() && !known.deviates) continue;  // a person decides
    if (known.device.state() == tunefarm::v1::DEVICE_STATE_OFFLINE) continue;
    const auto found = deviating.find(known.device.uuid());
    const bool deviates = found != deviating.end() && !known.is_accepted;
    if (!deviates && !known.deviates) continue;
    if (deviates && !known.deviates) LogWarn("jobs", "device {} takes no work: {}", known.device.uuid(), found->second);
    if (!deviates) LogInfo("jobs", "the sentinels of device {} are as usual in its class", known.device.uuid());
    if (deviates && known.held_out == found->second) continue;
    HoldOut(&known, deviates ? found->second : "", now_ms);
    known.deviates = deviates;
  }
}

void DeviceDirectory::SetSentinelTolerance(double tolerance, int64_t now_ms) {
  MutexLock lock(&mutex_);
  sentinel_tolerance_ = tolerance;
  auto changed = std::make_shared<Devices>(*devices_);
  CompareSentinels(changed.get(), sentinel_tolerance_, now_ms);
  devices_ = std::move(changed);
}

void DeviceDirectory::SetSentinels(const tunefarm::v1::Device& measured, int64_t now_ms) {
  MutexLock lock(&mutex_);
  auto changed = std::make_shared<Devices>(*devices_);
  for (Known& known : *changed) {
    if (known.device.uuid() != measured.uuid()) continue;
    *known.device.mutable_sentinels() = measured.sentinels();
    *known.own_word.mutable_sentinels() = measured.sentinels();
  }
  CompareSentinels(changed.get(), sentinel_tolerance_, now_ms);
  devices_ = std::move(changed);
}

void DeviceDirectory::ApplyOrders(Devices* devices, int64_t now_ms) const {
  for (Known& known : *devices) {
    const auto order =
        std::lower_bound(orders_.begin(), orders_.end(), known.device.uuid(),
                         [](const DeviceOrderRow& row, const std::string& uuid) { return row.device_uuid < uuid; });
    const bool has_order = order != orders_.end() && order->device_uuid == known.device.uuid();
    const std::string reason = has_order ? order->held_out : std::string();
    const bool was_held_by_person = !known.held_out.empty() && !known.deviates;
    known.is_accepted = has_order && order->accepted_sentinels_ms != 0 &&
                        order->accepted_sentinels_ms == SentinelsMeasuredAt(known.device);
    if (reason.empty() ? !was_held_by_person : was_held_by_person && known.held_out == reason) continue;
    HoldOut(&known, reason, now_ms);
    known.deviates = false;
  }
}

void DeviceDirectory::SetOrders(std::vector<DeviceOrderRow> orders, int64_t now_ms) {
  std::sort(orders.begin(), orders.end(),
            [](const DeviceOrderRow& a, const DeviceOrderRow& b) { return a.device_uuid < b.device_uuid; });
  MutexLock lock(&mutex_);
  orders_ = std::move(orders);
  auto changed = std::make_shared<Devices>(*devices_);
  ApplyOrders(changed.get(), now_ms);
  CompareSentinels(changed.get(), sentinel_tolerance_, now_ms);
  devices_ = std::move(changed);
}

int64_t DeviceDirectory::SentinelsToAccept(std::string_view uuid) const {
  const auto devices = Current();
  for (const Known& known : *devices) {
    if (known.device.uuid() != uuid) continue;
    return known.deviates || known.is_accepted ? SentinelsMeasuredAt(known.device) : 0;
  }
  return 0;
}

int64_t DeviceDirectory::SentinelsMeasuredAt(const tunefarm::v1::Device& device) {
  int64_t measured_at_ms = 0;
  for (const auto& time : device.sentinels()) measured_at_ms = std::max(measured_at_ms, time.measured_at_ms());
  return measured_at_ms;
}

}  // namespace tunefarm
