#include "server/agent/compile_forecast.h"

#include <limits>

#include "gtest/gtest.h"

namespace tunefarm {
namespace {

Config Of(int64_t unroll, int64_t stages) {
  Config config;
  config.Set("UNROLL", Value(unroll));
  config.Set("STAGES", Value(stages));
  return config;
}

TEST(CompileForecast, KnowsNothingAtFirstAndThenTheMean) {
  CompileForecast forecast;
  EXPECT_EQ(forecast.ExpectMs(Of(1, 1)), 0);
  forecast.Note(Of(1, 1), 100);
  forecast.Note(Of(2, 1), 400);
  EXPECT_NEAR(forecast.ExpectMs(Of(4, 4)), 200, 1e-6) << "the geometric mean, for values never seen";
}

TEST(CompileForecast, FindsTheParametersThatMatter) {
  // UNROLL doubles the time with every step; STAGES does nothing.
  CompileForecast forecast;
  for (int round = 0; round < 4; ++round) {
    for (int64_t unroll : {1, 2, 4, 8}) {
      for (int64_t stages : {1, 2}) forecast.Note(Of(unroll, stages), 100 * static_cast<double>(unroll));
    }
  }
  double before = 0;
  for (int64_t unroll : {1, 2, 4, 8}) {
    const double expected = forecast.ExpectMs(Of(unroll, 1));
    EXPECT_NEAR(expected, forecast.ExpectMs(Of(unroll, 2)), 1e-6 * expected);
    EXPECT_NEAR(expected / (100 * static_cast<double>(unroll)), 1, 0.35) << unroll;
    EXPECT_GT(expected, 1.4 * before);
    before = expected;
  }
}

TEST(CompileForecast, WhatIsNoTimeIsIgnored) {
  CompileForecast forecast;
  forecast.Note(Of(1, 1), 0);
  forecast.Note(Of(1, 1), -1);
  forecast.Note(Of(1, 1), std::numeric_limits<double>::quiet_NaN());
  forecast.Note(Of(1, 1), std::numeric_limits<double>::infinity());
  EXPECT_EQ(forecast.ExpectMs(Of(1, 1)), 0);
}

TEST(CompileForecast, IsBounded) {
  CompileForecast forecast;
  for (int64_t i = 0; i < 3 * static_cast<int64_t>(CompileForecast::kFactorsMax); ++i) forecast.Note(Of(i, i), 100);
  EXPECT_NEAR(forecast.ExpectMs(Of(1, 1'000'000)), 100, 1e-6);
}

}  // namespace
}  // namespace tunefarm
