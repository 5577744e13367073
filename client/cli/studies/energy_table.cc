#include "client/cli/studies/energy_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "client/cli/options/problem_options.h"
#include "client/cli/output.h"
#include "server/base/format.h"

namespace tunefarm::cli {
namespace {

constexpr double kNanosecondsPerMs = 1e6;

double TimeOf(const EnergyPoint& point) { return point.trial->measurement().median_ns(); }
double EnergyOf(const EnergyPoint& point) { return point.trial->measurement().energy().millijoules(); }

struct TimeUnit {
  double ns = 1;
  const char* name = "ns";
};

TimeUnit TimeUnitFor(double ns) {
  if (ns >= 1e6) return {1e6, "ms"};
  return ns >= 1e3 ? TimeUnit{1e3, "µs"} : TimeUnit{};
}

// In millijoules.
std::string Millijoules(double value) { return fmt::format("{:.4g}", value); }

std::string WattsText(double watts) { return watts > 0 ? fmt::format("{:.0f} W", watts) : ""; }

bool IsWinner(const v1::Study& study, const v1::Trial& trial) {
  return study.has_best() && trial.ordinal() == study.best().ordinal();
}

// "no energy of trial 7: the device has no energy counter", for the first one.
std::string MissingText(const std::vector<v1::Trial>& finalists) {
  int missing = 0;
  const v1::Trial* first = nullptr;
  for (const v1::Trial& trial : finalists) {
    if (trial.measurement().energy().millijoules() > 0) continue;
    if (first == nullptr) first = &trial;
    ++missing;
  }
  if (first == nullptr) return "";
  const std::string& because = first->measurement().energy().missing_because();
  return fmt::format("no energy of {}{}{}\n",
                     missing == 1 ? fmt::format("trial {}", first->ordinal()) : FormatCount(missing, "finalist"),
                     because.empty() ? "" : ": ", Visible(because));
}

}  // namespace

std::vector<EnergyPoint> EnergyPoints(const std::vector<v1::Trial>& finalists) {
  std::vector<EnergyPoint> points;
  for (const v1::Trial& trial : finalists) {
    const v1::Measurement& m = trial.measurement();
    if (trial.outcome() != v1::OUTCOME_OK || m.median_ns() <= 0 || m.energy().millijoules() <= 0) continue;
    points.push_back({&trial, false});
  }
  std::stable_sort(points.begin(), points.end(), [](const EnergyPoint& a, const EnergyPoint& b) {
    return EnergyOf(a) != EnergyOf(b) ? EnergyOf(a) < EnergyOf(b) : TimeOf(a) < TimeOf(b);
  });
  // From the least energy to the most: each that is faster than all before, and equals of the last such one.
  double fastest_ns = std::numeric_limits<double>::infinity(), its_energy = 0;
  for (EnergyPoint& point : points) {
    const bool is_equal = TimeOf(point) == fastest_ns && EnergyOf(point) == its_energy;
    point.is_on_front = TimeOf(point) < fastest_ns || is_equal;
    if (!point.is_on_front) continue;
    fastest_ns = TimeOf(point);
    its_energy = EnergyOf(point);
  }
  return points;
}

bool NeedsEnergy(v1::Objective objective) {
  return objective == v1::OBJECTIVE_ENERGY || objective == v1::OBJECTIVE_ENERGY_DELAY;
}

const char* ObjectiveText(v1::Objective objective) {
  if (!NeedsEnergy(objective)) return "time";
  return objective == v1::OBJECTIVE_ENERGY_DELAY ? "energy times time" : "energy";
}

std::string EnergyText(const Session& session, const v1::Study& study, v1::Objective objective,
                       const std::vector<v1::Trial>& finalists) {
  const std::vector<EnergyPoint> points = EnergyPoints(finalists);
  const bool was_tried = std::any_of(finalists.begin(), finalists.end(),
                                     [](const v1::Trial& trial) { return trial.measurement().has_energy(); });
  if (points.empty()) return was_tried || NeedsEnergy(objective) ? MissingText(finalists) : "";
  const bool has_product = objective == v1::OBJECTIVE_ENERGY_DELAY;
  std::vector<Table::Column> columns = {
      {"trial", true}, {"energy", true}, {"95% interval", true}, {"power", true}, {"time", true}};
  if (has_product) columns.push_back({"mJ·ms", true});
  columns.insert(columns.end(), {{"front", false}, {"config", false}});
  Table table(std::move(columns));
  double batch_seconds = std::numeric_limits<double>::infinity(), idle_watts = 0;
  for (const EnergyPoint& point : points) {
    const v1::Energy& energy = point.trial->measurement().energy();
    const bool is_winner = IsWinner(study, *point.trial);
    std::vector<std::string> cells = {
        fmt::format("{}{}", point.trial->ordinal(), is_winner ? "*" : ""), Millijoules(energy.millijoules()) + " mJ",
        fmt::format("{} to {}", Millijoules(energy.ci_low_millijoules()), Millijoules(energy.ci_high_millijoules())),
        WattsText(energy.power_watts()), FormatDuration(TimeOf(point))};
    if (has_product) cells.push_back(Millijoules(energy.millijoules() * TimeOf(point) / kNanosecondsPerMs));
    cells.insert(cells.end(), {point.is_on_front ? "yes" : "", ConfigText(point.trial->config())});
    table.AddRow(std::move(cells), is_winner ? Style::kBold : Style::kPlain);
    batch_seconds = std::min(batch_seconds, energy.batch_seconds());
    idle_watts = idle_watts > 0 ? std::min(idle_watts, energy.idle_power_watts()) : energy.idle_power_watts();
  }
  std::string text = "energy of one launch sequence by the device's counter, without flush and restore";
  if (NeedsEnergy(objective)) text += fmt::format("; the objective is {}", ObjectiveText(objective));
  text += "\n" + table.ToText(session.has_color(), session.columns);
  text +=
      fmt::format("* the winner; front: no other finalist is faster without needing more energy; batches of {:.1f} s",
                  batch_seconds);
  if (idle_watts > 0) text += fmt::format("; idle device: {}", WattsText(idle_watts));
  return text + "\n" + MissingText(finalists);
}

std::optional<Chart> EnergyChart(const std::string& title, const std::vector<v1::Trial>& finalists) {
  const std::vector<EnergyPoint> points = EnergyPoints(finalists);
  if (points.size() < 2) return std::nullopt;
  using Kind = ChartSeries::Kind;
  ChartSeries all{Kind::kPoints, "finalists: " + FormatCount(static_cast<int64_t>(points.size())), {}, {}, {}, {}};
  ChartSeries front{Kind::kLine, "", {}, {}, {}, {}};
  double fastest_ns = std::numeric_limits<double>::infinity();
  for (const EnergyPoint& point : points) fastest_ns = std::min(fastest_ns, TimeOf(point));
  const TimeUnit unit = TimeUnitFor(fastest_ns);
  for (const EnergyPoint& point : points) {
    all.x.push_back(EnergyOf(point));
    all.y.push_back(TimeOf(point) / unit.ns);
    if (!point.is_on_front) continue;
    front.x.push_back(all.x.back());
    front.y.push_back(all.y.back());
  }
  front.name = "Pareto front: " + FormatCount(static_cast<int64_t>(front.x.size()));
  Chart chart;
  chart.title = title;
  chart.subtitle = "time and energy of the finalists, for one launch sequence";
  chart.y = {fmt::format("median time ({})", unit.name), false};
  chart.panels.push_back({{"energy (mJ)"}, {std::move(all), std::move(front)}});
  return chart;
}

}  // namespace tunefarm::cli
