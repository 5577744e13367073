// When a time that a kernel claims is contradicted, on a machine that disturbs launches.

#include "server/worker/verify/witness.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
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
  int delays_of_ten = 0;    // of ten launches those that a hypervisor delays by milliseconds, and those of nothing too
  bool on_device = false;   // the kernel works while the worker waits
  int waits_of_ten = 10;    // of ten launches on a device those with a wait, if first_waits
  double others_share = 0;  // of the work: what threads beside the first do, while the first sleeps
  double again_ns = 0;      // what samples taken again say; 0: they fail
  int launches = 0;
  PhiloxStream random{1};
  FakeClock clock;  // goes on by what launches take, and what lies between them

  WitnessCalls Calls() {
    WitnessCalls calls;
    calls.launch = [this](WitnessedTime* time) -> Failure {
      ++launches;
      clock.Advance(std::chrono::microseconds(200));
      if (on_device) return LaunchOnDevice(time);
      time->busy_ns = true_ns * (1 + 0.02 * random.NextDouble());
      time->others_busy_ns = others_share * time->busy_ns;
      time->waited_ns = first_waits ? Wait() : 0;
      time->wall_ns = time->busy_ns + time->waited_ns + (others_wait ? Wait() : 0) + kOverheadNs;
      time->wall_ns += Delay();
      if (random.NextDouble() < disturbed) time->wall_ns -= disturbance_ns * std::log(1 - random.NextDouble());
      return {};
    };
    if (on_device) return WithSamplesAgain(calls);
    calls.overhead = [](double* ns) -> Failure {
      *ns = kOverheadNs;
      return {};
    };
    calls.launch_nothing = [this](double, WitnessedTime* time) -> Failure {
      time->waited_ns = first_waits ? Wait() : 0;
      time->wall_ns = kOverheadNs * (1 + random.NextDouble()) + Delay() + time->waited_ns;
      return {};
    };
    return WithSamplesAgain(calls);
  }

  WitnessCalls WithSamplesAgain(WitnessCalls calls) {
    calls.sample_again = [this](double* median_ns) {
      *median_ns = again_ns;
      return again_ns > 0 ? Failure() : Crash("no samples again");
    };
    return calls;
  }

  // Before the launch reaches the device, or when it has ended.
  Failure LaunchOnDevice(WitnessedTime* time) {
    time->on_device = true;
    time->waited_ns = first_waits && launches % 10 < waits_of_ten ? Wait() : 0;
    time->wall_ns = true_ns * (1 + 0.02 * random.NextDouble()) + time->waited_ns + kOverheadNs;
    return {};
  }

  double Delay() { return random.NextDouble() < delays_of_ten / 10.0 ? 1e6 + 3e6 * random.NextDouble() : 0; }

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

TEST(WitnessTest, OnlyWhatIsAheadIsWitnessed) {
  EXPECT_TRUE(IsAheadInRace(100, 110, 0)) << "nothing to lose against";
  EXPECT_TRUE(IsAheadInRace(98.5, 99, 100)) << "the next limit";
  EXPECT_FALSE(IsAheadInRace(99, 100, 100)) << "as fast as the best";
  EXPECT_TRUE(IsAheadInRace(97, 200, 100)) << "a wide interval spares no fast median";
  EXPECT_FALSE(IsAheadInRace(101, 110, 100));
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
    const WitnessVerdict verdict = HearWitnesses(machine.true_ns, {.ns = kSlackNs}, machine.clock, calls);
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
    const WitnessVerdict verdict = HearWitnesses(machine.true_ns, {.ns = kSlackNs}, machine.clock, machine.Calls());
    EXPECT_FALSE(verdict.contradicted || verdict.unsettled) << "seed " << seed;
    EXPECT_EQ(verdict.launches, WitnessesOf(machine.true_ns)) << "seed " << seed;
  }
}

TEST(WitnessTest, AFalseTimeIsContradictedWhereEveryLaunchWaits) {
  Machine machine;
  machine.true_ns = 1e6;
  machine.again_ns = 246;
  machine.first_waits = true;
  const WitnessVerdict verdict = HearWitnesses(246, {.ns = kSlackNs}, machine.clock, machine.Calls());
  EXPECT_TRUE(verdict.contradicted);
  EXPECT_NEAR(verdict.witnessed_ns, 1e6, 0.05e6);
}

