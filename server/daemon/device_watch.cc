#include "server/daemon/device_watch.h"

#include <fmt/core.h>

#include <cstdlib>

#include "server/base/format.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/store/setting_store.h"

namespace tunefarm {

void DeviceWatch::Connect(ProcessEvaluatorOptions* options) {
  options->on_quarantine = [this](const std::string& uuid, const std::string& reason) {
    plane_->SetDeviceQuarantine(uuid, reason);
  };
  options->on_wait = [this](const std::string& uuid, const std::string& reason) {
    plane_->SetDeviceWaiting(uuid, reason);
  };
  options->on_healthy = [this](const std::string& uuid, double baseline_ns, int foreign_processes) {
    OnHealthy(uuid, baseline_ns, foreign_processes);
  };
}

void DeviceWatch::SetEvaluator(ProcessEvaluator* evaluator) {
  MutexLock lock(&mutex_);
  evaluator_ = evaluator;
}

void DeviceWatch::Release(const std::string& device_uuid) {
  MutexLock lock(&mutex_);
  if (evaluator_ != nullptr) evaluator_->ReleaseDevice(device_uuid);
}

void DeviceWatch::OnHealthy(const std::string& device_uuid, double baseline_ns, int foreign_processes) {
  plane_->devices().SetHealth(device_uuid, baseline_ns, foreign_processes);
  if (foreign_processes > 0) {
    LogWarn("daemon", "{} device {}: its times may be unreliable",
            FormatCount(foreign_processes, "other process uses", "other processes use"), device_uuid);
  }
  {
    MutexLock lock(&mutex_);
    if (!known_.insert(device_uuid).second) return;
  }
  executor_->Post([this, device_uuid, baseline_ns] { KeepBaseline(device_uuid, baseline_ns); });
}

void DeviceWatch::KeepBaseline(const std::string& device_uuid, double baseline_ns) {
  const absl::StatusOr<std::string> kept =
      store_->settings()->GetOrPutSetting("health_baseline_ns." + device_uuid, fmt::format("{:.0f}", baseline_ns));
  if (!kept.ok()) {
    LogWarn("daemon", "the baseline of device {} cannot be kept: {}", device_uuid, MessageOf(kept.status()));
    return;
  }
  const double first_ns = std::atof(kept->c_str());
  if (first_ns <= 0) return;
  MutexLock lock(&mutex_);
  if (evaluator_ != nullptr) evaluator_->SetHealthBaseline(device_uuid, first_ns);
}

}  // namespace tunefarm
