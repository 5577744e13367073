// Filters, charts and grids against plain loops over random studies.
#include "server/analysis/selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "server/analysis/study_chart.h"
#include "server/analysis/value_effects.h"
#include "server/base/random.h"
#include "tests/unit/analysis/trials.h"

namespace tunefarm {
namespace {

struct PlainTrial {
  int64_t ordinal = 0;
  int64_t ended_ms = 0;
  int outcome = 0;
  int64_t a = 0, b = 0;
  double ns = 0;
};

constexpr int64_t kStartMs = 1000;
constexpr int kOtherFailure = 10;

// By their ends; trials end out of order.
std::vector<PlainTrial> RandomTrials(uint64_t seed, int64_t count) {
  PhiloxStream random(seed);
  std::vector<PlainTrial> trials;
  for (int64_t i = 0; i < count; ++i) {
    PlainTrial trial;
    trial.ordinal = i;
    trial.ended_ms = kStartMs + 10 * i + static_cast<int64_t>(random.UniformInt(200));
    trial.a = static_cast<int64_t>(random.UniformInt(7));
    trial.b = 1 << random.UniformInt(5);
    trial.outcome = random.UniformInt(5) > 0 ? kOk : random.UniformInt(2) == 0 ? kFailed : kOtherFailure;
    if (trial.outcome == kOk) trial.ns = std::round(1000 * std::exp(3 * random.NextDouble()));
    trials.push_back(trial);
  }
  return trials;
}

std::vector<uint32_t> PositionsOf(const Selection& selection) {
  std::vector<uint32_t> positions;
  selection.ForEach([&](uint32_t at) { positions.push_back(at); });
  return positions;
}

StudyColumns ColumnsOf(const std::vector<PlainTrial>& trials) {
  StudyColumns columns;
  for (const PlainTrial& trial : trials) {
    const std::string config = Config({{"A", trial.a}, {"B", trial.b}}).ToText();
    EXPECT_TRUE(columns
                    .Add({.ordinal = trial.ordinal,
                          .ended_ms = trial.ended_ms,
                          .outcome = trial.outcome,
                          .config = config,
                          .objective_ns = trial.ns,
                          .message = trial.a < 3 ? "few" : "many"})
                    .ok());
  }
  columns.Settle();
  return columns;
}

void SortByEnd(std::vector<PlainTrial>* trials) {
  std::sort(trials->begin(), trials->end(), [](const PlainTrial& a, const PlainTrial& b) {
    return std::pair(a.ended_ms, a.ordinal) < std::pair(b.ended_ms, b.ordinal);
  });
}

double PlainMedian(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return (numbers[(numbers.size() - 1) / 2] + numbers[numbers.size() / 2]) / 2;
}

TEST(Selection, PassesWhatSatisfiesEachCondition) {
  std::vector<PlainTrial> trials = RandomTrials(1, 500);
  const StudyColumns columns = ColumnsOf(trials);
  SortByEnd(&trials);
  PhiloxStream random(2);
  for (int round = 0; round < 200; ++round) {
    TrialConditions conditions;
    conditions.start_ms = kStartMs;
    const auto has = [&] { return random.UniformInt(2) == 0; };
    if (has()) {
      conditions.outcomes.emplace(16);
      for (const size_t outcome : {kOk, kFailed, kOtherFailure}) (*conditions.outcomes)[outcome] = has();
    }
    for (const size_t parameter : {0, 1}) {
      if (!has()) continue;
      std::vector<bool> wanted(columns.values(parameter).size());
      for (size_t v = 0; v < wanted.size(); ++v) wanted[v] = has();
      conditions.values.emplace_back(parameter, wanted);
    }
    const auto range = [&](double length) -> std::optional<Range> {
      if (!has()) return std::nullopt;
      Range result;
      if (has()) result.min = std::floor(random.NextDouble() * length / 2);
      if (has()) result.max = std::floor((0.5 + random.NextDouble() / 2) * length);
      return result;
    };
    conditions.objective_ns = range(20000);
    conditions.evaluation = range(500);
    conditions.seconds = range(5);
    std::vector<uint32_t> positions, measured;
    std::optional<uint32_t> best;
    for (uint32_t at = 0; at < trials.size(); ++at) {
      const PlainTrial& trial = trials[at];
      bool passes = !conditions.outcomes.has_value() || (*conditions.outcomes)[static_cast<size_t>(trial.outcome)];
      for (const auto& [parameter, wanted] : conditions.values) {
        const Value value(parameter == 0 ? trial.a : trial.b);
        for (size_t v = 0; v < wanted.size(); ++v) {
          if (columns.values(parameter)[v] == value) passes = passes && wanted[v];
        }
      }
      if (conditions.objective_ns.has_value())
        passes = passes && trial.ns > 0 && conditions.objective_ns->Has(trial.ns);
      if (conditions.evaluation.has_value()) passes = passes && conditions.evaluation->Has(at + 1);
      if (conditions.seconds.has_value())
        passes = passes && conditions.seconds->Has(static_cast<double>(trial.ended_ms - kStartMs) / 1000);
      if (!passes) continue;
      positions.push_back(at);
      if (trial.ns == 0) continue;
      measured.push_back(at);
      if (!best.has_value() || trial.ns < trials[*best].ns) best = at;
    }
    const Selection selected(columns, conditions);
    EXPECT_EQ(PositionsOf(selected), positions);
    EXPECT_EQ(selected.Measured(), measured);
    EXPECT_EQ(selected.best(), best);
    EXPECT_EQ(selected.size(), positions.size());
    EXPECT_EQ(selected.measured_count(), measured.size());
    double slowest = 0;
    for (const uint32_t at : measured) slowest = std::max(slowest, trials[at].ns);
    EXPECT_EQ(selected.fastest_ns(), best.has_value() ? trials[*best].ns : 0);
    EXPECT_EQ(selected.slowest_ns(), slowest);
    std::vector<uint32_t> in_parts;
    const auto visit = [&](uint32_t at) { in_parts.push_back(at); };
    for (uint32_t first = 0; first < 500; first += 50) selected.ForEachIn(first, first + 50, visit);
    EXPECT_EQ(in_parts, positions);

    std::map<std::pair<int, std::string>, std::vector<int64_t>> reasons;
    for (const uint32_t at : positions) {
      if (trials[at].ns == 0)
        reasons[{trials[at].outcome, trials[at].a < 3 ? "few" : "many"}].push_back(trials[at].ordinal);
    }
    const std::vector<ReasonCount> counts = CountReasons(selected);
    EXPECT_EQ(counts.size(), reasons.size());
    for (size_t i = 0; i < counts.size(); ++i) {
      const std::vector<int64_t>& ordinals = reasons[{counts[i].outcome, counts[i].reason}];
      EXPECT_EQ(counts[i].count, static_cast<int64_t>(ordinals.size()));
      EXPECT_EQ(counts[i].example_ordinal, *std::min_element(ordinals.begin(), ordinals.end()));
      if (i > 0) {
        EXPECT_GE(counts[i - 1].count, counts[i].count);
      }
    }
  }
}

TEST(StudyChart, CountsEachTrialInItsCell) {
  std::vector<PlainTrial> trials = RandomTrials(3, 700);
  const StudyColumns columns = ColumnsOf(trials);
  SortByEnd(&trials);
  for (const bool by_seconds : {false, true}) {
    for (const bool is_logarithmic : {false, true}) {
      for (const size_t number_of_columns : {1, 17, 1000}) {
        TrialConditions conditions;
        conditions.values.emplace_back(0, std::vector<bool>{true, true, false, true, true, true, true});
        const Selection selected(columns, conditions);
        StudyChartOptions options;
        options.by_seconds = by_seconds;
        options.start_ms = kStartMs;
        options.columns = number_of_columns;
        options.rows = 13;
        options.is_logarithmic = is_logarithmic;
        const StudyChart chart = ChartOf(selected, options);

        const auto x_of = [&](size_t at) {
          return by_seconds ? static_cast<double>(trials[at].ended_ms - kStartMs) / 1000 : static_cast<double>(at + 1);
        };
        std::vector<double> times;
        for (const uint32_t at : selected.Measured()) times.push_back(trials[at].ns);
        const double fastest = *std::min_element(times.begin(), times.end());
        const double slowest = *std::max_element(times.begin(), times.end());
        const double top = is_logarithmic ? slowest : std::min(slowest, 3 * PlainMedian(times));
        EXPECT_EQ(chart.x_min, 0);
        EXPECT_EQ(chart.x_max, x_of(trials.size() - 1)) << "of the whole study";
        EXPECT_EQ(chart.y_min_ns, fastest);
        EXPECT_DOUBLE_EQ(chart.y_max_ns, top);
        const auto cell = [](double share, size_t cells) {
          return std::min(cells - 1, static_cast<size_t>(share * static_cast<double>(cells)));
        };
        std::vector<int> counts(number_of_columns * 13);
        std::map<int, std::vector<uint32_t>> failed;
        double best = INFINITY;
        std::vector<int64_t> steps;
        for (const uint32_t at : PositionsOf(selected)) {
          const size_t column = cell(x_of(at) / chart.x_max, number_of_columns);
          if (trials[at].ns == 0) {
            failed[trials[at].outcome].resize(number_of_columns);
            ++failed[trials[at].outcome][column];
            continue;
          }
          const double ns = std::min(trials[at].ns, top);
          const double share = is_logarithmic ? std::log(trials[at].ns / fastest) / std::log(top / fastest)
                                              : (ns - fastest) / (top - fastest);
          ++counts[cell(share, 13) * number_of_columns + column];
          if (trials[at].ns < best) steps.push_back(trials[at].ordinal);
          best = std::min(best, trials[at].ns);
        }
        ASSERT_EQ(chart.density.size(), counts.size());
        for (size_t i = 0; i < counts.size(); ++i) {
          const int expected = counts[i] == 0 ? 0 : 1 + static_cast<int>(std::floor(2 * std::log2(counts[i]) + 1e-9));
          EXPECT_EQ(chart.density[i], expected) << i << ": " << counts[i];
        }
        ASSERT_EQ(chart.failures.size(), failed.size());
        for (const FailureColumns& failures : chart.failures) {
          EXPECT_EQ(failures.counts, failed[failures.outcome]);
          int64_t all = 0;
          for (const uint32_t count : failures.counts) all += count;
          EXPECT_EQ(failures.count, all);
        }
        EXPECT_GE(chart.failures[0].count, chart.failures[1].count);
        ASSERT_EQ(chart.best.size(), steps.size());
        for (size_t i = 0; i < steps.size(); ++i) EXPECT_EQ(chart.best[i].ordinal, steps[i]);
        EXPECT_EQ(chart.best.back().ns, fastest);
        ASSERT_EQ(chart.points.size(), times.size());
        for (size_t i = 0; i < times.size(); ++i) {
          EXPECT_EQ(chart.points[i].ns, times[i]);
          EXPECT_EQ(chart.points[i].x, x_of(selected.Measured()[i]));
        }
      }
    }
  }
}

TEST(StudyChart, ManyStepsAndManyPointsAreBounded) {
  StudyColumns columns;
  for (int64_t i = 0; i < 6000; ++i)
    ASSERT_TRUE(AddTrial(&columns, i, Config({{"A", 1}}), 1e6 - static_cast<double>(i)).ok());
  columns.Settle();
  const StudyChart chart = ChartOf(Selection(columns), {});
  EXPECT_EQ(chart.best.size(), kChartStepsMax);
  EXPECT_EQ(chart.best.front().ordinal, 0);
  EXPECT_EQ(chart.best.back().ordinal, 5999);
  EXPECT_TRUE(chart.points.empty());
}

TEST(StudyChart, WithoutATimeThereAreFailuresAlone) {
  StudyColumns columns;
  columns.Settle();
  EXPECT_EQ(ChartOf(Selection(columns), {}).rows, 0u);
  ASSERT_TRUE(AddTrial(&columns, 0, Config({{"A", 1}}), 0).ok());
  columns.Settle();
  const StudyChart chart = ChartOf(Selection(columns), {});
  EXPECT_EQ(chart.rows, 0u);
  EXPECT_EQ(chart.density, "");
  ASSERT_EQ(chart.failures.size(), 1u);
  EXPECT_EQ(chart.failures[0].counts.back(), 1u);
  EXPECT_TRUE(chart.best.empty());
}

void CompareGrid(int64_t count) {
  std::vector<PlainTrial> trials = RandomTrials(5, count);
  const StudyColumns columns = ColumnsOf(trials);
  SortByEnd(&trials);
  TrialConditions conditions;
  conditions.evaluation = Range{20, static_cast<double>(count - 20)};
  const Selection selected(columns, conditions);
  std::map<std::pair<int64_t, int64_t>, std::vector<PlainTrial>> cells;  // by B, then A
  for (const uint32_t at : PositionsOf(selected)) cells[{trials[at].b, trials[at].a}].push_back(trials[at]);
  const std::vector<GridCell> grid = GridOf(selected, 0, 1);
  ASSERT_EQ(grid.size(), cells.size());
  size_t at = 0;
  for (const auto& [place, in_cell] : cells) {
    const GridCell& cell = grid[at++];
    EXPECT_EQ(columns.values(1)[cell.row], Value(place.first));
    EXPECT_EQ(columns.values(0)[cell.column], Value(place.second));
    std::vector<double> times;
    const PlainTrial* example = &in_cell[0];
    for (const PlainTrial& trial : in_cell) {
      if (trial.ns == 0) continue;
      times.push_back(trial.ns);
      if (example->ns == 0 || trial.ns < example->ns) example = &trial;
    }
    EXPECT_EQ(cell.example_ordinal, example->ordinal);
    EXPECT_EQ(cell.effect.measured, static_cast<int64_t>(times.size()));
    EXPECT_EQ(cell.effect.failed, static_cast<int64_t>(in_cell.size() - times.size()));
    EXPECT_EQ(cell.effect.best_ns, example->ns);
    std::sort(times.begin(), times.end());
    times.resize((times.size() + 9) / 10);
    EXPECT_EQ(cell.effect.good_ns, times.empty() ? 0 : PlainMedian(times));
  }
}

TEST(ParameterGrid, HasEachPairOfValues) {
  for (const int64_t count : {60, 300, 20'000}) CompareGrid(count);
}

}  // namespace
}  // namespace tunefarm
