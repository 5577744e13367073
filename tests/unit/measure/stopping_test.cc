#include "server/measure/stopping.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tunefarm {
namespace {

TEST(SampleStopper, SteadySamplesConvergeAtTheMinimum) {
  SampleStopper stopper({});
  for (int i = 0; i < 9; ++i) {
    stopper.Add(100, 110);
    EXPECT_EQ(stopper.decision(), StopDecision::kContinue);
  }
  stopper.Add(100, 110);
  EXPECT_EQ(stopper.decision(), StopDecision::kConverged);
}

TEST(SampleStopper, NoisySamplesSpendTheSampleBudget) {
  SampleStopper stopper({.samples_min = 10, .samples_max = 40});
  int taken = 0;
  while (stopper.decision() == StopDecision::kContinue) {
    stopper.Add(taken % 2 == 0 ? 100 : 150, 0);
    ++taken;
  }
  EXPECT_EQ(taken, 40);
  EXPECT_EQ(stopper.decision(), StopDecision::kBudgetSpent);
}

TEST(SampleStopper, TimeBudgetCountsTheCostOfASample) {
  SampleStopper stopper({.samples_min = 10, .samples_max = 1000, .budget_ns = 1e6});
  for (int i = 0; i < 3; ++i) stopper.Add(100, 4e5);
  EXPECT_EQ(stopper.decision(), StopDecision::kBudgetSpent);
}

TEST(SampleStopper, FewSamplesNeverConverge) {
  // Equal samples, but fewer than any 95 % interval needs.
  SampleStopper stopper({.samples_min = 3, .samples_max = 5});
  for (int i = 0; i < 5; ++i) stopper.Add(100, 0);
  EXPECT_EQ(stopper.decision(), StopDecision::kBudgetSpent);
}

TEST(SampleStopper, WhatMayWinMustBeKnownTwiceAsWell) {
  // ±0.8 % around 100: enough for the rest, not for a contender.
  const auto samples_taken = [](double limit) {
    SampleStopper stopper({.samples_min = 10, .samples_max = 64, .race_limit_ns = limit});
    int taken = 0;
    while (stopper.decision() == StopDecision::kContinue) stopper.Add(100 + 0.8 * (taken++ % 3 - 1), 0);
    EXPECT_NE(stopper.decision(), StopDecision::kLosing);
    return taken;
  };
  EXPECT_EQ(samples_taken(0), 10);
  EXPECT_EQ(samples_taken(98.5), 10) << "just behind the limit, within the margin of the race";
  EXPECT_GT(samples_taken(100), 10);
}

TEST(SampleStopper, ALosingConfigIsLeftAtTheFirstLook) {
  SampleStopper stopper({.samples_min = 10, .race_limit_ns = 50, .first_look_samples = 4});
  EXPECT_EQ(stopper.until_look(), 4u);
  for (int i = 0; i < 3; ++i) stopper.Add(100, 0);
  EXPECT_EQ(stopper.until_look(), 1u);
  EXPECT_EQ(stopper.decision(), StopDecision::kContinue);
  stopper.Add(100, 0);
  EXPECT_EQ(stopper.decision(), StopDecision::kLosing);
}

TEST(SampleStopper, DiscardedSamplesSpendTheBudget) {
  SampleStopper stopper({.samples_min = 10, .budget_ns = 1e6});
  stopper.Add(100, 1000);
  stopper.AddDiscarded(9e5);
  EXPECT_EQ(stopper.samples().size(), 1u);
  EXPECT_NEAR(stopper.budget_left_ns(), 99'000, 1);
  stopper.AddDiscarded(1e5);
  stopper.Add(100, 1000);
  EXPECT_EQ(stopper.decision(), StopDecision::kBudgetSpent);
}

TEST(SampleStopper, DecisionIsFinal) {
  SampleStopper stopper({});
  for (int i = 0; i < 10; ++i) stopper.Add(100, 0);
  ASSERT_EQ(stopper.decision(), StopDecision::kConverged);
  for (int i = 0; i < 2000; ++i) stopper.Add(i, 1e9);
  EXPECT_EQ(stopper.decision(), StopDecision::kConverged);
  EXPECT_EQ(stopper.samples().size(), 2010u);
}

TEST(SampleStopper, OptionsOutOfRangeAreBroughtInto) {
  SampleStopper stopper({.samples_min = 0, .samples_max = 0});
  stopper.Add(1, 1);
  EXPECT_EQ(stopper.decision(), StopDecision::kBudgetSpent);
}

}  // namespace
}  // namespace tunefarm