TEST(WitnessTest, WaitsOfOtherThreadsLeaveItUndecided) {
  Machine machine;
  machine.true_ns = machine.again_ns = 1e6;
  machine.others_share = 0.5;
  machine.others_wait = true;
  EXPECT_TRUE(HearWitnesses(1e6, {.ns = kSlackNs}, machine.clock, machine.Calls()).contradicted)
      << "nothing shows that they waited";
  machine.first_waits = true;
  const WitnessVerdict verdict = HearWitnesses(1e6, {.ns = kSlackNs}, machine.clock, machine.Calls());
  EXPECT_TRUE(verdict.unsettled);
  EXPECT_FALSE(verdict.contradicted || verdict.failure);
}

TEST(WitnessTest, AnHonestTimeIsNotContradictedByDelaysThatNobodyCounts) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    for (const int delays_of_ten : {5, 9, 10}) {
      Machine machine;
      machine.true_ns = machine.again_ns = std::pow(10.0, 3 + static_cast<double>(seed % 3));
      machine.delays_of_ten = delays_of_ten;
      machine.random = PhiloxStream(seed);
      const WitnessVerdict verdict = HearWitnesses(machine.true_ns, {.ns = kSlackNs}, machine.clock, machine.Calls());
      EXPECT_FALSE(verdict.contradicted) << delays_of_ten << " of ten, seed " << seed;
      EXPECT_EQ(verdict.unsettled, delays_of_ten == 10) << delays_of_ten << " of ten, seed " << seed;
    }
  }
}

TEST(WitnessTest, WhatLengthensEveryLaunchIsOverhead) {
  // Other programs displace what the worker and the kernel have in the caches, so that commands and answers take longer
  // than when the overhead was measured.
  for (const double longer_ns : {100e3, 250e3, 2e6}) {
    Machine machine;
    machine.true_ns = machine.again_ns = 1e3;
    WitnessCalls calls = machine.Calls();
    calls.launch = [longer_ns, launch = calls.launch](WitnessedTime* time) {
      Failure failure = launch(time);
      time->wall_ns += longer_ns;
      return failure;
    };
    calls.launch_nothing = [longer_ns, launch = calls.launch_nothing](double busy_ns, WitnessedTime* time) {
      Failure failure = launch(busy_ns, time);
      time->wall_ns += longer_ns;
      return failure;
    };
    const WitnessVerdict verdict = HearWitnesses(1e3, {.ns = kSlackNs}, machine.clock, calls);
    EXPECT_FALSE(verdict.contradicted) << longer_ns;
    EXPECT_EQ(verdict.unsettled, longer_ns > 1e6) << "too long to be overhead: " << longer_ns;
  }
}

TEST(WitnessTest, AFalseTimeDoesNotStandWhateverIsDelayed) {
  for (const int delays_of_ten : {0, 5, 9, 10}) {
    Machine machine;
    machine.true_ns = 1e6;
    machine.again_ns = 246;
    machine.delays_of_ten = delays_of_ten;
    const WitnessVerdict verdict = HearWitnesses(246, {.ns = kSlackNs}, machine.clock, machine.Calls());
    EXPECT_EQ(verdict.contradicted, delays_of_ten < 10) << delays_of_ten;
    EXPECT_EQ(verdict.unsettled, delays_of_ten == 10) << delays_of_ten;
  }
}

TEST(WitnessTest, ThreadsEarnOverheadOnlyInLaunchesThatHaveThem) {
  // A thread that sleeps costs 5 µs to continue and to stop: with a hundred of them half a millisecond is no work.
  for (const bool keeps_threads : {true, false}) {
    Machine machine;
    machine.true_ns = 400e3;
    machine.again_ns = 1e3;
    WitnessCalls calls = machine.Calls();
    calls.launch_nothing = [](double, WitnessedTime* time) -> Failure {
      *time = {.wall_ns = kOverheadNs + 100 * 5e3, .helpers = 100};
      return {};
    };
    calls.launch = [&, launch = calls.launch](WitnessedTime* time) {
      Failure failure = launch(time);
      time->busy_ns = 1e3;
      time->helpers = keeps_threads ? 100 : 0;
      return failure;
    };
    EXPECT_EQ(HearWitnesses(1e3, {.ns = kSlackNs}, machine.clock, calls).contradicted, !keeps_threads);
  }
}

