// A search as a picture of bounded size: a density of times over evaluations or seconds, the steps of the best, and
// where trials failed. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/analysis/selection.h"

namespace tunefarm {

struct StudyChartOptions {
  bool by_seconds = false;  // else by evaluations
  int64_t start_ms = 0;     // when the study began
  size_t columns = 600, rows = 160;
  bool is_logarithmic = false;  // rows of equal ratios
};

struct ChartPoint {
  double x = 0;
  double ns = 0;
  int64_t ordinal = 0;
};

struct FailureColumns {
  int outcome = 0;
  int64_t count = 0;
  std::vector<uint32_t> counts;  // by column
};

struct StudyChart {
  size_t rows = 0;  // as asked; 0 where nothing was measured
  // The x axis is that of the whole study, whatever is selected: from 0 to its last evaluation.
  double x_min = 0, x_max = 0;
  // From the fastest to three times the median, or to the slowest where that is less or the rows are logarithmic;
  // slower ones count in the top row.
  double y_min_ns = 0, y_max_ns = 0;
  // A byte a cell, row after row, the lowest times first: 0 for none, else 1 + floor(2 * log2(trials)).
  std::string density;
  std::vector<ChartPoint> best;          // steps of the best so far, at most kChartStepsMax; the last one is the best
  std::vector<FailureColumns> failures;  // the most frequent first
  std::vector<ChartPoint> points;        // all that were measured, by their ends; none beyond kChartPointsMax
};

inline constexpr size_t kChartStepsMax = 1000;
inline constexpr size_t kChartPointsMax = 5000;

// In four passes over the trials at most, of which logarithmic rows need two; beyond those it looks at cells.
StudyChart ChartOf(const Selection& trials, const StudyChartOptions& options);

}  // namespace tunefarm
