// How the CUDA runner reads times: events and graphs, rotation, the race, second inputs, conditions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "tests/gpu/kernel_bench.h"

namespace tunefarm {
namespace {

using tunefarm::worker::v1::Result;

#define EXPECT_OK_RESULT(result) EXPECT_EQ(v1::Outcome_Name((result).outcome()), "OUTCOME_OK") << (result).message()

// Spins for so many cycles, then adds up what it reads. "forgetful" is right only on the inputs that its module saw
// first.
constexpr const char* kSpin = R"pb(
  display_name: "spin"
  language: LANGUAGE_CUDA
  sources { path: "spin.cu" }
  parameters {
    name: "CYCLES"
    values { ints: [ 2000, 36000, 360000 ] }
    bind: BIND_RUN
  }
  parameters {
    name: "FORGETFUL"
    values { ints: [ 0, 1 ] }
    bind: BIND_RUN
  }
  arguments {
    name: "x"
    buffer {
      data_type: DATA_TYPE_F32
      length: "1048576"
      access: ACCESS_IN
      fill { uniform { low: 1 high: 2 } }
    }
  }
  arguments {
    name: "y"
    buffer { data_type: DATA_TYPE_F32 length: "1048576" access: ACCESS_OUT }
  }
  arguments {
    name: "cycles"
    scalar { data_type: DATA_TYPE_I32 value: "CYCLES" }
  }
  arguments {
    name: "forgetful"
    scalar { data_type: DATA_TYPE_I32 value: "FORGETFUL" }
  }
  launches {
    kernel {
      entry: "spin"
      grid: "128"
      block: "256"
      arguments: [ "x", "y", "cycles", "forgetful" ]
    }
  }
  reference {
    steps {
      kernel {
        entry: "doubled"
        grid: "4096"
        block: "256"
        arguments: [ "x", "y" ]
      }
    }
  }
  tolerance { atol: 0 rtol: 0 }
)pb";

constexpr const char* kSpinSource = R"cu(
__device__ float first_seen = 0;
extern "C" __global__ void spin(const float* x, float* y, int cycles, int forgetful) {
  const long long start = clock64();
  if (forgetful && first_seen == 0 && blockIdx.x == 0 && threadIdx.x == 0) first_seen = x[0];
  while (clock64() - start < cycles) {
  }
  const bool other = forgetful && blockIdx.x == 0 && threadIdx.x == 0 && first_seen != x[0];
  for (int i = blockIdx.x * 256 + threadIdx.x; i < (1 << 20); i += 128 * 256) y[i] = other ? 0.0f : 2.0f * x[i];
}
extern "C" __global__ void doubled(const float* x, float* y) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  y[i] = 2.0f * x[i];
}
)cu";

class Timing : public ::testing::Test {
 protected:
  Result RunBy(v1::TimingMethod method, const std::string& config) {
    bench_.input.policy.set_method(method);
    const Result result = bench_.Run(config);
    EXPECT_OK_RESULT(result);
    std::printf(
        "%s %s: %.2f us (±%.2f %%), %d samples of %d launches, device worked %.2f of %.2f ms\n", config.c_str(),
        v1::TimingMethod_Name(result.measurement().method()).c_str(), result.measurement().median_ns() / 1e3,
        50 * (result.measurement().ci_high_ns() - result.measurement().ci_low_ns()) / result.measurement().median_ns(),
        result.measurement().samples(), result.measurement().launches_per_sample(),
        result.measurement().device_busy_ms(), result.measure_ms());
    return result;
  }

  KernelBench bench_{kSpin, {{"spin.cu", kSpinSource}}};
};

TEST_F(Timing, GraphsAndEventsAgree) {
  for (const bool warm : {false, true}) {
    bench_.input.policy.set_warm_cache(warm);
    const Result events = RunBy(v1::TIMING_METHOD_CUDA_EVENTS, "CYCLES=36000");
    const Result graph = RunBy(v1::TIMING_METHOD_CUDA_GRAPH, "CYCLES=36000");
    EXPECT_EQ(events.measurement().method(), v1::TIMING_METHOD_CUDA_EVENTS);
    EXPECT_EQ(graph.measurement().method(), v1::TIMING_METHOD_CUDA_GRAPH);
    EXPECT_NEAR(graph.measurement().median_ns() / events.measurement().median_ns(), 1, 0.05) << "warm: " << warm;
  }
}