TEST(WitnessTest, ThreadsThatSleepHideNoWork) {
  // To continue and to stop 60 threads takes 300 µs, of which half passes beside a launch of 1 ms, and 0.5 ms of
  // processor time.
  constexpr WitnessSlack kSlack = {.ns = kSlackNs, .per_helper_ns = 3e3, .shared_ns = 150e3};
  for (const double claimed_ns : {0.8e6, 0.95e6}) {
    for (const bool they_work : {false, true}) {
      Machine machine;
      machine.true_ns = 1e6;
      machine.again_ns = claimed_ns;
      WitnessCalls calls = machine.Calls();
      calls.launch = [they_work, launch = calls.launch](WitnessedTime* time) {
        Failure failure = launch(time);
        const double threads_ns = 60 * (they_work ? 1e6 : 8e3);
        *time = {.wall_ns = time->wall_ns + 150e3,
                 .busy_ns = time->busy_ns + threads_ns,
                 .others_busy_ns = threads_ns,
                 .helpers = 60};
        return failure;
      };
      calls.launch_nothing = [](double, WitnessedTime* time) -> Failure {
        *time = {.wall_ns = kOverheadNs + 300e3, .busy_ns = 490e3, .others_busy_ns = 480e3, .helpers = 60};
        return {};
      };
      const WitnessVerdict verdict = HearWitnesses(claimed_ns, kSlack, machine.clock, calls);
      EXPECT_FALSE(verdict.unsettled);
      // The first thread may have waited for threads that work and were continued late.
      EXPECT_EQ(verdict.contradicted, claimed_ns < 0.9e6 && !they_work) << claimed_ns << " " << they_work;
      if (!they_work) {
        EXPECT_NEAR(verdict.witnessed_ns, 1e6, 0.03e6);
      }
    }
  }
}

TEST(WitnessTest, ProcessorTimeOfNothingIsNoWork) {
  // On an idle processor of a virtual machine each launch takes 250 to 350 µs longer, 90 to 110 µs of that on the
  // processor; of 8 MiB in cold page tables another 60 µs. Of launches of nothing, some find the processor awake.
  for (const double true_ns : {200e3, 400e3}) {
    Machine machine;
    machine.true_ns = true_ns;
    machine.again_ns = 200e3;
    WitnessCalls calls = machine.Calls();
    const auto wake = [&](WitnessedTime* time) {
      const double awake_ns = 150e3 + 20e3 * machine.random.NextDouble();
      time->busy_ns += awake_ns;
      time->wall_ns = time->busy_ns + 100e3 + 200e3 * machine.random.NextDouble();
    };
    calls.launch = [wake, launch = calls.launch](WitnessedTime* time) {
      Failure failure = launch(time);
      wake(time);
      time->ran_through = true;
      return failure;
    };
    calls.launch_nothing = [wake](double, WitnessedTime* time) -> Failure {
      wake(time);
      return {};
    };
    const WitnessVerdict verdict = HearWitnesses(200e3, {.ns = kSlackNs}, machine.clock, calls);
    EXPECT_EQ(verdict.contradicted, true_ns > 300e3);
    EXPECT_FALSE(verdict.unsettled);
  }
}

TEST(WitnessTest, OverheadOfAProcessorCountsForLaunchesThere) {
  // 150 µs, which are no overhead on the processor that the kernel goes to.
  for (const bool elsewhere : {false, true}) {
    Machine machine;
    machine.true_ns = 350e3;
    machine.again_ns = 200e3;
    WitnessCalls calls = machine.Calls();
    calls.launch = [elsewhere, launch = calls.launch](WitnessedTime* time) {
      Failure failure = launch(time);
      time->elsewhere = elsewhere;
      time->ran_through = true;
      return failure;
    };
    calls.launch_nothing = [](double, WitnessedTime* time) -> Failure {
      *time = {.wall_ns = 150e3 + kOverheadNs, .busy_ns = 150e3};
      return {};
    };
    const WitnessVerdict verdict = HearWitnesses(200e3, {.ns = kSlackNs}, machine.clock, calls);
    EXPECT_EQ(verdict.contradicted, elsewhere);
    EXPECT_FALSE(verdict.unsettled);
  }
}

