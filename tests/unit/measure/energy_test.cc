#include "server/measure/energy.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tunefarm {
namespace {

// A batch of 2 s at this power.
EnergyBatch Batch(double watts, double sequence_seconds, double seconds = 2) {
  return {.millijoules = watts * 1000 * seconds, .seconds = seconds, .sequence_seconds = sequence_seconds};
}

TEST(Energy, IsThePowerOfABatchTimesTheTimeOfASequence) {
  EnergyReadings readings;
  // 500 W for 20 µs are 10 mJ.
  readings.launches = {Batch(500, 20e-6), Batch(510, 20e-6, 2.5), Batch(490, 20e-6, 2.1)};
  readings.idle_millijoules = 80'500;
  readings.idle_seconds = 1.15;
  const v1::Energy energy = EnergyOf(readings);
  EXPECT_EQ(energy.missing_because(), "");
  EXPECT_NEAR(energy.millijoules(), 10, 1e-9);
  // The standard deviation is 0.2 mJ; t(2, 97.5 %) is 4.3027.
  EXPECT_NEAR(energy.ci_high_millijoules() - energy.millijoules(), 4.3027 * 0.2 / std::sqrt(3.0), 1e-4);
  EXPECT_NEAR(energy.ci_high_millijoules() + energy.ci_low_millijoules(), 20, 1e-9);
  EXPECT_EQ(energy.batches(), 3);
  EXPECT_DOUBLE_EQ(energy.batch_seconds(), 2);
  // By time: the longer batch counts for more.
  EXPECT_NEAR(energy.power_watts(), (500 * 2 + 510 * 2.5 + 490 * 2.1) / 6.6, 1e-9);
  EXPECT_NEAR(energy.idle_power_watts(), 70, 1e-9);
}

TEST(Energy, WhatComesBeforeIsSubtractedByCountAndNotByTime) {
  EnergyReadings readings;
  // A flush of 60 µs at 400 W, 24 mJ, and a launch of 20 µs at 500 W, 10 mJ: 425 W over both.
  for (const double drift : {0.0, 1.0, 2.0}) {
    readings.launches.push_back(Batch(425, 80e-6));
    readings.before.push_back(Batch(400, 60e-6));
    // What drifts is in both neighbours.
    readings.launches.back().millijoules += drift * 2 / 80e-6;
    readings.before.back().millijoules += drift * 2 / 60e-6;
  }
  const v1::Energy energy = EnergyOf(readings);
  EXPECT_NEAR(energy.millijoules(), 10, 1e-9);
  EXPECT_NEAR(energy.ci_low_millijoules(), 10, 1e-6);
  EXPECT_NEAR(energy.ci_high_millijoules(), 10, 1e-6);
  EXPECT_GT(energy.power_watts(), 425) << "of all that ran, as it drifted";
  EXPECT_EQ(energy.idle_power_watts(), 0) << "not read";
}

TEST(Energy, TheShortestBatchIsReportedWhicheverKindItIs) {
  EnergyReadings readings;
  readings.launches = {Batch(500, 20e-6, 2.3), Batch(500, 20e-6, 2.2)};
  readings.before = {Batch(100, 10e-6, 2.05), Batch(100, 10e-6, 2.4)};
  EXPECT_DOUBLE_EQ(EnergyOf(readings).batch_seconds(), 2.05);
}

TEST(Energy, NeverBelowNothingWhereBatchesScatter) {
  EnergyReadings readings;
  readings.launches = {Batch(500, 20e-6), Batch(100, 20e-6)};
  const v1::Energy energy = EnergyOf(readings);
  EXPECT_NEAR(energy.millijoules(), 6, 1e-9);
  EXPECT_EQ(energy.ci_low_millijoules(), 0);
  EXPECT_GT(energy.ci_high_millijoules(), 50);
}

TEST(Energy, SaysWhyThereIsNone) {
  EXPECT_NE(EnergyOf({}).missing_because(), "");
  EnergyReadings one;
  one.launches = {Batch(500, 20e-6)};
  EXPECT_NE(EnergyOf(one).missing_because(), "") << "no interval";
  EnergyReadings cheaper;
  cheaper.launches = {Batch(400, 60e-6), Batch(400, 60e-6)};
  cheaper.before = {Batch(401, 60e-6), Batch(400, 60e-6)};
  const v1::Energy none = EnergyOf(cheaper);
  EXPECT_NE(none.missing_because(), "");
  EXPECT_EQ(none.millijoules(), 0);
  EXPECT_GT(none.power_watts(), 0) << "context all the same";
  EnergyReadings unpaired;
  unpaired.launches = {Batch(500, 20e-6), Batch(500, 20e-6)};
  unpaired.before = {Batch(100, 10e-6)};
  EXPECT_NE(EnergyOf(unpaired).missing_because(), "");
}

}  // namespace
}  // namespace tunefarm
