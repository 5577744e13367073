#include "server/measure/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "server/base/check.h"

namespace tunefarm {

double Interval::RelativeHalfWidth(double center) const {
  if (center == 0) return std::numeric_limits<double>::infinity();
  return (high - low) / 2 / std::fabs(center);
}

double SortedQuantile(std::span<const double> sorted, double p) {
  TUNEFARM_CHECK(!sorted.empty());
  TUNEFARM_CHECK(p >= 0 && p <= 1);
  const double position = p * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(position);
  if (below + 1 >= sorted.size()) return sorted.back();
  const double fraction = position - static_cast<double>(below);
  return sorted[below] + fraction * (sorted[below + 1] - sorted[below]);
}

double Median(std::span<const double> samples) {
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  return SortedQuantile(sorted, 0.5);
}

double BinomialHalfCdf(uint64_t n, uint64_t k) {
  if (k >= n) return 1;
  // Terms as logarithms, so that 2^-n does not underflow for thousands of samples.
  double sum = 0;
  const double log_half_power = -static_cast<double>(n) * std::log(2.0);
  double log_choose = 0;  // of C(n, 0)
  for (uint64_t i = 0; i <= k; ++i) {
    sum += std::exp(log_choose + log_half_power);
    log_choose += std::log(static_cast<double>(n - i)) - std::log(static_cast<double>(i + 1));
  }
  return std::min(sum, 1.0);
}

uint64_t MedianIntervalRank(uint64_t n, double confidence) {
  double below = 0;  // P(B <= k - 1), summed up as k grows
  const double log_half_power = -static_cast<double>(n) * std::log(2.0);
  double log_choose = 0;
  uint64_t rank = 0;
  for (uint64_t k = 1; 2 * k <= n + 1; ++k) {
    below += std::exp(log_choose + log_half_power);
    log_choose += std::log(static_cast<double>(n - k + 1)) - std::log(static_cast<double>(k));
    if (1 - 2 * below < confidence) break;
    rank = k;
  }
  return rank;
}

Interval MedianInterval(std::span<const double> sorted, double confidence) {
  TUNEFARM_CHECK(!sorted.empty());
  const uint64_t n = sorted.size();
  const uint64_t rank = std::max<uint64_t>(MedianIntervalRank(n, confidence), 1);
  Interval interval;
  interval.low = sorted[rank - 1];
  interval.high = sorted[n - rank];
  interval.coverage = std::max(0.0, 1 - 2 * BinomialHalfCdf(n, rank - 1));
  return interval;
}

SampleSummary Summarize(std::span<const double> samples) {
  SampleSummary summary;
  summary.count = samples.size();
  if (samples.empty()) return summary;
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  summary.min = sorted.front();
  summary.max = sorted.back();
  // The two-pass form: the textbook's sum of squares cancels where the spread is small against the mean, as here.
  double sum = 0;
  for (const double sample : sorted) sum += sample;
  summary.mean = sum / static_cast<double>(sorted.size());
  double squares = 0;
  for (const double sample : sorted) squares += (sample - summary.mean) * (sample - summary.mean);
  if (sorted.size() > 1) summary.stdev = std::sqrt(squares / static_cast<double>(sorted.size() - 1));
  summary.q1 = SortedQuantile(sorted, 0.25);
  summary.median = SortedQuantile(sorted, 0.5);
  summary.q3 = SortedQuantile(sorted, 0.75);
  summary.median_interval = MedianInterval(sorted);
  std::vector<double> deviations;
  for (const double sample : sorted) deviations.push_back(std::fabs(sample - summary.median));
  summary.mad = Median(deviations);
  return summary;
}

}  // namespace tunefarm