TEST(WitnessTest, WhatMemoryAddsToEveryLaunchIsOverhead) {
  // More than a launch may take otherwise.
  for (const bool reads_memory : {false, true}) {
    Machine machine;
    machine.true_ns = machine.again_ns = 1e6;
    WitnessCalls calls = machine.Calls();
    calls.launch = [launch = calls.launch](WitnessedTime* time) {
      Failure failure = launch(time);
      time->wall_ns += 2e6;
      time->busy_ns += 2e6;
      return failure;
    };
    calls.launch_nothing = [](double, WitnessedTime* time) -> Failure {
      time->busy_ns = 2e6;
      time->wall_ns = 2e6 + kOverheadNs;
      return {};
    };
    const WitnessSlack slack = {.ns = kSlackNs, .memory_overhead_max_ns = reads_memory ? 3e6 : 0};
    const WitnessVerdict verdict = HearWitnesses(1e6, slack, machine.clock, calls);
    EXPECT_FALSE(verdict.contradicted);
    EXPECT_EQ(verdict.unsettled, !reads_memory);
  }
}

TEST(WitnessTest, EveryCommandOfALaunchHasItsOverhead) {
  // Sixteen stretches that are timed one by one, each with 25 µs of overhead.
  for (const int commands : {1, 16}) {
    Machine machine;
    machine.true_ns = machine.again_ns = 1e3;
    WitnessCalls calls = machine.Calls();
    calls.commands_per_launch = commands;
    calls.launch = [launch = calls.launch](WitnessedTime* time) {
      Failure failure = launch(time);
      time->wall_ns += 16 * 25e3;
      return failure;
    };
    calls.launch_nothing = [](double, WitnessedTime* time) -> Failure {
      time->wall_ns = kOverheadNs + 25e3;
      return {};
    };
    const WitnessVerdict verdict = HearWitnesses(1e3, {.ns = kSlackNs}, machine.clock, calls);
    EXPECT_EQ(verdict.contradicted, commands == 1);
    EXPECT_FALSE(verdict.unsettled);
  }
}

TEST(WitnessTest, ALaunchOfNothingWithTooFewThreadsProvesNothing) {
  Machine machine;
  machine.true_ns = machine.again_ns = 1e3;
  WitnessCalls calls = machine.Calls();
  calls.launch = [launch = calls.launch](WitnessedTime* time) {
    Failure failure = launch(time);
    time->wall_ns += 200 * 5e3;
    time->helpers = 200;
    return failure;
  };
  const WitnessVerdict verdict = HearWitnesses(1e3, {.ns = kSlackNs}, machine.clock, calls);
  EXPECT_TRUE(verdict.unsettled);
  EXPECT_FALSE(verdict.contradicted);
}

