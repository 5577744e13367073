#include "server/measure/compare.h"

#include <algorithm>
#include <vector>

#include "server/base/random.h"

namespace tunefarm {
namespace {

constexpr size_t kSamplesMin = 6;

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
  const size_t rounds = std::min(a.size(), b.size());
  if (rounds == 0) return comparison;
  std::vector<double> ratios;
  for (size_t i = 0; i < rounds; ++i) ratios.push_back(a[i] / b[i]);
  std::sort(ratios.begin(), ratios.end());
  comparison.ratio = SortedQuantile(ratios, 0.5);
  comparison.ratio_interval = MedianInterval(ratios, options.confidence);
  if (rounds >= kSamplesMin && comparison.ratio_interval.coverage >= options.confidence) {
    comparison.verdict = Decide(comparison.ratio_interval, options.margin);
  }
  return comparison;
}

}  // namespace tunefarm
