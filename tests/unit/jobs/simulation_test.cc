// Farms that go wrong, many seeds of them. A seed that found something has a test of its own, by what it found.
#include "tests/unit/jobs/simulation.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm {
namespace {

enum class Agents { kPlayed, kReal };
enum class Nodes { kSeveral, kLone };

Simulation::Outcome RunSeed(uint64_t seed, Agents agents = Agents::kPlayed, Nodes nodes = Nodes::kSeveral) {
  TemporaryDirectory directory;
  Simulation::Options options;
  options.seed = seed;
  options.is_lone = nodes == Nodes::kLone;
  options.nodes = options.is_lone ? 1 : 2 + static_cast<int>(seed % 2);
  options.has_real_agents = agents == Agents::kReal;
  Simulation simulation(options, directory.path());
  return simulation.Run();
}

// The seeds from 1 to `quick`, or those of TUNEFARM_SIMULATION_SEED: one, or FIRST-LAST.
Simulation::Outcome RunSeeds(Agents agents, uint64_t quick, Nodes nodes = Nodes::kSeveral) {
  const char* const nightly = std::getenv("TUNEFARM_NIGHTLY");
  uint64_t first = 1, last = nightly != nullptr && *nightly == '1' ? 5000 : quick;
  if (const char* const given = std::getenv("TUNEFARM_SIMULATION_SEED"); given != nullptr) {
    const std::vector<std::string> bounds = absl::StrSplit(given, '-');
    first = std::stoull(bounds.front());
    last = std::stoull(bounds.back());
  }
  Simulation::Outcome all;
  for (uint64_t seed = first; seed <= last && !testing::Test::HasFailure(); ++seed) {
    all += RunSeed(seed, agents, nodes);
    if (testing::Test::HasFailure())
      std::printf("TUNEFARM_SIMULATION_SEED=%llu runs it again\n", static_cast<unsigned long long>(seed));
  }
  std::printf(
      "%llu seeds, %lld steps, %lld s of fake time; %d nodes killed, %d stopped, %d frozen, %d stalled in a call, %d "
      "agents lost, %d calls failed, %d orders, %d edits\n",
      static_cast<unsigned long long>(last - first + 1), static_cast<long long>(all.steps),
      static_cast<long long>(std::chrono::duration_cast<std::chrono::seconds>(all.took).count()), all.crashes,
      all.stops, all.freezes, all.stalls, all.agents_lost, all.faults, all.orders, all.edits);
  return all;
}

TEST(SimulationTest, WhateverGoesWrongEveryJobEndsAndNothingIsLostOrDoubled) { RunSeeds(Agents::kPlayed, 80); }

// The only daemon of its store, killed and restarted: nothing polls, so whatever it misses stays missed.
TEST(SimulationTest, TheSameWithALoneDaemon) {
  const Simulation::Outcome played = RunSeeds(Agents::kPlayed, 40, Nodes::kLone);
  const Simulation::Outcome real = RunSeeds(Agents::kReal, 30, Nodes::kLone);
  if (std::getenv("TUNEFARM_SIMULATION_SEED") != nullptr) return;
  for (const int count :
       {played.crashes, played.faults, played.agents_lost, real.crashes, real.faults, real.agents_lost}) {
    EXPECT_GT(count, 0);
  }
}

// With leases of agents, what they know and what they spool, behind a network that loses and delays.
TEST(SimulationTest, TheSameWithRealAgents) {
  const Simulation::Outcome all = RunSeeds(Agents::kReal, 50);
  std::printf(
      "%d agents frozen, %d cut off, %d drained, %d devices out of service; %d calls lost, %d too late, %d unanswered, "
      "%d refused\n",
      all.agents_frozen, all.cut_off, all.drained, all.quarantined, all.calls.lost, all.calls.late,
      all.calls.unanswered, all.calls.refused);
  if (std::getenv("TUNEFARM_SIMULATION_SEED") != nullptr) return;
  // So many seeds have met everything that can go wrong.
  for (const int count : {all.crashes, all.freezes, all.stalls, all.agents_lost, all.agents_frozen, all.cut_off,
                          all.drained, all.quarantined, all.calls.lost, all.calls.late, all.calls.unanswered}) {
    EXPECT_GT(count, 0);
  }
}

// Two nodes ended finals of the same problem in one second, and the slower config took the other's place: a promotion
// names the best that it was compared with.
TEST(SimulationTest, FinalsOnTwoNodesPromoteTheFasterConfig) { RunSeed(398); }

// A job that waited, PAUSED, was cancelled through another node, and its watcher was told only that it had ended.
TEST(SimulationTest, AWatcherOfAJobThatNeverRanIsToldHowItEnded) { RunSeed(1141); }

// A node that had stood still told a watcher of a job as it remembered it, and that the job had ended.
TEST(SimulationTest, ANodeThatStoodStillTellsWhatTheStoreSays) { RunSeed(1496); }

// The devices of an agent whose registration failed were shown, and a job for them failed, as their class was not
// stored.
TEST(SimulationTest, DevicesAreShownOnceTheirClassIsStored) { RunSeed(288, Agents::kReal, Nodes::kLone); }

// A step that ended a search was not stored, the units that it had withdrawn were, and the study searched on without
// them.
TEST(SimulationTest, UnitsAreWithdrawnOnceTheEndOfTheSearchIsStored) {
  RunSeed(21856, Agents::kPlayed, Nodes::kLone);
  RunSeed(21856, Agents::kReal, Nodes::kLone);
}

TEST(SimulationTest, OneSeedIsOneRun) {
  for (const Agents agents : {Agents::kPlayed, Agents::kReal}) {
    const Simulation::Outcome first = RunSeed(7, agents), second = RunSeed(7, agents);
    EXPECT_EQ(first.steps, second.steps);
    EXPECT_EQ(first.took, second.took);
    EXPECT_EQ(first.digest, second.digest);
  }
}

}  // namespace
}  // namespace tunefarm
