// Which devices are held out of service: by a person, or since their sentinels deviate.

#include <algorithm>
#include <utility>

#include "server/base/log.h"
#include "server/jobs/device_directory.h"
#include "server/jobs/sentinels.h"

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

bool DeviceDirectory::SetHeldOut(std::string_view uuid, std::string_view reason, int64_t now_ms) {
  MutexLock lock(&mutex_);
  auto changed = std::make_shared<Devices>(*devices_);
  const auto found = std::find_if(changed->begin(), changed->end(),
                                  [uuid](const Known& known) { return known.device.uuid() == uuid; });
  if (found == changed->end()) return false;
  if (reason.empty() && found->held_out.empty()) return true;
  found->is_accepted = reason.empty() && (found->deviates || found->is_accepted);
  HoldOut(&*found, reason, now_ms);
  found->deviates = false;
  CompareSentinels(changed.get(), sentinel_tolerance_, now_ms);
  devices_ = std::move(changed);
  return true;
}

bool DeviceDirectory::HasSameSentinels(const Known& a, const Known& b) {
  return std::equal(a.device.sentinels().begin(), a.device.sentinels().end(), b.device.sentinels().begin(),
                    b.device.sentinels().end(), [](const auto& one, const auto& other) {
                      return one.name() == other.name() && one.measured_at_ms() == other.measured_at_ms();
                    });
}

}  // namespace tunefarm
