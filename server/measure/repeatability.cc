#include "server/measure/repeatability.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "server/measure/statistics.h"

namespace tunefarm {
namespace {

constexpr double kFalseAlarm = 0.015;

// The smallest k with P(B <= k) >= 1 - kFalseAlarm for B ~ Binomial(n, p).
uint64_t BinomialLimit(uint64_t n, double p) {
  double log_choose = 0, sum = 0;
  for (uint64_t k = 0; k < n; ++k) {
    sum += std::exp(log_choose + static_cast<double>(k) * std::log(p) + static_cast<double>(n - k) * std::log1p(-p));
    if (sum >= 1 - kFalseAlarm) return k;
    log_choose += std::log(static_cast<double>(n - k)) - std::log(static_cast<double>(k + 1));
  }
  return n;
}

}  // namespace

Repeatability JudgeRepeatability(std::span<const Comparison> pairs, double confidence) {
  Repeatability found;
  std::vector<double> half_widths, ratios;
  for (const Comparison& pair : pairs) {
    if (!(pair.ratio_interval.coverage > 0)) continue;
    half_widths.push_back((pair.ratio_interval.high - pair.ratio_interval.low) / 2);
    ratios.push_back(pair.ratio);
    found.excluding_one += pair.ratio_interval.low > 1 || pair.ratio_interval.high < 1;
  }
  found.pairs = ratios.size();
  if (ratios.empty()) return found;
  found.excluding_max = BinomialLimit(found.pairs, 1 - confidence);
  found.median_half_width = Median(half_widths);
  found.median_ratio = Median(ratios);
  return found;
}

Drift DriftOf(std::span<const double> rounds) {
  Drift drift;
  if (rounds.size() < 2) return drift;
  const auto [low, high] = std::minmax_element(rounds.begin(), rounds.end());
  const size_t half = rounds.size() / 2;
  drift.range = (*high - *low) / Median(rounds);
  drift.trend = Median(rounds.subspan(rounds.size() - half)) / Median(rounds.first(half)) - 1;
  return drift;
}

}  // namespace tunefarm
