// Scores strategies on recorded results: a table with one line per strategy and recording.
//
// Usage: search_score [--strategy NAMES] [--strategy-option NAME=VALUE]... [--repeats N] [--in-flight N] [--warm FILE
// [--warm-results N]]
//                     [--csv FILE] RECORDING...
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <sstream>

#include "server/base/random.h"
#include "server/base/status.h"
#include "server/search/simulation.h"
#include "server/search/strategy.h"
#include "tests/bench/search/recording_file.h"

namespace tunefarm {
namespace {

// Takes the processor time of each call. What it does else is its strategy's business.
class TimedStrategy final : public Strategy {
 public:
  TimedStrategy(Strategy* strategy, std::vector<double>* seconds) : strategy_(strategy), seconds_(seconds) {}
  std::string_view name() const override { return strategy_->name(); }
  int version() const override { return strategy_->version(); }
  bool Exhausted() const override { return strategy_->Exhausted(); }
  std::optional<uint64_t> Total() const override { return strategy_->Total(); }
  absl::Status MarkProposed(const Config& config) override { return strategy_->MarkProposed(config); }
  absl::StatusOr<std::vector<Config>> Ask(int n) override {
    const double start = Now();
    auto configs = strategy_->Ask(n);
    seconds_->push_back(Now() - start + told_);
    told_ = 0;
    return configs;
  }
  void Tell(const Told& told) override {
    const double start = Now();
    strategy_->Tell(told);
    told_ += Now() - start;
  }

 private:
  static double Now() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

