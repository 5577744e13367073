#include "server/search/simulation.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <tuple>

#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

struct Running {
  double ends_at = 0;
  uint64_t ordinal = 0;
  uint64_t row = 0;
  friend bool operator>(const Running& a, const Running& b) {
    return std::tie(a.ends_at, a.ordinal) > std::tie(b.ends_at, b.ordinal);
  }
};

double MedianOf(std::vector<double> values) {
  const size_t half = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(half), values.end());
  if (values.size() % 2 == 1) return values[half];
  return (values[half] + *std::max_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(half))) / 2;
}

double MeanOf(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

// best[run][point] to the score.
Score Summarize(const ScoreBasis& basis, const std::vector<std::vector<double>>& best,
                std::vector<ScoreCurvePoint> curve) {
  Score score;
  score.runs.assign(best.size(), 0);
  std::vector<double> performances(best.size());
  for (size_t point = 0; point < curve.size(); ++point) {
    ScoreCurvePoint& at = curve[point];
    double place = 0;
    for (size_t run = 0; run < best.size(); ++run) {
      performances[run] = basis.Performance(at.baseline, best[run][point]);
      score.runs[run] += performances[run] / static_cast<double>(curve.size());
      place += basis.PlaceOf(best[run][point]) / static_cast<double>(best.size());
    }
    at.best_mean = basis.ValueAtPlace(place);
    at.performance = basis.Performance(at.baseline, at.best_mean);
    score.mean += at.performance / static_cast<double>(curve.size());
    std::sort(performances.begin(), performances.end());
    at.performance_low = performances[performances.size() / 10];
    at.performance_high = performances[performances.size() - 1 - performances.size() / 10];
  }
  score.mean_of_times = MeanOf(score.runs);
  double squares = 0;
  for (const double run : score.runs) squares += (run - score.mean_of_times) * (run - score.mean_of_times);
  if (best.size() > 1) score.deviation = std::sqrt(squares / static_cast<double>(best.size() - 1));
  for (const std::vector<double>& run : best) {
    if (run.back() <= basis.target()) score.share_at_target += 1.0 / static_cast<double>(best.size());
  }
  score.curve = std::move(curve);
  return score;
}

// The best so far of each run at each point: `is_within(trial index, trial, at)` says what has ended by then.
Score ScoreAlong(const Recording& recording, const ScoreBasis& basis, std::span<const SimulatedRun> runs,
                 std::vector<ScoreCurvePoint> curve,
                 const std::function<bool(size_t, const SimulatedTrial&, double)>& is_within) {
  if (runs.empty() || curve.empty()) return {};
  std::vector<std::vector<double>> best;
  for (const SimulatedRun& run : runs) {
    std::vector<double> values;
    double least = basis.median();
    bool any = false;
    size_t next = 0;
    for (const ScoreCurvePoint& point : curve) {
      for (; next < run.size() && is_within(next, run[next], point.at); ++next) {
        const RecordedResult& result = recording.results()[run[next].row];
        if (result.outcome != ToldOutcome::kOk) continue;
        least = any ? std::min(least, result.objective_ns) : result.objective_ns;
        any = true;
      }
      values.push_back(least);
    }
    best.push_back(std::move(values));
  }
  return Summarize(basis, best, std::move(curve));
}

}  // namespace

absl::StatusOr<SimulatedRun> Simulate(const Recording& recording, const SimulationOptions& options,
                                      Strategy* strategy) {
  const SearchSpace& space = *recording.space();
  SimulatedRun run;
  std::priority_queue<Running, std::vector<Running>, std::greater<>> running;
  double now = 0;
  uint64_t ordinal = 0;
  while (true) {
    while (static_cast<int>(running.size()) < options.in_flight && !strategy->Exhausted()) {
      ASSIGN_OR_RETURN(const std::vector<Config> configs, strategy->Ask(1));
      if (configs.empty()) break;
      ASSIGN_OR_RETURN(const Point point, space.space().IndicesOf(configs.front()));
      const uint64_t row = space.FindRow(point);
      if (row == space.size())
        return Internal("{} proposed {}, which is not recorded", strategy->name(), configs.front().ToText());
      running.push({now + recording.results()[row].cost_seconds, ordinal++, row});
    }
    if (running.empty()) return run;
    const Running ended = running.top();
    running.pop();
    now = ended.ends_at;
    run.push_back({ended.row, now});
    if (run.size() >= options.evaluations && now >= options.seconds) return run;
    const auto row = space.Row(ended.row);
    const RecordedResult& result = recording.results()[ended.row];
    strategy->Tell({ended.ordinal, space.space().MakeConfig(row), result.outcome, result.objective_ns});
  }
}

