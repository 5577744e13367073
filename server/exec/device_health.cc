#include "server/exec/device_health.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/base/format.h"
#include "server/base/log.h"
#include "server/exec/captured_output.h"

namespace tunefarm {
namespace {

constexpr int kFailuresMax = 2;
constexpr std::chrono::seconds kRestMin{30};
constexpr std::chrono::seconds kRestMax{900};

}  // namespace

DeviceHealth::Finding DeviceHealth::OnReport(const tunefarm::worker::v1::HealthReport& report) {
  if (!report.ok()) return Fail(fmt::format("its health check failed: {}", PrintableText(report.message())));
  if (baseline_ns_ > 0 && report.nanoseconds() > kSlowFactor * baseline_ns_) {
    if (++slow_looks_ < kSlowLooks) return Finding::kLookAtOnce;
    return Fail(fmt::format("its health check took {}, {:.1f} times the {} of when it was known to be good",
                            FormatDuration(report.nanoseconds()), report.nanoseconds() / baseline_ns_,
                            FormatDuration(baseline_ns_)));
  }
  if (baseline_ns_ > 0 && report.nanoseconds() > kNoteFactor * baseline_ns_) {
    LogInfo("exec", "{}: the health check took {}, {:.0f} % more than its baseline of {}", name_,
            FormatDuration(report.nanoseconds()), 100 * (report.nanoseconds() / baseline_ns_ - 1),
            FormatDuration(baseline_ns_));
  }
  if (baseline_ns_ == 0) baseline_ns_ = report.nanoseconds();
  due_ = false;
  failures_ = rests_ = slow_looks_ = 0;
  reason_.clear();
  return Finding::kSound;
}

DeviceHealth::Finding DeviceHealth::OnWorkerLost(const std::string& how) {
  return Fail(fmt::format("the worker that checked its health {}", how));
}

DeviceHealth::Finding DeviceHealth::OnTaskLost(const std::string& message) {
  if (++losses_ < kLossesMax) return Finding::kSound;
  losses_ = failures_ = 0;
  due_ = true;
  reason_ = fmt::format("{} attempts at trials in a row were lost: {}", kLossesMax, message);
  return Finding::kSick;
}

void DeviceHealth::OnTaskDone() { losses_ = rests_ = 0; }

DeviceHealth::Finding DeviceHealth::Fail(std::string reason) {
  due_ = true;
  slow_looks_ = 0;
  reason_ = std::move(reason);
  if (++failures_ < kFailuresMax) {
    LogWarn("exec", "{}: {}; it is checked once more", name_, reason_);
    return Finding::kLookAgain;
  }
  failures_ = 0;
  return Finding::kSick;
}

Duration DeviceHealth::NextRest() {
  const auto rest = std::min<std::chrono::seconds>(kRestMin * (1 << std::min(rests_, 10)), kRestMax);
  ++rests_;
  return rest;
}

}  // namespace tunefarm
