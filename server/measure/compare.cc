#include "server/measure/compare.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "server/base/random.h"

namespace tunefarm {
namespace {

constexpr size_t kSamplesMin = 6;
constexpr size_t kRoundsMax = 256;

SpeedVerdict Decide(const Interval& ratio, double margin) {
  if (ratio.high < 1 - margin) return SpeedVerdict::kFaster;
  // The mirror image: b is faster than a by the margin.
  if (1 < (1 - margin) * ratio.low) return SpeedVerdict::kSlower;
  return SpeedVerdict::kNoDecision;
}

double ResampledMedian(std::span<const double> samples, PhiloxStream& random, std::vector<double>* scratch) {
  scratch->clear();
  for (size_t i = 0; i < samples.size(); ++i) scratch->push_back(samples[random.UniformInt(samples.size())]);
  const auto middle = scratch->begin() + static_cast<std::ptrdiff_t>(scratch->size() / 2);
  std::nth_element(scratch->begin(), middle, scratch->end());
  if (scratch->size() % 2 == 1) return *middle;
  return (*std::max_element(scratch->begin(), middle) + *middle) / 2;
}

}  // namespace

Comparison CompareMedians(std::span<const double> a, std::span<const double> b, const CompareOptions& options) {
  Comparison comparison;
  if (a.empty() || b.empty()) return comparison;
  comparison.ratio = Median(a) / Median(b);
  comparison.ratio_interval = {comparison.ratio, comparison.ratio, 0};
  if (a.size() < kSamplesMin || b.size() < kSamplesMin) return comparison;
  PhiloxStream random(options.seed);
  std::vector<double> scratch;
  std::vector<double> ratios;
  for (int i = 0; i < std::max(options.resamples, 100); ++i) {
    const double numerator = ResampledMedian(a, random, &scratch);
    ratios.push_back(numerator / ResampledMedian(b, random, &scratch));
  }
  std::sort(ratios.begin(), ratios.end());
  const double tail = (1 - options.confidence) / 2;
  comparison.ratio_interval = {SortedQuantile(ratios, tail), SortedQuantile(ratios, 1 - tail), options.confidence};
  comparison.verdict = Decide(comparison.ratio_interval, options.margin);
  return comparison;
}

Comparison ComparePaired(std::span<const double> a, std::span<const double> b, const CompareOptions& options) {
  Comparison comparison;
  const size_t rounds = std::min({a.size(), b.size(), kRoundsMax});
  if (rounds == 0) return comparison;
  std::vector<double> logs;
  for (size_t i = 0; i < rounds; ++i) logs.push_back(std::log(a[i] / b[i]));
  std::optional<Interval> interval = SignedRankInterval(logs, options.confidence);
  double center = HodgesLehmann(logs);
  if (!interval) {
    const SampleSummary summary = Summarize(logs);
    center = summary.mean;
    interval = Interval{center, center, 0};
    if (rounds >= 2) {
      const double half_width = StudentQuantile(rounds - 1, (1 + options.confidence) / 2) * summary.stdev /
                                std::sqrt(static_cast<double>(rounds));
      interval = Interval{center - half_width, center + half_width, options.confidence};
    }
  }
  comparison.ratio = std::exp(center);
  comparison.ratio_interval = {std::exp(interval->low), std::exp(interval->high), interval->coverage};
  if (interval->coverage > 0) comparison.verdict = Decide(comparison.ratio_interval, options.margin);
  return comparison;
}

std::vector<double> RoundMedians(std::span<const double> samples, size_t rounds) {
  std::vector<double> medians;
  if (rounds == 0 || samples.size() < rounds) return medians;
  const size_t each = samples.size() / rounds;
  for (size_t i = 0; i < rounds; ++i) medians.push_back(Median(samples.subspan(i * each, each)));
  return medians;
}

}  // namespace tunefarm
