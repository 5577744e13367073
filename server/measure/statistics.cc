#include "server/measure/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "server/base/check.h"

namespace tunefarm {
namespace {

constexpr double kOutlierDistances = 5, kOutlierShare = 0.02;

constexpr uint64_t kSignedRankSamplesMin = 6;
constexpr uint64_t kSignedRankSamplesMax = 256;

// P(T <= t) for Student's t with whole degrees of freedom, t >= 0.
double StudentCdf(uint64_t degrees, double t) {
  constexpr double kPi = 3.14159265358979323846;
  const double n = static_cast<double>(degrees);
  const double theta = std::atan(t / std::sqrt(n));
  const double sine = std::sin(theta), cosine = std::cos(theta);
  const bool odd = degrees % 2 == 1;
  double term = odd ? cosine : 1, sum = degrees == 1 ? 0 : term;
  for (uint64_t k = odd ? 3 : 2; k + 2 <= degrees; k += 2) {
    term *= cosine * cosine * static_cast<double>(k - 1) / static_cast<double>(k);
    sum += term;
  }
  const double between = odd ? 2 / kPi * (theta + sine * sum) : sine * sum;  // P(|T| <= t)
  return 0.5 + between / 2;
}

std::vector<double> SortedPairAverages(std::span<const double> samples) {
  std::vector<double> averages;
  averages.reserve(samples.size() * (samples.size() + 1) / 2);
  for (size_t i = 0; i < samples.size(); ++i) {
    for (size_t j = i; j < samples.size(); ++j) averages.push_back((samples[i] + samples[j]) / 2);
  }
  std::sort(averages.begin(), averages.end());
  return averages;
}

}  // namespace

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

double MeanWithoutOutliers(std::span<const double> samples) {
  const double median = Median(samples);
  std::vector<double> distances;
  for (const double sample : samples) distances.push_back(std::abs(sample - median));
  const double farthest = std::max(kOutlierDistances * Median(distances), kOutlierShare * median);
  double sum = 0, count = 0;
  for (const double sample : samples) {
    if (std::abs(sample - median) > farthest) continue;
    sum += sample;
    ++count;
  }
  return count > 0 ? sum / count : median;
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

double StudentQuantile(uint64_t degrees, double p) {
  TUNEFARM_CHECK(degrees >= 1);
  TUNEFARM_CHECK(p > 0 && p < 1);
  if (p < 0.5) return -StudentQuantile(degrees, 1 - p);
  double low = 0, high = 1;
  while (StudentCdf(degrees, high) < p && high < 1e12) high *= 2;
  while (high - low > 1e-10 * std::max(1.0, high)) {
    const double middle = (low + high) / 2;
    (StudentCdf(degrees, middle) < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

std::optional<Interval> SignedRankInterval(std::span<const double> samples, double confidence) {
  const uint64_t n = samples.size();
  if (n < kSignedRankSamplesMin || n > kSignedRankSamplesMax) return std::nullopt;
  // How likely each sum of the ranks of the positive differences is: every rank is in it or not, with equal chance.
  const uint64_t largest = n * (n + 1) / 2;
  std::vector<double> chance(largest + 1, 0.0);
  chance[0] = 1;
  for (uint64_t rank = 1; rank <= n; ++rank) {
    for (uint64_t sum = largest; sum >= rank; --sum) chance[sum] = (chance[sum] + chance[sum - rank]) / 2;
    for (uint64_t sum = 0; sum < rank; ++sum) chance[sum] /= 2;
  }
  uint64_t k = 0;
  double below = 0, coverage = 0;  // P(sum <= k - 1)
  while (k < largest / 2 && 1 - 2 * (below + chance[k]) >= confidence) {
    below += chance[k++];
    coverage = 1 - 2 * below;
  }
  if (k == 0) return std::nullopt;
  const std::vector<double> averages = SortedPairAverages(samples);
  return Interval{averages[k - 1], averages[averages.size() - k], coverage};
}

double HodgesLehmann(std::span<const double> samples) {
  TUNEFARM_CHECK(!samples.empty());
  return SortedQuantile(SortedPairAverages(samples), 0.5);
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
  summary.median = SortedQuantile(sorted, 0.5);
  summary.median_interval = MedianInterval(sorted);
  return summary;
}

}  // namespace tunefarm
