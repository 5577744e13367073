#include "server/search/simulation.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "server/base/status.h"
#include "tests/unit/search/sample_spaces.h"

namespace tunefarm {
namespace {

// 100 configs x = 0..99 that take 1000 + 10 x ns, and every tenth one (x = 5, 15, ...) fails; each costs 2 s, failures
// 1 s.
Recording Line() {
  std::vector<RecordedTrial> trials;
  for (int x = 0; x < 100; ++x) {
    const bool fails = x % 10 == 5;
    trials.push_back(
        {{{"x", x}},
         {fails ? ToldOutcome::kFailed : ToldOutcome::kOk, fails ? 0.0 : 1000.0 + 10 * x, fails ? 1.0 : 2.0}});
  }
  auto recording = Recording::Make("line", trials);
  EXPECT_TRUE(recording.ok()) << recording.status();
  return *std::move(recording);
}

TEST(ScoreBasis, FollowsTheMethodology) {
  const Recording recording = Line();
  const ScoreBasis basis(recording);
  EXPECT_EQ(basis.optimum(), 1000);
  // 90 valid values; the middle two are those of x = 49 and x = 50.
  EXPECT_EQ(basis.median(), 1495);
  EXPECT_DOUBLE_EQ(basis.target(), 1000 + 495 * 0.05);
  // From worst to best the first value of at most 1024.75 is that of x = 2, at index 87: 87 / (91 - 87) = 21.75.
  EXPECT_EQ(basis.budget_evaluations(), 22u);
  EXPECT_EQ(basis.budget_seconds(), 44);
  // One evaluation: index round(1 * 91 / 2) = 46 (halves to even), from the worst.
  EXPECT_EQ(basis.BaselineAfter(1), 1480);
  EXPECT_EQ(basis.BaselineAfter(1'000'000), 1000);
  // The mean cost is 2 s and a tenth of 1 s: 21 s are 10 evaluations.
  EXPECT_EQ(basis.BaselineAt(21), basis.BaselineAfter(10));
  EXPECT_EQ(basis.BaselineAt(0), basis.BaselineAfter(1));
  EXPECT_EQ(basis.Performance(1400, 1000), 1);
  EXPECT_EQ(basis.Performance(1400, 1400), 0);
  EXPECT_EQ(basis.Performance(1400, 1600), -0.5);
  EXPECT_EQ(basis.Performance(1000, 1000), 0);
}

TEST(Simulate, ExhaustiveGoesThroughTheRowsAndTimeAddsUp) {
  const Recording recording = Line();
  auto strategy = *MakeStrategy("exhaustive", {}, recording.space(), 1);
  SimulationOptions options;
  options.evaluations = 1000;
  const SimulatedRun run = *Simulate(recording, options, strategy.get());
  ASSERT_EQ(run.size(), 100u);
  for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(run[i].row, i);
  EXPECT_EQ(run[0].ended_at_seconds, 2);
  EXPECT_EQ(run[5].ended_at_seconds, 11);
  EXPECT_EQ(run[99].ended_at_seconds, 190);
}

TEST(Simulate, SeveralInFlightEndInTheOrderOfTheirTime) {
  const Recording recording = Line();
  auto strategy = *MakeStrategy("exhaustive", {}, recording.space(), 1);
  SimulationOptions options;
  options.in_flight = 4;
  options.evaluations = 1000;
  const SimulatedRun run = *Simulate(recording, options, strategy.get());
  ASSERT_EQ(run.size(), 100u);
  std::set<uint64_t> rows;
  for (size_t i = 0; i < run.size(); ++i) {
    rows.insert(run[i].row);
    EXPECT_GE(run[i].ended_at_seconds, run[i == 0 ? 0 : i - 1].ended_at_seconds);
  }
  EXPECT_EQ(rows.size(), 100u);
  // Rows 4..7 start at 2 s; 5 fails at 3 s, before the others.
  EXPECT_EQ(run[4].row, 5u);
  EXPECT_LE(run.back().ended_at_seconds, 190 / 4.0 + 2);
}

TEST(Simulate, EndsWhenBothBudgetsAreReached) {
  const Recording recording = Line();
  auto strategy = *MakeStrategy("exhaustive", {}, recording.space(), 1);
  SimulationOptions options;
  options.evaluations = 3;
  options.seconds = 10.5;
  EXPECT_EQ(Simulate(recording, options, strategy.get())->size(), 6u);
}

TEST(Score, OptimumAtOnceIsOneAndNothingIsTheMedian) {
  const Recording recording = Line();
  const ScoreBasis basis(recording);
  const SimulatedRun at_once = {{0, 2}};
  const std::vector<SimulatedRun> best(3, at_once);
  Score score = ScoreOverEvaluations(recording, basis, best);
  EXPECT_NEAR(score.mean, 1, 1e-12);
  EXPECT_NEAR(score.deviation, 0, 1e-12);
  EXPECT_EQ(score.share_at_target, 1);
  EXPECT_EQ(score.curve.size(), 22u);
  EXPECT_NEAR(ScoreOverTime(recording, basis, best).mean, 1, 1e-12);
  // What fails teaches nothing: x = 5.
  const std::vector<SimulatedRun> worst(2, SimulatedRun{{5, 1}});
  score = ScoreOverEvaluations(recording, basis, worst);
  EXPECT_LT(score.mean, 0);
  EXPECT_EQ(score.curve.front().best_mean, 1500) << "the value behind the median";
  EXPECT_EQ(score.share_at_target, 0);
}

TEST(Score, AveragesPlacesAndBesidesTimes) {
  const Recording recording = Line();
  const ScoreBasis basis(recording);
  EXPECT_EQ(basis.PlaceOf(1000), 0);
  EXPECT_EQ(basis.PlaceOf(1060), 5) << "x = 5 is no valid result";
  EXPECT_EQ(basis.ValueAtPlace(0), 1000);
  EXPECT_EQ(basis.ValueAtPlace(5.4), 1060);
  EXPECT_EQ(basis.ValueAtPlace(1e9), 1990);
  const std::vector<SimulatedRun> runs = {{{0, 2}}, {{50, 2}, {0, 30}}};
  const Score score = ScoreOverTime(recording, basis, runs, 50);
  ASSERT_EQ(score.runs.size(), 2u);
  EXPECT_NEAR(score.mean_of_times, (score.runs[0] + score.runs[1]) / 2, 1e-12);
  EXPECT_EQ(score.curve.front().best_mean, basis.ValueAtPlace(45.0 / 2)) << "x = 50 is behind 45 others";
  EXPECT_GT(score.deviation, 0);
  double performance = 0;
  for (const ScoreCurvePoint& point : score.curve) performance += point.performance / 50;
  EXPECT_NEAR(performance, score.mean, 1e-12);
}

TEST(Recording, RefusesWhatCannotBeReplayed) {
  const auto message = [](const std::vector<RecordedTrial>& trials) -> std::string {
    const auto made = Recording::Make("r", trials);
    EXPECT_TRUE(absl::IsInvalidArgument(made.status()));
    return std::string(MessageOf(made.status()));
  };
  const RecordedTrial good = {{{"x", 1}}, {ToldOutcome::kOk, 5, 1}};
  EXPECT_EQ(message({}), "the recording r is empty");
  EXPECT_EQ(message({{{{"x", 1}}, {ToldOutcome::kFailed, 0, 1}}}), "nothing in the recording r is a valid result");
  EXPECT_EQ(message({good, good}), "the config x=1 is recorded twice");
  EXPECT_EQ(message({good, {{{"y", 1}}, {ToldOutcome::kOk, 5, 1}}}),
            "the recorded config y=1 has not the parameters of the first one, x=1");
  EXPECT_EQ(message({good, {{{"x", 2}}, {ToldOutcome::kOk, -5, 1}}}),
            "the recorded config x=2 has an objective of -5 ns");
  EXPECT_EQ(message({good, {{{"x", 2}}, {ToldOutcome::kOk, 5, -1}}}), "the recorded config x=2 has a cost of -1 s");
}

double MeanScore(const Recording& recording, std::string_view strategy, int repeats, const Priors& priors = {}) {
  const ScoreBasis basis(recording);
  SimulationOptions options;
  options.evaluations = basis.budget_evaluations();
  std::vector<SimulatedRun> runs;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    auto made = MakeStrategy(strategy, {}, recording.space(), static_cast<uint64_t>(repeat) + 1, priors);
    EXPECT_TRUE(made.ok()) << made.status();
    runs.push_back(*Simulate(recording, options, made->get()));
  }
  return ScoreOverEvaluations(recording, basis, runs).mean;
}

// Seeds are fixed, so these are the same numbers everywhere; the bounds leave room for what changes on purpose.
TEST(Regression, StrategiesFindTheBestEarlyOnASmallRecording) {
  const Recording recording = SampleRecording();
  const std::map<std::string, double> least = {{"random", -0.15}, {"genetic", 0.4}, {"annealing", 0.3}, {"local", 0.3},
                                               {"pack", 0.4},     {"bayes", 0.55},  {"default", 0.55}};
  for (const auto& [strategy, bound] : least) {
    const double score = MeanScore(recording, strategy, 6);
    fmt::print("{}: {:.3f}\n", strategy, score);
    EXPECT_GE(score, bound) << strategy;
    EXPECT_LE(score, strategy == "random" ? 0.15 : 1.0) << strategy;
  }
}

TEST(Regression, ASimilarDevicesResultsHelpAndMisleadingOnesHurtLittle) {
  const Recording recording = SampleRecording();
  const SearchSpace& rows = *recording.space();
  PriorSource similar, opposite;
  for (uint64_t row = 0; row < rows.size(); ++row) {
    const Config config = rows.space().MakeConfig(rows.Row(row));
    const RecordedResult& result = recording.results()[row];
    const bool ok = result.outcome == ToldOutcome::kOk;
    const double rough = 1 + 0.02 * static_cast<double>(config.Hash() % 5);
    similar.results.push_back({config, result.outcome, ok ? 7 * rough * result.objective_ns : 0});
    opposite.results.push_back({config, ToldOutcome::kOk, ok ? 1e6 / result.objective_ns : 1});
  }
  const double cold = MeanScore(recording, kDefaultStrategy, 4);
  const double warm = MeanScore(recording, kDefaultStrategy, 4, {similar});
  const double misled = MeanScore(recording, kDefaultStrategy, 4, {opposite});
  fmt::print("cold {:.3f}, warm {:.3f}, misled {:.3f}\n", cold, warm, misled);
  EXPECT_GE(warm, 0.9);
  EXPECT_GE(warm, cold);
  EXPECT_GE(misled, cold - 0.35);
}

}  // namespace
}  // namespace tunefarm
