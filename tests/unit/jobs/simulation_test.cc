// Farms that go wrong, many seeds of them. A seed that found something has a test of its own, by what it found.
#include "tests/unit/jobs/simulation.h"

#include <cstdlib>

#include "gtest/gtest.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm {
namespace {

Simulation::Outcome RunSeed(uint64_t seed) {
  TemporaryDirectory directory;
  Simulation::Options options;
  options.seed = seed;
  options.nodes = 2 + static_cast<int>(seed % 2);
  Simulation simulation(options, directory.path());
  return simulation.Run();
}

TEST(SimulationTest, WhateverGoesWrongEveryJobEndsAndNothingIsLostOrDoubled) {
  const char* const given = std::getenv("TUNEFARM_SIMULATION_SEED");
  if (given != nullptr) {
    RunSeed(std::strtoull(given, nullptr, 10));
    return;
  }
  const char* const nightly = std::getenv("TUNEFARM_NIGHTLY");
  const uint64_t seeds = nightly != nullptr && *nightly == '1' ? 5000 : 200;
  Simulation::Outcome all;
  for (uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
    const Simulation::Outcome one = RunSeed(seed);
    if (HasFailure())
      std::printf("TUNEFARM_SIMULATION_SEED=%llu runs it again\n", static_cast<unsigned long long>(seed));
    all.steps += one.steps;
    all.took += one.took;
    all.crashes += one.crashes;
    all.freezes += one.freezes;
    all.stops += one.stops;
    all.stalls += one.stalls;
    all.faults += one.faults;
    all.orders += one.orders;
    all.edits += one.edits;
    all.agents_lost += one.agents_lost;
  }
  std::printf(
      "%llu seeds, %lld steps, %lld s of fake time; %d nodes killed, %d stopped, %d frozen, %d stalled in a call, %d "
      "agents lost, %d "
      "calls failed, %d orders, %d edits\n",
      static_cast<unsigned long long>(seeds), static_cast<long long>(all.steps),
      static_cast<long long>(std::chrono::duration_cast<std::chrono::seconds>(all.took).count()), all.crashes,
      all.stops, all.freezes, all.stalls, all.agents_lost, all.faults, all.orders, all.edits);
}

// Two nodes ended finals of the same problem in one second, and the slower config took the other's place: a promotion
// names the best that it was compared with.
TEST(SimulationTest, FinalsOnTwoNodesPromoteTheFasterConfig) { RunSeed(398); }

// A job that waited, PAUSED, was cancelled through another node, and its watcher was told only that it had ended.
TEST(SimulationTest, AWatcherOfAJobThatNeverRanIsToldHowItEnded) { RunSeed(1141); }

// A node that had stood still told a watcher of a job as it remembered it, and that the job had ended.
TEST(SimulationTest, ANodeThatStoodStillTellsWhatTheStoreSays) { RunSeed(1496); }

TEST(SimulationTest, OneSeedIsOneRun) {
  const Simulation::Outcome first = RunSeed(7), second = RunSeed(7);
  EXPECT_EQ(first.steps, second.steps);
  EXPECT_EQ(first.took, second.took);
  EXPECT_EQ(first.digest, second.digest);
}

}  // namespace
}  // namespace tunefarm
