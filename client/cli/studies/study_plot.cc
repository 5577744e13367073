#include "client/cli/studies/study_plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "client/cli/studies/job_names.h"
#include "client/cli/studies/progress.h"
#include "server/base/format.h"
#include "server/base/status_macros.h"

namespace tunefarm::cli {
namespace {

using Kind = ChartSeries::Kind;

// From this ratio of the slowest to the fastest on, a logarithmic axis shows more.
constexpr double kLogFrom = 3;
// Finer than the picture's dots.
constexpr int kGridColumns = 1000, kGridRows = 400;

struct Unit {
  double ns = 1;
  const char* name = "ns";
};

// In which numbers of this size have few digits.
Unit UnitFor(double ns) {
  constexpr Unit kUnits[] = {{3.6e12, "h"}, {6e10, "min"}, {1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}};
  for (const Unit& unit : kUnits) {
    // Minutes and hours from two of them on.
    if (ns >= unit.ns * (unit.ns > 1e9 ? 2 : 1)) return unit;
  }
  return {};
}

// The numbers that a bytes field holds.
template <typename Number>
std::vector<Number> NumbersIn(const std::string& bytes) {
  std::vector<Number> numbers(bytes.size() / sizeof(Number));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(Number));
  return numbers;
}

absl::StatusOr<v1::GetStudyChartResponse> Fetch(Connection* connection, const v1::Study& study, v1::ChartAxis x,
                                                bool is_log) {
  v1::GetStudyChartRequest request;
  request.set_study(study.name());
  request.set_x(x);
  request.set_columns(kGridColumns);
  request.set_rows(kGridRows);
  request.set_is_logarithmic(is_log);
  return Connection::Call(connection->studies(), &v1::StudyService::StubInterface::GetStudyChart, request);
}

// Of the middle of a column, in units of the chart's x axis.
double MiddleOf(const v1::GetStudyChartResponse& chart, size_t column) {
  return chart.x_min() +
         (static_cast<double>(column) + 0.5) / static_cast<double>(chart.columns()) * (chart.x_max() - chart.x_min());
}

// Dots where trials were measured, in units of the chart.
ChartSeries MeasuredOf(const v1::GetStudyChartResponse& chart, bool is_log) {
  int64_t failed = 0;
  for (const v1::ChartFailures& failures : chart.failures()) failed += failures.count();
  ChartSeries measured{Kind::kPoints, "tried: " + FormatCount(chart.coverage().matching() - failed), {}, {}, {}, {}};
  measured.x = NumbersIn<double>(chart.point_x());
  measured.y = NumbersIn<double>(chart.point_ns());
  if (!measured.x.empty()) return measured;
  const auto columns = static_cast<size_t>(chart.columns());
  const double low = chart.y_min_ns(), high = chart.y_max_ns();
  for (size_t cell = 0; cell < chart.density().size(); ++cell) {
    if (chart.density()[cell] == 0) continue;
    const double share = (static_cast<double>(cell / columns) + 0.5) / static_cast<double>(chart.rows());
    measured.x.push_back(MiddleOf(chart, cell % columns));
    measured.y.push_back(is_log ? low * std::pow(high / low, share) : low + share * (high - low));
  }
  return measured;
}

// `x_unit` and `y_unit`: what one of the picture's units is in those of the chart.
ChartPanel PanelOf(const v1::GetStudyChartResponse& chart, bool is_log, std::string label, double x_unit,
                   double y_unit) {
  ChartPanel panel{{std::move(label)}, {}};
  panel.series.push_back(MeasuredOf(chart, is_log));
  panel.series.push_back(
      {Kind::kSteps, "best so far", NumbersIn<double>(chart.best_x()), NumbersIn<double>(chart.best_ns()), {}, {}});
  if (ChartSeries& best = panel.series.back(); !best.x.empty()) {
    best.x.push_back(chart.x_max());
    best.y.push_back(best.y.back());
  }
  for (const v1::ChartLevel& level : chart.levels()) {
    if (level.label() == "final") continue;  // its times are those of other measurements
    panel.series.push_back(
        {Kind::kLevel, level.label() + " " + FormatDuration(level.time_ns()), {}, {level.time_ns()}, {}, {}});
  }
  std::vector<const v1::ChartFailures*> failures;
  for (const v1::ChartFailures& of_outcome : chart.failures()) failures.push_back(&of_outcome);
  std::sort(failures.begin(), failures.end(),
            [](const v1::ChartFailures* a, const v1::ChartFailures* b) { return a->outcome() < b->outcome(); });
  for (const v1::ChartFailures* const of_outcome : failures) {
    ChartSeries marks{
        Kind::kMarks, OutcomeText(of_outcome->outcome()) + ": " + FormatCount(of_outcome->count()), {}, {}, {}, {}};
    const auto counts = NumbersIn<uint32_t>(of_outcome->counts());
    for (size_t column = 0; column < counts.size(); ++column) {
      if (counts[column] > 0) marks.x.push_back(MiddleOf(chart, column));
    }
    panel.series.push_back(std::move(marks));
  }
  // The axis is that of the study, from its begin to its last trial.
  panel.series[0].x.insert(panel.series[0].x.end(), {chart.x_min(), chart.x_max()});
  for (ChartSeries& series : panel.series) {
    for (double& x : series.x) x /= x_unit;
    for (double& y : series.y) y /= y_unit;
  }
  return panel;
}

std::string SummaryOf(const v1::GetStudyChartResponse& by_evaluations, const v1::GetStudyChartResponse& by_seconds) {
  const std::string all = FormatCount(by_evaluations.coverage().read());
  const auto evaluations = NumbersIn<double>(by_evaluations.best_x());
  const auto seconds = NumbersIn<double>(by_seconds.best_x());
  if (evaluations.empty() || seconds.empty()) return all + " trials, none with a time";
  std::string text =
      fmt::format("best of the search {} by trial {}, evaluation {} of {}, after {}",
                  FormatDuration(NumbersIn<double>(by_evaluations.best_ns()).back()),
                  NumbersIn<int64_t>(by_evaluations.best_ordinals()).back(),
                  FormatCount(static_cast<int64_t>(evaluations.back())), all, FormatDuration(seconds.back() * 1e9));
  for (const v1::ChartLevel& level : by_evaluations.levels()) {
    if (level.label() == "final") text += fmt::format("; in the final {}", FormatDuration(level.time_ns()));
  }
  if (by_evaluations.coverage().is_cut()) text += "; later trials are left out";
  return text;
}

}  // namespace

