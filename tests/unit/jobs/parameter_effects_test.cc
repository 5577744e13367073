#include "server/jobs/parameter_effects.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/random.h"

namespace tunefarm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Config PairOf(int64_t a, int64_t b) {
  Config config;
  config.Set("A", Value(a));
  config.Set("B", Value(b));
  return config;
}

tunefarm::v1::Trial Working(uint64_t work) {
  tunefarm::v1::Trial trial;
  trial.set_outcome(tunefarm::v1::OUTCOME_OK);
  trial.set_work(work);
  return trial;
}

tunefarm::v1::Trial Failing(const std::string& message,
                            tunefarm::v1::Outcome outcome = tunefarm::v1::OUTCOME_COMPILE_ERROR) {
  tunefarm::v1::Trial trial;
  trial.set_outcome(outcome);
  trial.set_message(message);
  return trial;
}

TEST(ParameterEffectsTest, NamesParametersThatNeverChangeTheWork) {
  ParameterEffects effects({"A", "B"});
  effects.Add(PairOf(1, 1), Working(11));
  EXPECT_THAT(effects.WithoutEffect(), IsEmpty());
  effects.Add(PairOf(2, 2), Working(12));
  EXPECT_THAT(effects.WithoutEffect(), IsEmpty()) << "two parameters differ";
  effects.Add(PairOf(1, 2), Working(11));
  EXPECT_THAT(effects.WithoutEffect(), ElementsAre("B"));
  effects.Add(PairOf(2, 1), Working(12));
  EXPECT_THAT(effects.WithoutEffect(), ElementsAre("B"));
  effects.Add(PairOf(2, 3), Working(13));
  EXPECT_THAT(effects.WithoutEffect(), IsEmpty());
  effects.Add(PairOf(1, 3), Working(13));
  EXPECT_THAT(effects.WithoutEffect(), IsEmpty()) << "one effect is enough";
}

TEST(ParameterEffectsTest, WhatIsNotKnownSaysNothing) {
  ParameterEffects effects({"A", "B"});
  effects.Add(PairOf(1, 1), Working(0));
  effects.Add(PairOf(1, 2), Working(0));
  effects.Add(PairOf(1, 2), Failing("x"));
  EXPECT_THAT(effects.WithoutEffect(), IsEmpty());
  // The same config again is no other value.
  effects.Add(PairOf(1, 1), Working(5));
  effects.Add(PairOf(1, 1), Working(5));
  EXPECT_THAT(effects.WithoutEffect(), IsEmpty());
}

TEST(ParameterEffectsTest, ManyTrialsAreBounded) {
  ParameterEffects effects({"A", "B"});
  for (int64_t i = 0; i < static_cast<int64_t>(ParameterEffects::kTrialsMax); ++i)
    effects.Add(PairOf(i, 1), Working(7));
  effects.Add(PairOf(-1, 1), Working(8));
  EXPECT_THAT(effects.WithoutEffect(), ElementsAre("A"));
}

TEST(ParameterEffectsTest, ErrorsThatAreAlikeEndASearchWhenEverythingWasVaried) {
  ParameterEffects effects({"A", "B"});
  for (int64_t i = 0; i < 2 * ParameterEffects::kAlikeMax; ++i) effects.Add(PairOf(i, 1), Failing("k.cc:1: error: x"));
  EXPECT_EQ(effects.none_compiles(), "") << "another B may compile";
  effects.Add(PairOf(1, 2), Failing("k.cc:1: error: x\nmore"));
  EXPECT_EQ(effects.none_compiles(), "") << "another message";

  ParameterEffects again({"A", "B"});
  for (int64_t i = 0; i < ParameterEffects::kAlikeMax; ++i) {
    EXPECT_EQ(again.none_compiles(), "");
    again.Add(PairOf(i, i % 2), Failing("k.cc:1: error: x"));
    again.Add(PairOf(i, i), Failing("", tunefarm::v1::OUTCOME_LOST));
  }
  EXPECT_EQ(again.none_compiles(), "the first 24 configs fail to compile alike: k.cc:1: error: x");
}

TEST(ParameterEffectsTest, OneOtherOutcomeKeepsTheSearchGoing) {
  for (const auto& other : {Failing("another"), Failing("x", tunefarm::v1::OUTCOME_COMPILE_TIMEOUT), Working(1)}) {
    ParameterEffects effects({"A"});
    effects.Add(PairOf(0, 0), Failing("x"));
    effects.Add(PairOf(1, 0), other);
    for (int64_t i = 2; i < 100; ++i) effects.Add(PairOf(i, 0), Failing("x"));
    EXPECT_EQ(effects.none_compiles(), "");
  }
}

TEST(ParameterEffectsTest, WhatIsNotNeededChangesNothing) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    PhiloxStream random(seed);
    ParameterEffects all({"A", "B"});
    ParameterEffects needed({"A", "B"});
    int left_out = 0;
    for (int i = 0; i < 200; ++i) {
      const Config config =
          PairOf(static_cast<int64_t>(random.UniformInt(3)), static_cast<int64_t>(random.UniformInt(3)));
      // In half of the runs all fail to compile at first, in most alike.
      const bool fails = seed % 2 == 0 && i < 100;
      const tunefarm::v1::Trial trial =
          fails ? Failing(random.UniformInt(200) == 0 ? "y" : "x") : Working(random.UniformInt(4));
      all.Add(config, trial);
      if (needed.Needs(trial)) {
        needed.Add(config, trial);
      } else {
        ++left_out;
      }
      ASSERT_EQ(needed.WithoutEffect(), all.WithoutEffect());
      ASSERT_EQ(needed.none_compiles(), all.none_compiles());
    }
    EXPECT_GT(left_out, 0);
  }
}

}  // namespace
}  // namespace tunefarm
