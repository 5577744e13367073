// Is one config faster than another beyond noise?
//
// Pure and deterministic: equal samples give equal answers, on every machine.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "server/measure/statistics.h"

namespace tunefarm {

enum class SpeedVerdict {
  kFaster,      // a is faster than b by more than the margin, beyond noise
  kSlower,      // a is slower than b by more than the margin, beyond noise
  kNoDecision,  // the samples do not tell them apart by the margin
};

struct CompareOptions {
  double confidence = 0.95;
  // Differences up to this share do not count: a is faster only if its time is below (1 - margin) of b's.
  double margin = 0.0;
  int resamples = 2000;
  uint64_t seed = 1;
};

struct Comparison {
  double ratio = 0;         // time of a / time of b (of medians; paired: median of ratios): below 1, a is faster
  Interval ratio_interval;  // of the ratio; coverage is nominal for the bootstrap
  SpeedVerdict verdict = SpeedVerdict::kNoDecision;
};

// From samples (times, all positive) of a and b taken independently, by the percentile bootstrap of the ratio of
// medians (Efron and Tibshirani, "An Introduction to the Bootstrap", section 13.3), drawn from the given seed. With
// fewer than 6 samples on a side, where no 95 % interval of a median exists, the verdict is always kNoDecision; `ratio`
// is set wherever both sides have samples.
Comparison CompareMedians(std::span<const double> a, std::span<const double> b, const CompareOptions& options = {});

// From rounds in which a and b were measured side by side (interleaved): a[i] and b[i] share their round's conditions.
// The interval is the order-statistic interval of the median of the ratios a[i]/b[i], which needs no resampling and
// covers exactly (MedianInterval). Only the first min(a.size(), b.size()) rounds count; fewer than 6 give kNoDecision.
Comparison ComparePaired(std::span<const double> a, std::span<const double> b, const CompareOptions& options = {});

}  // namespace tunefarm
