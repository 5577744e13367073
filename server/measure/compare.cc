#include "server/measure/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "server/measure/policy.h"

namespace tunefarm {
namespace {

constexpr double kYardstickRatioMax = 1.5;

SpeedVerdict Decide(const Interval& ratio, double margin) {
  if (ratio.high < 1 - margin) return SpeedVerdict::kFaster;
  // The mirror image: b is faster than a by the margin.
  if (1 < (1 - margin) * ratio.low) return SpeedVerdict::kSlower;
  return SpeedVerdict::kNoDecision;
}

std::vector<double> NumbersOfRounds(std::span<const double> samples, size_t rounds,
                                    double (*number_of)(std::span<const double>)) {
  std::vector<double> numbers;
  if (rounds == 0 || samples.size() < rounds) return numbers;
  const size_t each = samples.size() / rounds;
  for (size_t i = 0; i < rounds; ++i) numbers.push_back(number_of(samples.subspan(i * each, each)));
  return numbers;
}

bool HasNeighbours(const tunefarm::v1::Measurement& measurement) {
  return measurement.yardstick_ns_size() > 0 && measurement.yardstick_ns_size() == measurement.sample_ns_size() &&
         std::ranges::all_of(measurement.yardstick_ns(), [](float time) { return time > 0; });
}

double YardstickMedian(const tunefarm::v1::Measurement& measurement) {
  return Median(std::vector<double>(measurement.yardstick_ns().begin(), measurement.yardstick_ns().end()));
}

// One config's time does not differ by more within a final, whatever the clock does: a kernel that makes its neighbour
// slower gains nothing.
bool AreAlike(double a, double b) { return a < kYardstickRatioMax * b && b < kYardstickRatioMax * a; }

// One number for each round.
std::vector<double> RoundsOf(const tunefarm::v1::Measurement& measurement, bool by_neighbours, int rounds) {
  std::vector<double> samples(measurement.sample_ns().begin(), measurement.sample_ns().end());
  if (by_neighbours) {
    for (size_t i = 0; i < samples.size(); ++i)
      samples[i] /= static_cast<double>(measurement.yardstick_ns()[static_cast<int>(i)]);
  }
  std::vector<double> numbers =
      NumbersOfRounds(samples, static_cast<size_t>(std::max(rounds, 1)), by_neighbours ? MeanWithoutOutliers : Median);
  if (numbers.empty()) numbers.push_back(measurement.median_ns());
  return numbers;
}

}  // namespace

Comparison ComparePaired(std::span<const double> a, std::span<const double> b, const CompareOptions& options) {
  Comparison comparison;
  const size_t rounds = std::min({a.size(), b.size(), size_t{kFinalRoundsMax}});
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

Comparison CompareMeasurements(const tunefarm::v1::Measurement& a, const tunefarm::v1::Measurement& b, int rounds,
                               const CompareOptions& options) {
  // With fewer samples than rounds the medians are compared.
  const bool by_neighbours = HasNeighbours(a) && HasNeighbours(b) &&
                             std::min(a.sample_ns_size(), b.sample_ns_size()) >= rounds &&
                             AreAlike(YardstickMedian(a), YardstickMedian(b));
  return ComparePaired(RoundsOf(a, by_neighbours, rounds), RoundsOf(b, by_neighbours, rounds), options);
}

Comparison CompareFigures(double a, const Interval& a_interval, double b, const Interval& b_interval, double margin) {
  const auto ratio = [](double of, double to) { return to > 0 ? of / to : std::numeric_limits<double>::infinity(); };
  Comparison comparison;
  comparison.ratio = ratio(a, b);
  comparison.ratio_interval = {ratio(a_interval.low, b_interval.high), ratio(a_interval.high, b_interval.low),
                               std::min(a_interval.coverage, b_interval.coverage)};
  comparison.verdict = Decide(comparison.ratio_interval, margin);
  return comparison;
}

std::vector<double> RoundMedians(std::span<const double> samples, size_t rounds) {
  return NumbersOfRounds(samples, rounds, Median);
}

}  // namespace tunefarm
