// How much the cost model knows of kernels that were measured: three tables over recorded results.
//
// Usage: cost_check [--repeats N] [--strategy NAMES] LIST
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/cost/cost_guide.h"
#include "server/search/simulation.h"
#include "tests/bench/cost/data_set.h"

namespace tunefarm {
namespace {

constexpr double kFactors[] = {1.1, 1.25, 1.5, 2, 3, 4};
constexpr double kNear = 1.05;

// The valid results of a set beside what is predicted of them.
struct Predicted {
  std::vector<double> measured;
  std::vector<CostPrediction> predictions;
  std::vector<uint32_t> rows;  // of the recording
  std::vector<PriorSource> source;
  double least = 0;  // over the whole space, measured or not
  size_t unpredicted = 0;
};

absl::StatusOr<Predicted> PredictAll(const DataSet& set) {
  ASSIGN_OR_RETURN(const Space space, set.plan->BuildSpace(set.problem, set.device));
  ASSIGN_OR_RETURN(const auto model, CostModel::Make(set.plan, set.problem, set.device, space));
  v1::CostModel options;
  options.set_mode(v1::COST_MODEL_MODE_RANK);
  ASSIGN_OR_RETURN(const CostGuide guide, MakeCostGuide(options, "default", set.plan, set.problem, set.device, space));
  ASSIGN_OR_RETURN(const CostSurvey survey, SurveyCosts(space, *model));
  Predicted all;
  all.source = guide.source;
  all.least = survey.least;
  CostModel::Scratch scratch = model->MakeScratch();
  const SearchSpace& recorded = *set.recording.space();
  for (uint32_t row = 0; row < recorded.size(); ++row) {
    const RecordedResult& result = set.recording.results()[row];
    if (result.outcome != ToldOutcome::kOk) continue;
    ASSIGN_OR_RETURN(const auto point, space.IndicesOf(recorded.space().MakeConfig(recorded.Row(row))));
    const auto prediction = model->Predict(point, &scratch);
    if (!prediction.has_value()) {
      ++all.unpredicted;
      continue;
    }
    all.measured.push_back(result.objective_ns);
    all.predictions.push_back(*prediction);
    all.rows.push_back(row);
  }
  return all;
}

// Places from 0; equal values share their mean place.
std::vector<double> Places(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> places(values.size());
  for (size_t i = 0; i < order.size();) {
    size_t end = i;
    while (end < order.size() && values[order[end]] == values[order[i]]) ++end;
    for (size_t k = i; k < end; ++k) places[order[k]] = static_cast<double>(i + end - 1) / 2;
    i = end;
  }
  return places;
}

// Spearman's correlation of ranks; NaN where one of them says nothing.
double Spearman(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> x = Places(a), y = Places(b);
  const double mean = static_cast<double>(x.size() - 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : std::nan("");
}

std::string CorrelationText(double value) { return std::isnan(value) ? "same" : fmt::format("{:+.2f}", value); }

void PrintCorrelations(const std::vector<DataSet>& sets, const std::vector<Predicted>& all) {
  const std::pair<std::string_view, std::function<double(const CostPrediction&)>> parts[] = {
      {"occupancy", [](const CostPrediction& p) { return 1 / p.largest.occupancy.share; }},
      {"lanes", [](const CostPrediction& p) { return 1 / p.largest.lanes; }},
      {"tiles", [](const CostPrediction& p) { return 1 / p.largest.tiles; }},
      {"hiding", [](const CostPrediction& p) { return 1 / p.largest.hiding; }},
      {"waves", [](const CostPrediction& p) { return 1 / p.largest.waves_share; }},
      {"floor", [](const CostPrediction& p) { return p.floor_ns; }},
      {"whole", [](const CostPrediction& p) { return p.time; }},
  };
  fmt::print(
      "Spearman's correlation of the measured time with what each part predicts (same: alike for all configs)\n");
  fmt::print("{:<22} {:>7} {:>7}", "data set", "configs", "med/min");
  for (const auto& [name, part] : parts) fmt::print(" {:>9}", name);
  fmt::print("  the best's place by prediction\n");
  for (size_t i = 0; i < sets.size(); ++i) {
    const Predicted& set = all[i];
    std::vector<double> sorted = set.measured;
    std::sort(sorted.begin(), sorted.end());
    fmt::print("{:<22} {:>7} {:>7.2f}", sets[i].name, set.measured.size(), sorted[sorted.size() / 2] / sorted[0]);
    for (const auto& [name, part] : parts) {
      std::vector<double> predicted;
      for (const CostPrediction& prediction : set.predictions) predicted.push_back(part(prediction));
      fmt::print(" {:>9}", CorrelationText(Spearman(predicted, set.measured)));
    }
    const auto best =
        static_cast<size_t>(std::min_element(set.measured.begin(), set.measured.end()) - set.measured.begin());
    size_t before = 0, alike = 0;
    for (const CostPrediction& prediction : set.predictions) {
      before += prediction.time < set.predictions[best].time ? 1 : 0;
      alike += prediction.time == set.predictions[best].time ? 1 : 0;
    }
    fmt::print("  {} to {}; {:.2f} x the least\n", before + 1, before + alike, set.predictions[best].time / set.least);
  }
}

void PrintPruning(const std::vector<DataSet>& sets, const std::vector<Predicted>& all) {
  fmt::print(
      "\nWhat pruning by a factor removes, and the best of what is left over the true best (* the best is left)\n");
  fmt::print("{:<22}", "data set");
  for (const double factor : kFactors) fmt::print(" {:>15}", fmt::format("factor {}", factor));
  fmt::print("\n");
  for (size_t i = 0; i < sets.size(); ++i) {
    const Predicted& set = all[i];
    const double best = *std::min_element(set.measured.begin(), set.measured.end());
    fmt::print("{:<22}", sets[i].name);
    for (const double factor : kFactors) {
      double left_best = HUGE_VAL;
      size_t left = 0;
      for (size_t k = 0; k < set.measured.size(); ++k) {
        if (set.predictions[k].time > factor * set.least) continue;
        ++left;
        left_best = std::min(left_best, set.measured[k]);
      }
      const double removed = 100 - 100 * static_cast<double>(left) / static_cast<double>(set.measured.size());
      const std::string_view mark = left_best <= best ? "*" : left_best <= kNear * best ? " " : "!";
      fmt::print(" {:>15}", fmt::format("{:.1f} % {:.3f}{}", removed, left_best / best, mark));
    }
    fmt::print("\n");
  }
  fmt::print("(! nothing within 5 % of the best is left)\n");
}

absl::StatusOr<Score> ScoreOf(const Recording& recording, const std::shared_ptr<const SearchSpace>& space,
                              const std::string& strategy, const Priors& priors, int repeats) {
  const ScoreBasis basis(recording);
  SimulationOptions simulation;
  simulation.evaluations = basis.budget_evaluations();
  std::vector<SimulatedRun> runs;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    ASSIGN_OR_RETURN(const auto made, MakeStrategy(strategy, {}, space, 1 + static_cast<uint64_t>(repeat), priors));
    ASSIGN_OR_RETURN(SimulatedRun run, Simulate(recording, simulation, made.get()));
    runs.push_back(std::move(run));
  }
  return ScoreOverEvaluations(recording, basis, runs);
}

absl::Status PrintScores(const std::vector<DataSet>& sets, const std::vector<Predicted>& all,
                         const std::vector<std::string>& strategies, int repeats) {
  fmt::print("\nScore over evaluations, mean and deviation of {} runs: off, rank, prune by {}\n", repeats,
             kPruneFactorDefault);
  fmt::print("{:<22} {:<12} {:>7} {:>16} {:>16} {:>16}\n", "data set", "strategy", "budget", "off", "rank", "prune");
  for (size_t i = 0; i < sets.size(); ++i) {
    const Recording& recording = sets[i].recording;
    std::vector<bool> is_pruned(recording.results().size(), false);
    for (size_t k = 0; k < all[i].rows.size(); ++k) {
      if (all[i].predictions[k].time > kPruneFactorDefault * all[i].least) is_pruned[all[i].rows[k]] = true;
    }
    std::vector<Point> rows;
    for (uint64_t row = 0; row < is_pruned.size(); ++row) {
      const auto point = recording.space()->Row(row);
      if (!is_pruned[row]) rows.emplace_back(point.begin(), point.end());
    }
    ASSIGN_OR_RETURN(const auto left, SearchSpace::MakeOfRows(recording.space()->space(), std::move(rows)));
    for (const std::string& strategy : strategies) {
      fmt::print("{:<22} {:<12} {:>7}", sets[i].name, strategy, ScoreBasis(recording).budget_evaluations());
      const std::tuple<std::shared_ptr<const SearchSpace>, Priors> ways[] = {
          {recording.space(), {}}, {recording.space(), all[i].source}, {left, {}}};
      for (const auto& [space, priors] : ways) {
        ASSIGN_OR_RETURN(const Score score, ScoreOf(recording, space, strategy, priors, repeats));
        fmt::print(" {:>16}", fmt::format("{:+.3f} ± {:.3f}", score.mean, score.deviation));
        std::fflush(stdout);
      }
      fmt::print("\n");
    }
  }
  return absl::OkStatus();
}

absl::Status Run(const std::string& list, const std::vector<std::string>& strategies, int repeats) {
  ASSIGN_OR_RETURN(const std::vector<DataSet> sets, ReadDataSets(list));
  std::vector<Predicted> all;
  for (const DataSet& set : sets) {
    auto predicted = PredictAll(set);
    if (!predicted.ok()) return Annotate(predicted.status(), "{}", set.name);
    if (predicted->unpredicted > 0) fmt::print("{}: {} results have no prediction\n", set.name, predicted->unpredicted);
    all.push_back(*std::move(predicted));
  }
  PrintCorrelations(sets, all);
  PrintPruning(sets, all);
  return repeats > 0 ? PrintScores(sets, all, strategies, repeats) : absl::OkStatus();
}

}  // namespace
}  // namespace tunefarm

int main(int argc, char** argv) {
  std::string list;
  std::vector<std::string> strategies = {"default"};
  int repeats = 20;
  CLI::App app("Compares the cost model's predictions with recorded results.");
  app.add_option("LIST", list, "A list of data sets, as data_sets.txt.")->required();
  app.add_option("--strategy", strategies, "Strategies that are scored.");
  app.add_option("--repeats", repeats, "Runs of each, with seeds from 1 on; 0: no scores.")
      ->check(CLI::Range(0, 10000));
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = tunefarm::Run(list, strategies, repeats);
  if (status.ok()) return 0;
  fmt::print(stderr, "cost_check: {}\n", tunefarm::MessageOf(status));
  return 1;
}