  Strategy* const strategy_;
  std::vector<double>* const seconds_;
  double told_ = 0;
};

struct Arguments {
  std::string strategies = std::string(kDefaultStrategy);
  std::vector<std::string> options;
  std::vector<std::string> recordings;
  std::string warm, csv;
  int repeats = 50;
  size_t warm_results = 1'000'000'000;
  int in_flight = 1;
  uint64_t seed = 1;
};

double Middle(std::vector<double>* values) {
  if (values->empty()) return 0;
  std::sort(values->begin(), values->end());
  return (*values)[values->size() / 2];
}

absl::Status ScoreOne(const Arguments& arguments, const std::string& strategy, const Recording& recording,
                      const Priors& priors, std::ofstream* csv, std::vector<double>* means) {
  StrategyOptions options;
  for (const std::string& option : arguments.options) {
    const size_t equals = option.find('=');
    if (equals == std::string::npos) return InvalidArgument("--strategy-option {} is not NAME=VALUE", option);
    options[option.substr(0, equals)] = option.substr(equals + 1);
  }
  const ScoreBasis basis(recording);
  SimulationOptions simulation;
  simulation.in_flight = arguments.in_flight;
  simulation.evaluations = basis.budget_evaluations();
  simulation.seconds = basis.budget_seconds();
  std::vector<SimulatedRun> runs;
  std::vector<double> seconds;
  for (int repeat = 0; repeat < arguments.repeats; ++repeat) {
    auto made =
        MakeStrategy(strategy, options, recording.space(), arguments.seed + static_cast<uint64_t>(repeat), priors);
    if (!made.ok()) return made.status();
    TimedStrategy timed(made->get(), &seconds);
    auto run = Simulate(recording, simulation, &timed);
    if (!run.ok()) return run.status();
    runs.push_back(*std::move(run));
  }
  const Score evaluations = ScoreOverEvaluations(recording, basis, runs);
  const Score time = ScoreOverTime(recording, basis, runs);
  double total = 0;
  for (const double one : seconds) total += one;
  const double mean_ms = total / static_cast<double>(std::max<size_t>(1, seconds.size())) * 1e3;
  fmt::print("{:<12} {:<32} {:>6} {:>7} {:>7.3f} {:>7.3f} {:>7.3f} {:>7.3f} {:>6.3f} {:>6.0f}% {:>9.3f} {:>9.3f}\n",
             strategy, recording.name(), recording.results().size(), basis.budget_evaluations(), evaluations.mean,
             time.mean, evaluations.mean_of_times, time.mean_of_times, time.deviation,
             100 * evaluations.share_at_target, Middle(&seconds) * 1e3, mean_ms);
  std::fflush(stdout);
  (*means)[0] += evaluations.mean;
  (*means)[1] += time.mean;
  (*means)[2] += evaluations.mean_of_times;
  (*means)[3] += time.mean_of_times;
  (*means)[4] = std::min((*means)[4], std::min(evaluations.mean, time.mean));
  if (!csv->is_open()) return absl::OkStatus();
  for (const ScoreCurvePoint& point : evaluations.curve) {
    *csv << fmt::format("{},{},{},{},{},{},{},{}\n", strategy, recording.name(), point.at, point.baseline,
                        point.best_mean, point.performance, point.performance_low, point.performance_high);
  }
  return absl::OkStatus();
}

absl::Status Run(const Arguments& arguments) {
  Priors priors;
  if (!arguments.warm.empty()) {
    auto trials = ReadRecordedTrials(arguments.warm);
    if (!trials.ok()) return trials.status();
    // A random part of them, always the same one.
    PhiloxStream random(1);
    for (size_t i = trials->size(); i > 1; --i) std::swap((*trials)[i - 1], (*trials)[random.UniformInt(i)]);
    trials->resize(std::min(trials->size(), arguments.warm_results));
    PriorSource source;
    for (const RecordedTrial& trial : *trials) {
      source.results.push_back({trial.config, trial.result.outcome, trial.result.objective_ns});
    }
    priors.push_back(std::move(source));
  }
  std::vector<Recording> recordings;
  for (const std::string& path : arguments.recordings) {
    auto recording = ReadRecording(path);
    if (!recording.ok()) return recording.status();
    recordings.push_back(*std::move(recording));
  }
  std::ofstream csv;
  if (!arguments.csv.empty()) {
    csv.open(arguments.csv);
    csv << "strategy,recording,evaluations,baseline_ns,best_ns,performance,low,high\n";
  }
  // "evals" and "time" by the methodology; "evals~" and "time~" with the mean time of the runs' best as F.
  fmt::print("{:<12} {:<32} {:>6} {:>7} {:>7} {:>7} {:>7} {:>7} {:>6} {:>7} {:>9} {:>9}\n", "strategy", "recording",
             "size", "budget", "evals", "time", "evals~", "time~", "±", "target", "median ms", "mean ms");
  std::stringstream names(arguments.strategies);
  for (std::string strategy; std::getline(names, strategy, ',');) {
    std::vector<double> means = {0, 0, 0, 0, 1};
    for (const Recording& recording : recordings) {
      const absl::Status status = ScoreOne(arguments, strategy, recording, priors, &csv, &means);
      if (!status.ok()) return status;
    }
    const auto count = static_cast<double>(recordings.size());
    fmt::print("{:<12} {:<32} {:>6} {:>7} {:>7.3f} {:>7.3f} {:>7.3f} {:>7.3f}   least {:.3f}\n", strategy, "mean", "",
               "", means[0] / count, means[1] / count, means[2] / count, means[3] / count, means[4]);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace tunefarm

int main(int argc, char** argv) {
  tunefarm::Arguments arguments;
  CLI::App app("Scores search strategies on recorded results (T4 or Kernel Tuner cache files, also gzipped).");
  app.add_option("--strategy", arguments.strategies, "Strategies, with commas between them.");
  app.add_option("--strategy-option", arguments.options, "An option of the strategies, NAME=VALUE.");
  app.add_option("--repeats", arguments.repeats, "Runs of each, with seeds from --seed on.")
      ->check(CLI::Range(1, 10000));
  app.add_option("--seed", arguments.seed, "Seed of the first run.");
  app.add_option("--in-flight", arguments.in_flight, "Evaluations at once.")->check(CLI::Range(1, 10000));
  app.add_option("--warm", arguments.warm,
                 "Results that the strategies are told at the start, of another device or problem.");
  app.add_option("--warm-results", arguments.warm_results, "How many of them, at random (default: all).");
  app.add_option("--csv", arguments.csv, "Writes the curves over evaluations here.");
  app.add_option("recordings", arguments.recordings, "Files of recorded results.")->required();
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = tunefarm::Run(arguments);
  if (status.ok()) return 0;
  fmt::print(stderr, "search_score: {}\n", tunefarm::MessageOf(status));
  return 1;
}