absl::StatusOr<Chart> FetchStudyChart(Connection* connection, const v1::Job& job, const v1::Study& study) {
  ASSIGN_OR_RETURN(v1::GetStudyChartResponse by_evaluations,
                   Fetch(connection, study, v1::CHART_AXIS_EVALUATIONS, /*is_log=*/true));
  const double fastest = by_evaluations.y_min_ns();
  const bool is_log = fastest > 0 && by_evaluations.y_max_ns() >= kLogFrom * fastest;
  if (!is_log) {
    ASSIGN_OR_RETURN(by_evaluations, Fetch(connection, study, v1::CHART_AXIS_EVALUATIONS, is_log));
  }
  ASSIGN_OR_RETURN(const v1::GetStudyChartResponse by_seconds,
                   Fetch(connection, study, v1::CHART_AXIS_SECONDS, is_log));
  const Unit unit = UnitFor(fastest);
  const Unit time_unit = UnitFor(by_seconds.x_max() * 1e9);
  Chart chart;
  chart.title = fmt::format("job {}: {}  {}  on  {}", JobNumber(job.name()), job.kernel_name(), study.problem().key(),
                            study.device_class_name());
  chart.subtitle = SummaryOf(by_evaluations, by_seconds);
  chart.y = {fmt::format("median time of a trial ({})", unit.name), is_log};
  chart.panels.push_back(PanelOf(by_evaluations, is_log, "evaluations", 1, unit.ns));
  chart.panels.push_back(PanelOf(by_seconds, is_log, fmt::format("time since the start ({})", time_unit.name),
                                 time_unit.ns / 1e9, unit.ns));
  return chart;
}

}  // namespace tunefarm::cli
