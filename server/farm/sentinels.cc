#include "server/farm/sentinels.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "server/base/format.h"

namespace tunefarm {

using tunefarm::v1::Device;
using tunefarm::v1::SentinelTime;

namespace {

double LowerMedian(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

bool Deviates(const SentinelTime& time, double usual_ns, double tolerance) {
  const double half = time.median_ns() * time.relative_half_width();
  return time.median_ns() - half > usual_ns * (1 + tolerance) || time.median_ns() + half < usual_ns * (1 - tolerance);
}

}  // namespace

std::map<std::string, std::string> FindDeviating(const std::vector<const Device*>& devices, double tolerance) {
  std::map<std::string, std::string> deviating;
  if (tolerance <= 0) return deviating;
  // By class and sentinel.
  std::map<std::pair<std::string, std::string>, std::vector<std::pair<const Device*, const SentinelTime*>>> all;
  for (const Device* const device : devices) {
    if (device->state() != tunefarm::v1::DEVICE_STATE_READY) continue;
    for (const SentinelTime& time : device->sentinels()) {
      if (time.median_ns() > 0) all[{device->device_class().id(), time.name()}].emplace_back(device, &time);
    }
  }
  for (const auto& [of, times] : all) {
    if (times.size() < 2) continue;
    std::vector<double> medians;
    for (const auto& [device, time] : times) medians.push_back(time->median_ns());
    const double usual_ns = LowerMedian(medians);
    for (const auto& [device, time] : times) {
      if (!Deviates(*time, usual_ns, tolerance)) continue;
      const double percent = 100 * (time->median_ns() / usual_ns - 1);
      deviating.try_emplace(
          device->uuid(),
          fmt::format("the sentinel {} takes {} on it, {:.1f} % {} than usual on the {} devices of its class ({:.0f} % "
                      "is allowed), so its times are not mixed with theirs",
                      of.second, FormatDuration(time->median_ns()), std::abs(percent), percent > 0 ? "more" : "less",
                      times.size(), 100 * tolerance));
    }
  }
  return deviating;
}

}  // namespace tunefarm
