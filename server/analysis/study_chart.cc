#include "server/analysis/study_chart.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <span>

#include "server/analysis/convergence.h"
#include "server/analysis/middle_times.h"

namespace tunefarm {
namespace {

// The upper edge, as a multiple of the median.
constexpr double kTopOfMedians = 3;

// Nanoseconds; of what was measured, which is something.
double MedianOf(const Selection& trials) {
  MiddleTimes times(1, trials.fastest_ns(), trials.slowest_ns());
  const std::span<const double> objectives = trials.columns().objectives_ns();
  trials.ForEach([&](uint32_t at) {
    if (objectives[at] > 0) times.Count(0, objectives[at]);
  });
  times.Choose([](size_t all) { return all; });
  trials.ForEach([&](uint32_t at) {
    if (objectives[at] > 0) times.Collect(0, objectives[at]);
  });
  const MiddleTimes::Middle middle = times.Of(0);
  return (middle.lower_ns + middle.upper_ns) / 2;
}

size_t CellOf(double share, size_t cells) {
  return std::min(cells - 1, static_cast<size_t>(std::max(0.0, share * static_cast<double>(cells))));
}

char DensityOf(uint64_t trials) { return static_cast<char>(trials == 0 ? 0 : std::bit_width(trials * trials)); }

class Axes {
 public:
  Axes(const Selection& trials, const StudyChartOptions& options) : columns_(trials.columns()), options_(options) {
    if (columns_.size() > 0) x_max_ = XOf(static_cast<uint32_t>(columns_.size()) - 1);
    y_min_ = trials.fastest_ns();
    y_max_ = trials.slowest_ns();
    if (trials.measured_count() > 0 && !options.is_logarithmic)
      y_max_ = std::min(y_max_, kTopOfMedians * MedianOf(trials));
    log_range_ = y_max_ > y_min_ ? std::log(y_max_ / y_min_) : 0;
  }

  double XOf(uint32_t at) const {
    return options_.by_seconds ? SecondsFrom(options_.start_ms, columns_[at].ended_ms) : at + 1.0;
  }
  size_t ColumnOf(uint32_t at) const { return x_max_ > 0 ? CellOf(XOf(at) / x_max_, options_.columns) : 0; }
  size_t RowOf(double ns) const {
    if (y_max_ <= y_min_) return 0;
    if (!options_.is_logarithmic) return CellOf((ns - y_min_) / (y_max_ - y_min_), options_.rows);
    return CellOf(std::log(ns / y_min_) / log_range_, options_.rows);
  }

  double x_max() const { return x_max_; }
  double y_min() const { return y_min_; }
  double y_max() const { return y_max_; }

 private:
  const StudyColumns& columns_;
  const StudyChartOptions& options_;
  double x_max_ = 0, y_min_ = 0, y_max_ = 0;
  double log_range_ = 0;  // log(y_max_ / y_min_)
};

// Where the column ends that the trial at `first` lies in. The trials of a column lie next to each other, since they
// are in the order of their ends.
uint32_t EndOfColumn(const Axes& axes, uint32_t first, uint32_t size) {
  const size_t column = axes.ColumnOf(first);
  uint32_t inside = first, outside = size;
  while (outside - inside > 1) {
    const uint32_t middle = inside + (outside - inside) / 2;
    (axes.ColumnOf(middle) == column ? inside : outside) = middle;
  }
  return outside;
}

// The trials in each cell of the chart, in one pass over them.
struct Cells {
  std::vector<uint32_t> measured;                 // by row and column
  std::map<int, std::vector<uint32_t>> failures;  // by outcome, then by column
};

Cells CellsOf(const Selection& trials, const StudyChartOptions& options, const Axes& axes) {
  const StudyColumns& columns = trials.columns();
  const std::span<const double> objectives = columns.objectives_ns();
  Cells cells;
  cells.measured.resize(options.columns * options.rows);
  std::vector<uint32_t> rows(options.rows), failed(UINT8_MAX + 1);  // of one column; by outcome
  const auto size = static_cast<uint32_t>(columns.size());
  uint32_t end = 0;
  for (uint32_t first = 0; first < size; first = end) {
    const size_t column = axes.ColumnOf(first);
    end = EndOfColumn(axes, first, size);
    std::fill(rows.begin(), rows.end(), 0);
    std::fill(failed.begin(), failed.end(), 0);
    trials.ForEachIn(first, end, [&](uint32_t at) {
      ++(objectives[at] > 0 ? rows[axes.RowOf(objectives[at])] : failed[columns.outcomes()[at]]);
    });
    for (size_t row = 0; row < options.rows; ++row) cells.measured[row * options.columns + column] = rows[row];
    for (size_t outcome = 0; outcome < failed.size(); ++outcome) {
      if (failed[outcome] == 0) continue;
      std::vector<uint32_t>& counts = cells.failures[static_cast<int>(outcome)];
      counts.resize(options.columns);
      counts[column] = failed[outcome];
    }
  }
  return cells;
}

std::vector<ChartPoint> StepsOf(const Selection& trials, const Axes& axes) {
  const std::vector<BestStep> steps = BestSoFar(trials);
  std::vector<ChartPoint> points;
  const size_t shown = std::min(steps.size(), kChartStepsMax);
  for (size_t i = 0; i < shown; ++i) {
    // Of more steps some, at even distances, with the first and the last.
    const BestStep& step = steps[shown > 1 ? i * (steps.size() - 1) / (shown - 1) : 0];
    points.push_back({axes.XOf(static_cast<uint32_t>(step.evaluation - 1)), step.best_ns, step.ordinal});
  }
  return points;
}

// The most frequent first.
std::vector<FailureColumns> FailuresOf(const Cells& cells) {
  std::vector<FailureColumns> sorted;
  for (const auto& [outcome, counts] : cells.failures)
    sorted.push_back({outcome, std::accumulate(counts.begin(), counts.end(), int64_t{0}), counts});
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const FailureColumns& a, const FailureColumns& b) { return a.count > b.count; });
  return sorted;
}

}  // namespace

StudyChart ChartOf(const Selection& trials, const StudyChartOptions& options) {
  const Axes axes(trials, options);
  StudyChart chart;
  chart.x_max = axes.x_max();
  const Cells cells = CellsOf(trials, options, axes);
  chart.failures = FailuresOf(cells);
  if (trials.measured_count() == 0) return chart;
  chart.rows = options.rows;
  chart.y_min_ns = axes.y_min();
  chart.y_max_ns = axes.y_max();
  for (const uint32_t count : cells.measured) chart.density += DensityOf(uint64_t{count});
  chart.best = StepsOf(trials, axes);
  if (trials.measured_count() <= kChartPointsMax) {
    for (const uint32_t at : trials.Measured())
      chart.points.push_back({axes.XOf(at), trials.columns()[at].objective_ns, trials.columns()[at].ordinal});
  }
  return chart;
}

}  // namespace tunefarm
