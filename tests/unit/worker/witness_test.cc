// When a time that a kernel claims is contradicted, on a machine that disturbs launches.

#include "server/worker/verify/witness.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "server/base/random.h"
#include "tests/fakes/fake_clock.h"

namespace tunefarm {
namespace {

constexpr double kSlackNs = 50e3;
constexpr double kOverheadNs = 12e3;

Failure Crash(const char* message) { return {v1::OUTCOME_RUN_CRASH, message}; }

// A kernel of `true_ns` on a machine that disturbs launches with the probability `disturbed`, by an exponentially
// distributed time. Threads may wait for a processor for 10 to 30 ms, except in launches that measure the overhead.
struct Machine {
  double true_ns = 0;
  double disturbed = 0;
  double disturbance_ns = 0;
  bool first_waits = false, others_wait = false;
  double others_share = 0;  // of the work: what threads beside the first do, while the first sleeps
  double again_ns = 0;      // what samples taken again say; 0: they fail
  int launches = 0;
  PhiloxStream random{1};

  WitnessCalls Calls() {
    WitnessCalls calls;
    calls.launch = [this](WitnessedTime* time) -> Failure {
      ++launches;
      time->busy_ns = true_ns * (1 + 0.02 * random.NextDouble());
      time->others_busy_ns = others_share * time->busy_ns;
      time->waited_ns = first_waits ? Wait() : 0;
      time->wall_ns = time->busy_ns + time->waited_ns + (others_wait ? Wait() : 0) + kOverheadNs;
      if (random.NextDouble() < disturbed) time->wall_ns -= disturbance_ns * std::log(1 - random.NextDouble());
      return {};
    };
    calls.overhead = [](double, double* ns) -> Failure {
      *ns = kOverheadNs;
      return {};
    };
    calls.sample_again = [this](double* median_ns) {
      *median_ns = again_ns;
      return again_ns > 0 ? Failure() : Crash("no samples again");
    };
    return calls;
  }

