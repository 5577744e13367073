// Whether intervals of ratios are what they say: judged on pairs of one and the same config (an A/A test).
//
// The true ratio of such a pair is 1, so its stated 95 % interval excludes 1 in about 5 of 100 pairs by chance. More
// says that the intervals are too narrow, and then a "faster" config may be none.
//
// Pure; any thread.
#pragma once

#include <cstdint>
#include <span>

#include "server/measure/compare.h"

namespace tunefarm {

struct Repeatability {
  uint64_t pairs = 0;            // those with an interval
  uint64_t excluding_one = 0;    // pairs whose interval excludes 1
  uint64_t excluding_max = 0;    // more than this happens by chance in fewer than 1.5 of 100 such tests
  double median_half_width = 0;  // of the intervals, as a share of 1: the smallest difference that can be told
  double median_ratio = 0;       // near 1 unless the first of a pair has an advantage

  bool is_honest() const { return pairs > 0 && excluding_one <= excluding_max; }
};

Repeatability JudgeRepeatability(std::span<const Comparison> pairs, double confidence = 0.95);

// How far rounds that should be equal lie apart: the range of their times over their median, and the share by which the
// second half's median differs from the first's. 0 for fewer than two rounds. Times positive.
struct Drift {
  double range = 0;
  double trend = 0;
};
Drift DriftOf(std::span<const double> rounds);

}  // namespace tunefarm
