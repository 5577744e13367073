#include "server/measure/race.h"

#include <algorithm>
#include <cmath>

#include "server/measure/statistics.h"

namespace tunefarm {
namespace {

constexpr double kSpreadMin = 0.005;
constexpr double kMedianOverMean = 1.2533141373155003;  // sqrt(pi / 2)

}  // namespace

double RaceLowerBound(std::span<const double> samples, uint64_t look) {
  const uint64_t count = samples.size();
  if (count < kRaceSamplesMin) return 0;
  const double looks = static_cast<double>(std::max<uint64_t>(look, 1));
  const SampleSummary summary = Summarize(samples);
  const double spread = std::max(summary.stdev, kSpreadMin * summary.median);
  const double t = StudentQuantile(count - 1, 1 - kRaceError / (looks * (looks + 1)));
  return summary.median - t * kMedianOverMean * spread / std::sqrt(static_cast<double>(count));
}

bool IsRaceLost(std::span<const double> samples, double limit, uint64_t look) {
  return limit > 0 && RaceLowerBound(samples, look) > limit * (1 + kRaceMargin);
}

}  // namespace tunefarm