TEST(WitnessTest, AWaitOfTheLaunchHidesNoDelay) {
  // Launches and those of nothing are delayed by 0.7 ms; the launches have waited for 20 ms too, which does not count.
  Machine machine;
  machine.true_ns = machine.again_ns = 100e3;
  WitnessCalls calls = machine.Calls();
  const auto delay = [](WitnessedTime* time, double waited_ns) {
    time->waited_ns += waited_ns;
    time->wall_ns += waited_ns + 0.7e6;
  };
  calls.launch = [delay, launch = calls.launch](WitnessedTime* time) {
    Failure failure = launch(time);
    delay(time, 20e6);
    return failure;
  };
  calls.launch_nothing = [delay, launch = calls.launch_nothing](double busy_ns, WitnessedTime* time) {
    Failure failure = launch(busy_ns, time);
    delay(time, 0);
    return failure;
  };
  const WitnessVerdict verdict = HearWitnesses(100e3, {.ns = kSlackNs}, machine.clock, calls);
  EXPECT_TRUE(verdict.unsettled);
  EXPECT_FALSE(verdict.contradicted);
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

TEST(WitnessTest, AnHonestTimeIsNotContradictedByWakeUps) {
  // The kernel's processor has to be woken up in each launch, and that of nothing in none.
  for (const bool ran_through : {true, false}) {
    for (const double true_ns : {1e3, 1e6}) {
      Machine machine;
      machine.true_ns = machine.again_ns = 1e3;
      WitnessCalls calls = machine.Calls();
      machine.true_ns = true_ns;
      calls.launch = [ran_through, launch = calls.launch](WitnessedTime* time) {
        Failure failure = launch(time);
        time->wall_ns += 250e3;
        time->ran_through = ran_through;
        return failure;
      };
      const WitnessVerdict verdict = HearWitnesses(1e3, {.ns = kSlackNs}, machine.clock, calls);
      EXPECT_EQ(verdict.contradicted, !ran_through || true_ns > 1e3) << ran_through << ", " << true_ns;
      EXPECT_FALSE(verdict.unsettled);
    }
  }
}

TEST(WitnessTest, AFewLaunchesWithoutTheirProcessorTimeExcuseNothing) {
  for (const int without : {2, 3}) {
    Machine machine;
    machine.true_ns = 1e6;
    machine.again_ns = 246;
    WitnessCalls calls = machine.Calls();
    int left = 0;
    calls.sample_again = [&, again = calls.sample_again](double* median_ns) {
      left = without;
      return again(median_ns);
    };
    calls.launch = [&, launch = calls.launch](WitnessedTime* time) {
      Failure failure = launch(time);
      time->ran_through = true;
      if (left-- > 0) time->busy_ns = 0;
      return failure;
    };
    const WitnessVerdict verdict = HearWitnesses(246, {.ns = kSlackNs}, machine.clock, calls);
    EXPECT_EQ(verdict.contradicted, without == 2);
    EXPECT_NEAR(verdict.witnessed_ns, without == 2 ? 1e6 : 0, 0.02e6);
  }
}

TEST(WitnessTest, EachLaunchIsPreparedBeforeTheLaunchOfNothing) {
  Machine machine;
  machine.true_ns = 1e6;
  machine.again_ns = 246;
  WitnessCalls calls = machine.Calls();
  std::string order;
  calls.prepare = [&]() -> Failure {
    order += 'p';
    return {};
  };
  calls.launch_nothing = [&, launch = calls.launch_nothing](double busy_ns, WitnessedTime* time) {
    order += 'n';
    return launch(busy_ns, time);
  };
  calls.launch = [&, launch = calls.launch](WitnessedTime* time) {
    order += 'l';
    return launch(time);
  };
  EXPECT_TRUE(HearWitnesses(246, {.ns = kSlackNs}, machine.clock, calls).contradicted);
  EXPECT_EQ(order.substr(0, 10), "plplpnlpnl");
  calls.prepare = []() { return Crash("not prepared"); };
  EXPECT_EQ(HearWitnesses(246, {.ns = kSlackNs}, machine.clock, calls).failure.message, "not prepared");
}

TEST(WitnessTest, AnHonestTimeOnADeviceIsNotContradictedByWaits) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Machine machine;
    machine.true_ns = machine.again_ns = std::pow(10.0, 3 + static_cast<double>(seed % 5));
    machine.on_device = machine.first_waits = true;
    machine.random = PhiloxStream(seed);
    WitnessVerdict verdict = HearWitnesses(machine.true_ns, {.ns = kSlackNs}, machine.clock, machine.Calls());
    EXPECT_TRUE(verdict.unsettled) << "seed " << seed;
    EXPECT_FALSE(verdict.contradicted) << "seed " << seed;
    machine.waits_of_ten = 9;
    verdict = HearWitnesses(machine.true_ns, {.ns = kSlackNs}, machine.clock, machine.Calls());
    EXPECT_FALSE(verdict.contradicted || verdict.unsettled) << "one launch without a wait suffices, seed " << seed;
  }
}

TEST(WitnessTest, AFalseTimeOnADeviceDoesNotStandWhateverWaits) {
  for (const int waits_of_ten : {0, 5, 8, 10}) {
    Machine machine;
    machine.true_ns = 1e6;
    machine.again_ns = 246;
    machine.on_device = machine.first_waits = true;
    machine.waits_of_ten = waits_of_ten;
    const WitnessVerdict verdict = HearWitnesses(246, {.ns = kSlackNs}, machine.clock, machine.Calls());
    EXPECT_EQ(verdict.contradicted, waits_of_ten < 10) << waits_of_ten;
    EXPECT_EQ(verdict.unsettled, waits_of_ten == 10) << waits_of_ten;
  }
}

TEST(WitnessTest, WorkOfADeviceDuringAWaitCounts) {
  const WitnessedTime time = {.wall_ns = 5e6, .waited_ns = 4.9e6, .on_device = true};
  EXPECT_EQ(NeededNs(time, 0), 5e6) << "the kernel may have taken all of it";
}

