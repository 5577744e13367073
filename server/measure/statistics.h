// Statistics of samples: times of one config, in any unit. All functions are pure; any thread may call them.
//
// Times of a GPU kernel are skewed to the right and have outliers, so everything that decides something rests on order
// statistics; mean and standard deviation are for people. No function accepts NaN.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tunefarm {

// A two-sided confidence interval and how often such an interval covers the truth.
struct Interval {
  double low = 0;
  double high = 0;
  double coverage = 0;  // at least what was asked for where that can be reached, else what all samples give

  // Half of the width relative to `center`; infinity where center is 0.
  double RelativeHalfWidth(double center) const;
};

struct SampleSummary {
  uint64_t count = 0;  // 0: everything else is 0
  double min = 0;
  double max = 0;
  double mean = 0;
  double stdev = 0;  // with n - 1; 0 for one sample
  double median = 0;
  Interval median_interval;  // 95 %
};

// The p-quantile, 0 <= p <= 1, of sorted samples by linear interpolation between order statistics, "type 7" of Hyndman
// and Fan, "Sample quantiles in statistical packages", The American Statistician 50 (1996); NumPy's default. `sorted`
// must be ascending and not empty.
double SortedQuantile(std::span<const double> sorted, double p);

// Of samples in any order, not empty.
double Median(std::span<const double> samples);

// The mean of those that lie near the median: not farther than five times the median distance from it, or 2 % of it if
// that is more. Finer than a median where samples have few values, as differences of a coarse clock have: with the
// phase of the clock at random their mean is right. Of positive samples in any order, not empty.
double MeanWithoutOutliers(std::span<const double> samples);

// The confidence interval of the median of any distribution whatever, from order statistics: the number of samples
// below the median is Binomial(n, 1/2), so [x(k), x(n+1-k)] covers it with probability 1 - 2 P(B <= k-1). k is the
// largest that gives at least `confidence` (David and Nagaraja, "Order Statistics", 3rd ed., section 7.1; Le Boudec,
// "Performance Evaluation", section 2.2). Below 6 samples 95 % cannot be reached: then the whole range with its true
// coverage, which `coverage` states. `sorted` must be ascending and not empty.
Interval MedianInterval(std::span<const double> sorted, double confidence = 0.95);

// The rank k (from 1) of the above for n samples; 0 when even k = 1 does not reach `confidence`.
uint64_t MedianIntervalRank(uint64_t n, double confidence);

// P(B <= k) for B ~ Binomial(n, 1/2).
double BinomialHalfCdf(uint64_t n, uint64_t k);

// The p-quantile, 0 < p < 1, of Student's t with `degrees` >= 1 degrees of freedom, to 1e-9: the distribution's finite
// series for whole degrees (Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.7.3 and 26.7.4), inverted
// by bisection.
double StudentQuantile(uint64_t degrees, double p);

// The interval of the center of a symmetric distribution, whatever else it is, by Wilcoxon's signed ranks: of the
// averages of all pairs of samples (each with itself too), the k-th from either end, where k is the largest that covers
// with at least `confidence` (Hollander, Wolfe and Chicken, "Nonparametric Statistical Methods", 3rd ed., section 3.3).
// Narrower than MedianInterval where it holds. 6 to 256 samples, in any order; outside of that and where `confidence`
// cannot be reached, nothing.
std::optional<Interval> SignedRankInterval(std::span<const double> samples, double confidence = 0.95);

// The median of those averages, the estimate that belongs to the interval (Hodges and Lehmann). `samples` not empty.
double HodgesLehmann(std::span<const double> samples);

SampleSummary Summarize(std::span<const double> samples);

}  // namespace tunefarm