ScoreBasis::ScoreBasis(const Recording& recording, double cutoff) {
  std::vector<double> costs, failed_costs;
  for (const RecordedResult& result : recording.results()) {
    const bool ok = result.outcome == ToldOutcome::kOk;
    (ok ? costs : failed_costs).push_back(result.cost_seconds);
    if (ok) worst_first_.push_back(result.objective_ns);
  }
  std::sort(worst_first_.begin(), worst_first_.end(), std::greater<>());
  median_ = MedianOf(worst_first_);
  median_cost_ = MedianOf(costs);
  const double failed_share =
      static_cast<double>(failed_costs.size()) / static_cast<double>(recording.results().size());
  mean_cost_ = MeanOf(costs) + failed_share * MeanOf(failed_costs);
  target_ = optimum() + (median_ - optimum()) * (1 - cutoff);
  const auto reached = std::find_if(worst_first_.begin(), worst_first_.end(), [&](double v) { return v <= target_; });
  const auto index = static_cast<double>(reached - worst_first_.begin());
  const auto count = static_cast<double>(worst_first_.size());
  budget_evaluations_ = std::max<uint64_t>(1, static_cast<uint64_t>(std::ceil(index / (count + 1 - index))));
}

double ScoreBasis::BaselineAfter(uint64_t evaluations) const {
  const auto m = static_cast<double>(evaluations);
  const auto n = static_cast<double>(worst_first_.size());
  const double index = std::min(n - 1, std::nearbyint(m * (n + 1) / (m + 1)));
  return worst_first_[static_cast<size_t>(index)];
}

double ScoreBasis::BaselineAt(double seconds) const {
  const double evaluations = mean_cost_ > 0 ? seconds / mean_cost_ : 1;
  return BaselineAfter(static_cast<uint64_t>(std::max(1.0, std::nearbyint(evaluations))));
}

double ScoreBasis::Performance(double baseline, double value) const {
  const double range = baseline - optimum();
  return range > 0 ? (baseline - value) / range : 0;
}

double ScoreBasis::PlaceOf(double value) const {
  const auto better = std::upper_bound(worst_first_.begin(), worst_first_.end(), value, std::greater<>());
  return static_cast<double>(worst_first_.end() - better);
}

double ScoreBasis::ValueAtPlace(double place) const {
  const auto last = static_cast<double>(worst_first_.size() - 1);
  return worst_first_[static_cast<size_t>(last - std::clamp(std::nearbyint(place), 0.0, last))];
}

Score ScoreOverEvaluations(const Recording& recording, const ScoreBasis& basis, std::span<const SimulatedRun> runs) {
  std::vector<ScoreCurvePoint> curve;
  for (uint64_t i = 1; i <= basis.budget_evaluations(); ++i) {
    ScoreCurvePoint point;
    point.at = static_cast<double>(i);
    point.baseline = basis.BaselineAfter(i);
    curve.push_back(point);
  }
  return ScoreAlong(recording, basis, runs, std::move(curve),
                    [](size_t index, const SimulatedTrial&, double at) { return static_cast<double>(index) < at; });
}

Score ScoreOverTime(const Recording& recording, const ScoreBasis& basis, std::span<const SimulatedRun> runs,
                    int points) {
  std::vector<ScoreCurvePoint> curve;
  const double start = basis.median_cost_seconds(), end = basis.budget_seconds();
  for (int i = 0; i < points; ++i) {
    ScoreCurvePoint point;
    point.at = start + (end - start) * i / (points - 1);
    point.baseline = basis.BaselineAt(point.at);
    curve.push_back(point);
  }
  return ScoreAlong(recording, basis, runs, std::move(curve),
                    [](size_t, const SimulatedTrial& trial, double at) { return trial.ended_at_seconds <= at; });
}

}  // namespace tunefarm