  double Wait() { return 10e6 + 20e6 * random.NextDouble(); }
};

TEST(WitnessTest, OnlyMuchLongerLaunchesContradict) {
  EXPECT_FALSE(IsContradicted(1e6, 1e6, kSlackNs));
  EXPECT_FALSE(IsContradicted(1e6, 0.5e6, kSlackNs)) << "slower than witnessed is nothing to gain";
  EXPECT_FALSE(IsContradicted(0.93e6, 1e6, kSlackNs));
  EXPECT_TRUE(IsContradicted(0.91e6, 1e6, kSlackNs));
  EXPECT_FALSE(IsContradicted(1e3, 50e3, kSlackNs)) << "what only a first launch pays";
  EXPECT_TRUE(IsContradicted(1e3, 52e3, kSlackNs));
}

TEST(WitnessTest, OnlyWhatMayWinIsWitnessed) {
  EXPECT_TRUE(MayWin(100, 0)) << "nothing to lose against";
  EXPECT_TRUE(MayWin(90, 100));
  EXPECT_TRUE(MayWin(100, 100));
  EXPECT_FALSE(MayWin(101, 100));
}

TEST(WitnessTest, AnHonestTimeStandsOnABusyMachine) {
  // Of four launches three wait for a processor, for 4 ms on average.
  int sampled_again = 0;
  for (uint64_t seed = 1; seed <= 10'000; ++seed) {
    Machine machine;
    machine.true_ns = std::pow(10.0, 3 + static_cast<double>(seed % 5));
    machine.disturbed = 0.75;
    machine.disturbance_ns = 4e6;
    machine.random = PhiloxStream(seed);
    machine.again_ns = machine.true_ns;
    WitnessCalls calls = machine.Calls();
    const auto again = calls.sample_again;
    calls.sample_again = [&](double* median_ns) {
      ++sampled_again;
      return again(median_ns);
    };
    FakeClock clock;
    const WitnessVerdict verdict = HearWitnesses(machine.true_ns, kSlackNs, clock, calls);
    ASSERT_FALSE(verdict.failure) << verdict.failure.message;
    EXPECT_FALSE(verdict.contradicted) << "seed " << seed;
  }
  EXPECT_LT(sampled_again, 100);
}

TEST(WitnessTest, AnHonestTimeStandsWhereEveryLaunchWaitsForAProcessor) {
  for (uint64_t seed = 1; seed <= 1'000; ++seed) {
    Machine machine;
    machine.true_ns = machine.again_ns = std::pow(10.0, 3 + static_cast<double>(seed % 6));
    machine.first_waits = true;
    machine.random = PhiloxStream(seed);
    FakeClock clock;
    const WitnessVerdict verdict = HearWitnesses(machine.true_ns, kSlackNs, clock, machine.Calls());
    EXPECT_FALSE(verdict.contradicted || verdict.unsettled) << "seed " << seed;
    EXPECT_EQ(verdict.launches, WitnessesOf(machine.true_ns)) << "seed " << seed;
  }
}

TEST(WitnessTest, AFalseTimeIsContradictedWhereEveryLaunchWaits) {
  Machine machine;
  machine.true_ns = 1e6;
  machine.again_ns = 246;
  machine.first_waits = true;
  FakeClock clock;
  const WitnessVerdict verdict = HearWitnesses(246, kSlackNs, clock, machine.Calls());
  EXPECT_TRUE(verdict.contradicted);
  EXPECT_NEAR(verdict.witnessed_ns, 1e6, 0.05e6);
}

TEST(WitnessTest, WaitsOfOtherThreadsLeaveItUndecided) {
  Machine machine;
  machine.true_ns = machine.again_ns = 1e6;
  machine.others_share = 0.5;
  machine.others_wait = true;
  FakeClock clock;
  EXPECT_TRUE(HearWitnesses(1e6, kSlackNs, clock, machine.Calls()).contradicted) << "nothing shows that they waited";
  machine.first_waits = true;
  const WitnessVerdict verdict = HearWitnesses(1e6, kSlackNs, clock, machine.Calls());
  EXPECT_TRUE(verdict.unsettled);
  EXPECT_FALSE(verdict.contradicted || verdict.failure);
}

TEST(WitnessTest, WhatThreadsComputeCountsWhateverWaits) {
  EXPECT_EQ(NeededNs({.wall_ns = 5e6, .waited_ns = 4e6, .busy_ns = 0.9e6}, 0), 1e6);
  EXPECT_EQ(NeededNs({.wall_ns = 5e6, .waited_ns = 0, .busy_ns = 0.9e6}, 0), 5e6) << "it slept";
  EXPECT_EQ(NeededNs({.wall_ns = 5e6, .waited_ns = 5e6, .busy_ns = 4.9e6, .others_busy_ns = 4.9e6}, 0), 4.9e6)
      << "its own thread worked while the first waited";
  EXPECT_EQ(NeededNs({.wall_ns = 5e6, .waited_ns = 1e6, .busy_ns = 19e6, .others_busy_ns = 15e6}, 0), 5e6)
      << "never more than by the clock";
  EXPECT_EQ(NeededNs({.wall_ns = 5e6}, 1e6), 4e6) << "only the clock is known";
}

TEST(WitnessTest, SamplesOfAFasterTimeAreTakenAgain) {
  // The clock was a fifth higher while samples were taken.
  Machine machine;
  machine.true_ns = 1e6;
  machine.again_ns = 1.01e6;
  FakeClock clock;
  const WitnessVerdict verdict = HearWitnesses(0.8e6, kSlackNs, clock, machine.Calls());
  EXPECT_FALSE(verdict.contradicted);
  EXPECT_EQ(verdict.claimed_ns, 1.01e6);
}

TEST(WitnessTest, AFalseTimeIsContradicted) {
  for (const double true_ns : {70e3, 800e3, 2e9}) {
    Machine machine;
    machine.true_ns = true_ns;
    machine.again_ns = 246;
    FakeClock clock;
    const WitnessVerdict verdict = HearWitnesses(246, kSlackNs, clock, machine.Calls());
    EXPECT_TRUE(verdict.contradicted) << true_ns;
    EXPECT_NEAR(verdict.witnessed_ns, true_ns, 0.02 * true_ns);
    EXPECT_EQ(verdict.launches, machine.launches);
    EXPECT_GT(verdict.launches, 20);
  }
}

TEST(WitnessTest, LongLaunchesAreHeardForALimitedTime) {
  Machine machine;
  machine.true_ns = 1e9;
  machine.again_ns = 246;
  FakeClock clock;
  WitnessCalls calls = machine.Calls();
  const auto launch = calls.launch;
  calls.launch = [&](WitnessedTime* time) {
    clock.Advance(std::chrono::seconds(1));
    return launch(time);
  };
  EXPECT_TRUE(HearWitnesses(246, kSlackNs, clock, calls).contradicted);
  EXPECT_LE(machine.launches, 3 + 2 * 4);
}

TEST(WitnessTest, AFailureEndsIt) {
  Machine machine;
  machine.true_ns = 1e6;
  FakeClock clock;
  EXPECT_EQ(HearWitnesses(246, kSlackNs, clock, machine.Calls()).failure.message, "no samples again");
  WitnessCalls calls = machine.Calls();
  calls.launch = [](WitnessedTime*) { return Crash("no launch"); };
  EXPECT_EQ(HearWitnesses(1e6, kSlackNs, clock, calls).failure.message, "no launch");
  calls = machine.Calls();
  calls.overhead = [](double, double*) { return Crash("no overhead"); };
  EXPECT_EQ(HearWitnesses(1e6, kSlackNs, clock, calls).failure.message, "no overhead");
}

}  // namespace
}  // namespace tunefarm
