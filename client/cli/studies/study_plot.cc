#include "client/cli/studies/study_plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>

#include "client/cli/studies/job_names.h"
#include "client/cli/studies/progress.h"
#include "server/analysis/convergence.h"
#include "server/base/format.h"

namespace tunefarm::cli {
namespace {

using Kind = ChartSeries::Kind;

// From this ratio of the slowest to the fastest on, a logarithmic axis shows more.
constexpr double kLogFrom = 3;

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

// Of one panel: the place of an evaluation on its x axis.
using Place = std::vector<double>;

ChartPanel PanelOf(const StudyTrials& trials, const std::vector<ChartSeries>& levels, const Unit& unit,
                   std::string label, const Place& place) {
  const StudyHistory& history = trials.history;
  ChartSeries best{Kind::kSteps, "best so far", {}, {}, {}, {}};
  for (const BestStep& step : BestSoFar(history)) {
    best.x.push_back(place[static_cast<size_t>(step.evaluation)]);
    best.y.push_back(step.best_ns / unit.ns);
  }
  if (!best.x.empty()) {
    best.x.push_back(place.back());
    best.y.push_back(best.y.back());
  }
  ChartSeries measured{
      Kind::kPoints, "tried: " + FormatCount(static_cast<int64_t>(history.measured().size())), {}, {}, {}, {}};
  std::map<int, std::vector<double>> failed;  // by outcome
  for (size_t at = 0; at < history.size(); ++at) {
    if (history[at].is_ok()) {
      measured.x.push_back(place[at + 1]);
      measured.y.push_back(history[at].objective_ns / unit.ns);
    } else {
      failed[history[at].outcome].push_back(place[at + 1]);
    }
  }
  ChartPanel panel{{std::move(label)}, {}};
  panel.series.push_back(std::move(measured));
  panel.series.push_back(std::move(best));
  panel.series.insert(panel.series.end(), levels.begin(), levels.end());
  for (auto& [outcome, places] : failed) {
    std::string name = fmt::format("{}: {}", OutcomeText(static_cast<v1::Outcome>(outcome)),
                                   FormatCount(static_cast<int64_t>(places.size())));
    panel.series.push_back({Kind::kMarks, std::move(name), std::move(places), {}, {}, {}});
  }
  // The axis begins where the study does.
  panel.series[0].x.push_back(0);
  return panel;
}

std::vector<ChartSeries> LevelsOf(const StudyTrials& trials, const std::optional<Config>& defaults, const Unit& unit) {
  std::vector<ChartSeries> levels;
  const auto add = [&](const std::string& name, double ns) {
    if (ns > 0) levels.push_back({Kind::kLevel, name + " " + FormatDuration(ns), {}, {ns / unit.ns}, {}, {}});
  };
  const v1::Study& study = trials.study;
  const double baseline_ns = study.baseline().measurement().median_ns();
  const bool is_default_baseline = !study.baseline().config().values().empty();
  double default_ns = is_default_baseline ? baseline_ns : 0;
  if (default_ns == 0 && defaults.has_value()) {
    for (const uint32_t at : trials.history.measured()) {
      if (trials.history.ConfigOf(at) == *defaults) {
        default_ns = trials.history[at].objective_ns;
        break;
      }
    }
  }
  add("default config", default_ns);
  if (!is_default_baseline) {
    const std::string& label = study.best().baseline_label();
    add(label.empty() ? "baseline" : "baseline: " + label, baseline_ns);
  }
  add("roofline floor", study.floor_ns());
  return levels;
}

std::string SummaryOf(const StudyTrials& trials) {
  const StudyHistory& history = trials.history;
  const std::string all = FormatCount(static_cast<int64_t>(history.size()));
  if (!history.best().has_value()) return all + " trials, none with a time";
  const Evaluation& best = history[*history.best()];
  std::string text =
      fmt::format("best of the search {} by trial {}, evaluation {} of {}, after {}", FormatDuration(best.objective_ns),
                  best.ordinal, FormatCount(static_cast<int64_t>(*history.best()) + 1), all,
                  FormatDuration(static_cast<double>(std::max<int64_t>(0, best.ended_ms - trials.start_ms)) * 1e6));
  if (trials.final_ns > 0) text += fmt::format("; in the final {}", FormatDuration(trials.final_ns));
  if (trials.is_cut) text += "; later trials are left out";
  return text;
}

}  // namespace

Chart StudyChart(const v1::Job& job, const StudyTrials& trials, const std::optional<Config>& defaults) {
  const StudyHistory& history = trials.history;
  double fastest = 0, slowest = 0;
  for (const uint32_t at : history.measured()) {
    const double ns = history[at].objective_ns;
    fastest = fastest == 0 ? ns : std::min(fastest, ns);
    slowest = std::max(slowest, ns);
  }
  const Unit unit = UnitFor(fastest);
  // Places by the number of evaluations that have ended; the last once more, for where the curve ends.
  Place evaluations, times;
  for (size_t ended = 0; ended <= history.size(); ++ended) {
    const int64_t at_ms = ended == 0 ? trials.start_ms : history[ended - 1].ended_ms;
    evaluations.push_back(static_cast<double>(ended));
    times.push_back(static_cast<double>(std::max<int64_t>(0, at_ms - trials.start_ms)) * 1e6);
  }
  const Unit time_unit = UnitFor(times.back());
  for (double& time : times) time /= time_unit.ns;
  const std::vector<ChartSeries> levels = LevelsOf(trials, defaults, unit);
  Chart chart;
  chart.title = fmt::format("job {}: {}  {}  on  {}", JobNumber(job.name()), job.kernel_name(),
                            trials.study.problem().key(), trials.study.device_class_name());
  chart.subtitle = SummaryOf(trials);
  chart.y = {fmt::format("median time of a trial ({})", unit.name), fastest > 0 && slowest >= kLogFrom * fastest};
  chart.panels.push_back(PanelOf(trials, levels, unit, "evaluations", evaluations));
  chart.panels.push_back(
      PanelOf(trials, levels, unit, fmt::format("time since the start ({})", time_unit.name), times));
  return chart;
}

}  // namespace tunefarm::cli