TEST(WitnessTest, WaitsThatTheSlackCoversDisturbNothing) {
  EXPECT_FALSE(IsDisturbed(0.5 * kSlackNs, 100e3, kSlackNs));
  EXPECT_TRUE(IsDisturbed(0.51 * kSlackNs, 100e3, kSlackNs));
  EXPECT_FALSE(IsDisturbed(39e6, 1e9, kSlackNs)) << "little of a long launch";
  EXPECT_TRUE(IsDisturbed(41e6, 1e9, kSlackNs));
}

TEST(WitnessTest, ThreadsThatSleepEarnNoSlack) {
  const WitnessSlack slack{.ns = 50e3, .per_helper_ns = 3e3, .shared_ns = 170e3};
  EXPECT_EQ(SlackOf(slack, {.wall_ns = 1e6, .busy_ns = 1e6, .helpers = 63}, 1e6), 50e3);
  EXPECT_LT(SlackOf(slack, {.wall_ns = 1e6, .busy_ns = 1.25e6, .others_busy_ns = 0.25e6, .helpers = 63}, 1e6), 60e3)
      << "continued and stopped, 4 µs each";
  EXPECT_EQ(SlackOf(slack, {.wall_ns = 1e6, .busy_ns = 60e6, .others_busy_ns = 59e6, .helpers = 63}, 1e6),
            50e3 + 63 * 3e3 + 170e3);
  EXPECT_EQ(SlackOf(slack, {.wall_ns = 1e6, .busy_ns = 1e9, .others_busy_ns = 1e9, .helpers = 9'999}, 1e6),
            50e3 + kHelpersMax * 3e3 + 170e3)
      << "a kernel cannot buy slack with threads";
  EXPECT_EQ(SlackOf(slack, {.wall_ns = 1e6, .busy_ns = 2e6, .others_busy_ns = 1e6}, 1e6), 50e3)
      << "threads that the launch itself starts are started in samples too";
}

TEST(WitnessTest, SamplesOfAFasterTimeAreTakenAgain) {
  // The clock was a fifth higher while samples were taken.
  Machine machine;
  machine.true_ns = 1e6;
  machine.again_ns = 1.01e6;
  const WitnessVerdict verdict = HearWitnesses(0.8e6, {.ns = kSlackNs}, machine.clock, machine.Calls());
  EXPECT_FALSE(verdict.contradicted);
  EXPECT_EQ(verdict.claimed_ns, 1.01e6);
}

TEST(WitnessTest, AFalseTimeIsContradicted) {
  for (const double true_ns : {70e3, 800e3, 2e9}) {
    Machine machine;
    machine.true_ns = true_ns;
    machine.again_ns = 246;
    const WitnessVerdict verdict = HearWitnesses(246, {.ns = kSlackNs}, machine.clock, machine.Calls());
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
  WitnessCalls calls = machine.Calls();
  const auto launch = calls.launch;
  calls.launch = [&](WitnessedTime* time) {
    machine.clock.Advance(std::chrono::seconds(1));
    return launch(time);
  };
  EXPECT_TRUE(HearWitnesses(246, {.ns = kSlackNs}, machine.clock, calls).contradicted);
  EXPECT_LE(machine.launches, 3 + 2 * 4);
}

TEST(WitnessTest, AFailureEndsIt) {
  Machine machine;
  machine.true_ns = 1e6;
  EXPECT_EQ(HearWitnesses(246, {.ns = kSlackNs}, machine.clock, machine.Calls()).failure.message, "no samples again");
  WitnessCalls calls = machine.Calls();
  calls.launch = [](WitnessedTime*) { return Crash("no launch"); };
  EXPECT_EQ(HearWitnesses(1e6, {.ns = kSlackNs}, machine.clock, calls).failure.message, "no launch");
  calls = machine.Calls();
  calls.overhead = [](double*) { return Crash("no overhead"); };
  EXPECT_EQ(HearWitnesses(1e6, {.ns = kSlackNs}, machine.clock, calls).failure.message, "no overhead");
  calls = machine.Calls();
  calls.launch_nothing = [](double, WitnessedTime*) { return Crash("no launch of nothing"); };
  EXPECT_EQ(HearWitnesses(246, {.ns = kSlackNs}, machine.clock, calls).failure.message, "no launch of nothing");
}

}  // namespace
}  // namespace tunefarm
