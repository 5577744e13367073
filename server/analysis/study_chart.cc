#include "server/analysis/study_chart.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "server/analysis/convergence.h"

namespace tunefarm {
namespace {

// The upper edge, as a multiple of the median.
constexpr double kTopOfMedians = 3;

// Of times in any order, which are put into another one; not empty.
double MedianOf(std::vector<double>* times) {
  const auto middle = times->begin() + static_cast<ptrdiff_t>(times->size() / 2);
  std::nth_element(times->begin(), middle, times->end());
  if (times->size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(times->begin(), middle)) / 2;
}

size_t CellOf(double share, size_t cells) {
  return std::min(cells - 1, static_cast<size_t>(std::max(0.0, share * static_cast<double>(cells))));
}

char DensityOf(uint64_t trials) { return static_cast<char>(trials == 0 ? 0 : std::bit_width(trials * trials)); }

class Axes {
 public:
  Axes(const Selection& trials, const StudyChartOptions& options) : columns_(trials.columns()), options_(options) {
    if (columns_.size() > 0) x_max_ = XOf(static_cast<uint32_t>(columns_.size()) - 1);
    if (trials.measured().empty()) return;
    std::vector<double> times;
    times.reserve(trials.measured().size());
    for (const uint32_t at : trials.measured()) times.push_back(columns_[at].objective_ns);
    y_min_ = columns_[*trials.best()].objective_ns;
    y_max_ = *std::max_element(times.begin(), times.end());
    if (!options.is_logarithmic) y_max_ = std::min(y_max_, kTopOfMedians * MedianOf(&times));
  }

  double XOf(uint32_t at) const {
    return options_.by_seconds ? SecondsFrom(options_.start_ms, columns_[at].ended_ms) : at + 1.0;
  }
  size_t ColumnOf(uint32_t at) const { return x_max_ > 0 ? CellOf(XOf(at) / x_max_, options_.columns) : 0; }
  size_t RowOf(uint32_t at) const {
    const double ns = columns_[at].objective_ns;
    if (y_max_ <= y_min_) return 0;
    if (!options_.is_logarithmic) return CellOf((ns - y_min_) / (y_max_ - y_min_), options_.rows);
    return CellOf(std::log(ns / y_min_) / std::log(y_max_ / y_min_), options_.rows);
  }

  double x_max() const { return x_max_; }
  double y_min() const { return y_min_; }
  double y_max() const { return y_max_; }

 private:
  const StudyColumns& columns_;
  const StudyChartOptions& options_;
  double x_max_ = 0, y_min_ = 0, y_max_ = 0;
};

std::string DensityOf(const Selection& trials, const StudyChartOptions& options, const Axes& axes) {
  std::vector<uint32_t> counts(options.columns * options.rows);
  for (const uint32_t at : trials.measured()) ++counts[axes.RowOf(at) * options.columns + axes.ColumnOf(at)];
  std::string density;
  density.reserve(counts.size());
  for (const uint32_t count : counts) density += DensityOf(uint64_t{count});
  return density;
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

std::vector<FailureColumns> FailuresOf(const Selection& trials, const StudyChartOptions& options, const Axes& axes) {
  std::map<int, FailureColumns> by_outcome;
  for (const uint32_t at : trials.positions()) {
    const Evaluation& one = trials.columns()[at];
    if (one.is_ok()) continue;
    FailureColumns& failures = by_outcome[one.outcome];
    failures.outcome = one.outcome;
    failures.counts.resize(options.columns);
    ++failures.count;
    ++failures.counts[axes.ColumnOf(at)];
  }
  std::vector<FailureColumns> sorted;
  for (auto& [outcome, failures] : by_outcome) sorted.push_back(std::move(failures));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const FailureColumns& a, const FailureColumns& b) { return a.count > b.count; });
  return sorted;
}

}  // namespace

StudyChart ChartOf(const Selection& trials, const StudyChartOptions& options) {
  const Axes axes(trials, options);
  StudyChart chart;
  chart.x_max = axes.x_max();
  chart.failures = FailuresOf(trials, options, axes);
  if (trials.measured().empty()) return chart;
  chart.rows = options.rows;
  chart.y_min_ns = axes.y_min();
  chart.y_max_ns = axes.y_max();
  chart.density = DensityOf(trials, options, axes);
  chart.best = StepsOf(trials, axes);
  if (trials.measured().size() <= kChartPointsMax) {
    for (const uint32_t at : trials.measured())
      chart.points.push_back({axes.XOf(at), trials.columns()[at].objective_ns, trials.columns()[at].ordinal});
  }
  return chart;
}

}  // namespace tunefarm
