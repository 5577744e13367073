#include "server/jobs/finals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace tunefarm {
namespace {

// A finalist with one sample for each round.
FinalTrial Finalist(const std::string& config, int64_t ordinal, std::vector<double> rounds,
                    v1::Outcome outcome = v1::OUTCOME_OK) {
  FinalTrial trial;
  trial.config = config;
  trial.trial.set_ordinal(ordinal);
  trial.trial.set_outcome(outcome);
  for (const double round : rounds) trial.trial.mutable_measurement()->add_sample_ns(static_cast<float>(round));
  std::sort(rounds.begin(), rounds.end());
  trial.trial.mutable_measurement()->set_median_ns(rounds[rounds.size() / 2]);
  return trial;
}

using Kind = FinalDecision::Kind;

TEST(Leaderboard, KeepsTheFastestAndOfOneMeasurementTheFirst) {
  const auto entry = [](double median_ns, int64_t ordinal, const std::string& measured_as) {
    Leaderboard::Entry made;
    made.median_ns = median_ns;
    made.ordinal = ordinal;
    made.config = "c" + std::to_string(ordinal);
    made.measured_as = measured_as;
    return made;
  };
  // Whatever the order in which results arrive.
  for (const bool is_reversed : {false, true}) {
    std::vector<Leaderboard::Entry> entries = {entry(5, 1, "x"), entry(4, 2, "y"), entry(4, 3, "y"), entry(6, 4, ""),
                                               entry(6, 5, ""),  entry(5, 6, "x"), entry(9, 7, "z")};
    if (is_reversed) std::reverse(entries.begin(), entries.end());
    Leaderboard board(4);
    for (const Leaderboard::Entry& each : entries) board.Add(each);
    std::vector<std::string> configs;
    for (const Leaderboard::Entry& each : board.Best(10, {})) configs.push_back(each.config);
    EXPECT_EQ(configs, (std::vector<std::string>{"c2", "c1", "c4", "c5"}));
  }
}

TEST(Finals, RatiosWithinRoundsCancelDrift) {
  // Each round is a quarter slower than the one before, and a is 2 % faster in each; its last round was lost to a
  // pause.
  const std::vector<FinalTrial> trials = {Finalist("a", 2, {98, 122.5, 153.1, 191.4, 239.2}),
                                          Finalist("b", 1, {100, 125, 156.3, 195.3, 244.1})};
  const FinalDecision decision = Decide(trials, "b", 5);
  EXPECT_EQ(decision.kind, Kind::kPromote);
  EXPECT_EQ(decision.winner->config, "a");
  EXPECT_NEAR(decision.ratio, 0.98, 0.001);
  EXPECT_LT(decision.ratio_high, 0.99);
}

TEST(Finals, NeighboursTellApartWhatMediansCannot) {
  // b was measured under a lower clock, which its neighbours show: its medians are larger, and it is 2 % faster.
  FinalTrial a = Finalist("a", 1, {1000, 1003, 998, 1001, 1002}), b = Finalist("b", 2, {1078, 1080, 1076, 1079, 1081});
  for (const float time : {2000, 2006, 1996, 2002, 2004}) a.trial.mutable_measurement()->add_yardstick_ns(time);
  for (const float time : {2200, 2204, 2196, 2202, 2206}) b.trial.mutable_measurement()->add_yardstick_ns(time);
  const std::vector<FinalTrial> trials = {a, b};
  const FinalDecision decision = Decide(trials, "a", 5);
  EXPECT_EQ(decision.kind, Kind::kPromote);
  EXPECT_EQ(decision.winner->config, "b");
  EXPECT_NEAR(decision.ratio, 0.98, 0.001);
}

TEST(Finals, AnIncumbentStaysUnlessBeatenByMoreThanTheMarginBeyondNoise) {
  const std::vector<FinalTrial> close = {Finalist("new", 2, {99.5, 99.4, 99.6, 99.5, 99.5}),
                                         Finalist("old", 1, {100, 100, 100, 100, 100})};
  const FinalDecision kept = Decide(close, "old", 5);
  EXPECT_EQ(kept.kind, Kind::kRefresh);
  EXPECT_EQ(kept.winner->config, "old");
  EXPECT_NEAR(kept.ratio, 0.995, 0.001) << "what the fastest did reach";
  const std::vector<FinalTrial> noisy = {Finalist("new", 2, {95, 90, 104, 99, 93}),
                                         Finalist("old", 1, {100, 100, 100, 100, 100})};
  EXPECT_EQ(Decide(noisy, "old", 5).kind, Kind::kRefresh);
  const std::vector<FinalTrial> clear = {Finalist("new", 2, {95, 95.2, 95.1, 94.9, 95}),
                                         Finalist("old", 1, {100, 100, 100, 100, 100})};
  EXPECT_EQ(Decide(clear, "old", 5).kind, Kind::kPromote);
}

TEST(Finals, WithoutAnIncumbentTheSmallestMedianIsKept) {
  // b has the smaller ratio within rounds, but its interval contains 1.
  const std::vector<FinalTrial> trials = {Finalist("a", 1, {100, 101, 150}), Finalist("b", 2, {99, 103, 120}),
                                          Finalist("c", 3, {90, 90, 90}, v1::OUTCOME_WRONG_RESULT)};
  const FinalDecision decision = Decide(trials, "", 3);
  EXPECT_EQ(decision.kind, Kind::kPromote);
  EXPECT_EQ(decision.winner->config, "a");
  EXPECT_EQ(decision.ratio, 1);
}

// Sixteen rounds, nine of them fast. a is 5 % faster in each but one, whose disturbance makes its median a slow one.
std::vector<FinalTrial> AheadRoundByRound() {
  std::vector<double> a, b;
  for (int round = 0; round < 16; ++round) {
    b.push_back((round < 9 ? 100 : 200) + round);
    a.push_back(round == 4 ? 230 : 0.95 * b.back());
  }
  return {Finalist("a", 1, a), Finalist("b", 2, b)};
}

TEST(Finals, WhatIsAheadRoundByRoundBeyondNoiseIsKeptBeforeTheSmallestMedian) {
  const std::vector<FinalTrial> trials = AheadRoundByRound();
  ASSERT_GT(trials[0].trial.measurement().median_ns(), trials[1].trial.measurement().median_ns());
  const FinalDecision decision = Decide(trials, "", 16);
  EXPECT_EQ(decision.winner->config, "a");
  EXPECT_NEAR(decision.ratio, 0.95, 0.001);
  EXPECT_LT(decision.ratio_high, 1);
}

TEST(Finals, OfThoseThatBeatTheIncumbentTheSameRuleDecides) {
  std::vector<FinalTrial> trials = AheadRoundByRound();
  trials.push_back(Finalist("old", 3, std::vector<double>(16, 1000)));
  const FinalDecision decision = Decide(trials, "old", 16);
  EXPECT_EQ(decision.kind, Kind::kPromote);
  EXPECT_EQ(decision.winner->config, "a");
  EXPECT_LT(decision.ratio_high, 0.3) << "to the incumbent";
  // Two that cannot be told apart: the smaller median, although the other one has the smaller ratio.
  const std::vector<FinalTrial> close = {Finalist("new", 1, {100, 101, 150}), Finalist("newer", 2, {99, 103, 120}),
                                         Finalist("old", 3, {1000, 1010, 1020})};
  EXPECT_EQ(Decide(close, "old", 3).winner->config, "new");
}

TEST(Finals, OneRoundProvesNothingAgainstAnIncumbent) {
  const std::vector<FinalTrial> trials = {Finalist("new", 2, {50, 50, 50, 50}),
                                          Finalist("old", 1, {100, 100, 100, 100})};
  EXPECT_EQ(Decide(trials, "old", 1).kind, Kind::kRefresh);
  EXPECT_EQ(Decide(trials, "old", 4).kind, Kind::kPromote);
  EXPECT_EQ(Decide(trials, "", 1).winner->config, "new");
}

TEST(Finals, TimesFarBelowTheRooflineAreHardToBelieve) {
  FinalTrial trial = Finalist("a", 1, {100});
  trial.trial.mutable_measurement()->set_cold_cache(true);
  EXPECT_FALSE(IsImplausible(trial.trial, 0)) << "unknown";
  EXPECT_FALSE(IsImplausible(trial.trial, 200));
  EXPECT_TRUE(IsImplausible(trial.trial, 201));
  trial.trial.mutable_measurement()->set_cold_cache(false);
  EXPECT_FALSE(IsImplausible(trial.trial, 201)) << "what lies in a cache is not fetched";
}

TEST(Finals, NobodyWinsWhereNobodyIsOk) {
  const std::vector<FinalTrial> wrong = {Finalist("a", 1, {1, 1, 1}, v1::OUTCOME_WRONG_RESULT)}, none;
  EXPECT_EQ(Decide(wrong, "a", 3).kind, Kind::kNone);
  EXPECT_EQ(Decide(none, "", 3).kind, Kind::kNone);
}

// A finalist with a time that is known to 1 % and an energy with this interval to either side.
FinalTrial WithEnergy(const std::string& config, int64_t ordinal, double ns, double millijoules, double half_width) {
  FinalTrial trial = Finalist(config, ordinal, std::vector<double>(5, ns));
  v1::Measurement* const m = trial.trial.mutable_measurement();
  m->set_ci_low_ns(0.99 * ns);
  m->set_ci_high_ns(1.01 * ns);
  m->mutable_energy()->set_millijoules(millijoules);
  m->mutable_energy()->set_ci_low_millijoules(millijoules - half_width);
  m->mutable_energy()->set_ci_high_millijoules(millijoules + half_width);
  return trial;
}

TEST(Finals, ByEnergyTheLeastIsKeptAndComparedWithTheFastest) {
  const std::vector<FinalTrial> trials = {WithEnergy("fast", 1, 100, 20, 0.1), WithEnergy("lean", 2, 130, 12, 0.1),
                                          WithEnergy("wrong", 3, 90, 1, 0.1), WithEnergy("", 4, 10, 1, 0.1)};
  std::vector<FinalTrial> finalists = trials;
  finalists[2].trial.set_outcome(v1::OUTCOME_WRONG_RESULT);
  const FinalDecision decision = Decide(finalists, "", 5, v1::OBJECTIVE_ENERGY);
  EXPECT_EQ(decision.kind, Kind::kPromote);
  EXPECT_EQ(decision.winner->config, "lean");
  EXPECT_EQ(decision.objective, v1::OBJECTIVE_ENERGY);
  EXPECT_EQ(decision.without_energy, nullptr);
  const AgainstFastest against = CompareWithFastest(finalists, decision);
  ASSERT_NE(against.fastest, nullptr);
  EXPECT_EQ(against.fastest->config, "fast");
  EXPECT_NEAR(against.ratio, 0.6, 1e-9);
  EXPECT_NEAR(against.ratio_low, 11.9 / 20.1, 1e-9);
  EXPECT_NEAR(against.ratio_high, 12.1 / 19.9, 1e-9);
  const FinalDecision by_time = Decide(finalists, "", 5);
  EXPECT_EQ(by_time.winner->config, "fast");
  EXPECT_EQ(CompareWithFastest(finalists, by_time).fastest, nullptr);
}

TEST(Finals, TheProductOfEnergyAndTimeMayChooseAThird) {
  const std::vector<FinalTrial> trials = {WithEnergy("fast", 1, 100, 20, 0.1), WithEnergy("between", 2, 110, 15, 0.1),
                                          WithEnergy("lean", 3, 150, 12, 0.1)};
  EXPECT_EQ(Decide(trials, "", 5, v1::OBJECTIVE_TIME).winner->config, "fast");
  EXPECT_EQ(Decide(trials, "", 5, v1::OBJECTIVE_ENERGY).winner->config, "lean");
  const FinalDecision decision = Decide(trials, "", 5, v1::OBJECTIVE_ENERGY_DELAY);
  EXPECT_EQ(decision.winner->config, "between");
  EXPECT_NEAR(CompareWithFastest(trials, decision).ratio, 15 * 110 / (20 * 100.0), 1e-9);
}

TEST(Finals, WhatHasAnIncumbentIsPromotedByEnergyOnlyIfTheIntervalsAreDisjoint) {
  const std::vector<FinalTrial> apart = {WithEnergy("new", 2, 100, 9, 0.1), WithEnergy("old", 1, 100, 10, 0.1)};
  EXPECT_EQ(Decide(apart, "old", 5, v1::OBJECTIVE_ENERGY).kind, Kind::kPromote);
  const std::vector<FinalTrial> overlapping = {WithEnergy("new", 2, 100, 9, 0.8), WithEnergy("old", 1, 100, 10, 0.5)};
  const FinalDecision kept = Decide(overlapping, "old", 5, v1::OBJECTIVE_ENERGY);
  EXPECT_EQ(kept.kind, Kind::kRefresh);
  EXPECT_NEAR(kept.ratio, 0.9, 1e-9);
}

TEST(Finals, WithoutTheEnergyOfAFinalistTimeDecides) {
  std::vector<FinalTrial> trials = {WithEnergy("fast", 1, 100, 20, 0.1), WithEnergy("lean", 2, 130, 12, 0.1)};
  trials[1].trial.mutable_measurement()->clear_energy();
  const FinalDecision decision = Decide(trials, "", 5, v1::OBJECTIVE_ENERGY);
  EXPECT_EQ(decision.winner->config, "fast");
  EXPECT_EQ(decision.objective, v1::OBJECTIVE_TIME);
  ASSERT_NE(decision.without_energy, nullptr);
  EXPECT_EQ(decision.without_energy->config, "lean");
  // What failed needs none.
  trials[1].trial.set_outcome(v1::OUTCOME_WRONG_RESULT);
  EXPECT_EQ(Decide(trials, "", 5, v1::OBJECTIVE_ENERGY).without_energy, nullptr);
}

}  // namespace
}  // namespace tunefarm