TEST_F(Timing, ShortLaunchesAreTimedInGraphs) {
  EXPECT_EQ(RunBy(v1::TIMING_METHOD_UNSPECIFIED, "CYCLES=36000").measurement().method(), v1::TIMING_METHOD_CUDA_GRAPH);
  EXPECT_EQ(RunBy(v1::TIMING_METHOD_UNSPECIFIED, "CYCLES=360000").measurement().method(),
            v1::TIMING_METHOD_CUDA_EVENTS);
  bench_.input.policy.set_warm_cache(true);
  const Result warm = RunBy(v1::TIMING_METHOD_UNSPECIFIED, "CYCLES=2000");
  EXPECT_EQ(warm.measurement().method(), v1::TIMING_METHOD_CUDA_GRAPH);
  EXPECT_GT(warm.measurement().launches_per_sample(), 1);
}

TEST_F(Timing, SamplesGoThroughCopiesOfTheInputs) {
  bench_.input.policy.set_input_copies(4);
  for (const v1::TimingMethod method : {v1::TIMING_METHOD_CUDA_EVENTS, v1::TIMING_METHOD_CUDA_GRAPH}) {
    const Result result = RunBy(method, "CYCLES=36000");
    EXPECT_EQ(result.measurement().input_copies(), 4);
    EXPECT_TRUE(result.measurement().cold_cache());
    EXPECT_EQ(result.measurement().method(), method);
  }
}

TEST_F(Timing, AConfigThatCannotWinIsLeftEarly) {
  bench_.input.race_limit_ns = 1000;
  const Result result = RunBy(v1::TIMING_METHOD_UNSPECIFIED, "CYCLES=360000");
  EXPECT_EQ(result.measurement().stop_reason(), v1::STOP_REASON_LOSING);
  EXPECT_LT(result.measurement().samples(), 10);
}

TEST_F(Timing, FinalistsAreVerifiedOnASecondInputSet) {
  bench_.input.second_input_seed = 99;
  EXPECT_OK_RESULT(bench_.Run("CYCLES=2000"));
  const Result result = bench_.Run("CYCLES=2000,FORGETFUL=1");
  EXPECT_EQ(v1::Outcome_Name(result.outcome()), "OUTCOME_WRONG_RESULT");
  EXPECT_EQ(result.message().find("On a second set of random inputs: "), 0u) << result.message();
  bench_.input.second_input_seed = 0;
  EXPECT_OK_RESULT(bench_.Run("CYCLES=2000,FORGETFUL=1"));
}

TEST_F(Timing, DeviceTimeAndConditionsAreReported) {
  const Result result = RunBy(v1::TIMING_METHOD_UNSPECIFIED, "CYCLES=360000");
  const v1::Measurement& m = result.measurement();
  EXPECT_GE(m.device_busy_ms() * 1e6, m.median_ns() * m.samples());
  EXPECT_GE(result.device_busy_ms(), m.device_busy_ms());
  EXPECT_LE(result.device_busy_ms(), result.verify_ms() + result.measure_ms());
  std::printf("%d MHz, %.0f W, %d C, '%s'\n", m.clock_mhz(), m.power_watts(), m.temperature_c(),
              m.throttle_reason().c_str());
  if (m.clock_mhz() == 0) GTEST_SKIP() << "no NVML here";
  EXPECT_GT(m.temperature_c(), 0);
}

// A threshold above the highest clock makes every sample a slow one: thrown away for half of the budget, then kept.
TEST_F(Timing, SamplesBelowTheClockShareAreDiscarded) {
  bench_.input.policy.set_min_clock_share(1);
  bench_.input.policy.set_time_budget_ms(50);
  const Result result = RunBy(v1::TIMING_METHOD_CUDA_EVENTS, "CYCLES=360000");
  const v1::Measurement& m = result.measurement();
  if (m.discarded_samples() == 0) GTEST_SKIP() << "the device runs at its highest clock";
  EXPECT_GT(m.samples(), 0);
}

}  // namespace
}  // namespace tunefarm
