// The energy of a launch sequence by the device's counter: what is subtracted, and that it grows with the work.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "server/measure/energy.h"
#include "tests/gpu/kernel_bench.h"

namespace tunefarm {
namespace {

using tunefarm::worker::v1::Result;

// Multiplies by one so many times.
constexpr const char* kWork = R"pb(
  display_name: "work"
  language: LANGUAGE_CUDA
  sources { path: "work.cu" }
  parameters {
    name: "ROUNDS"
    values { ints: [ 100, 20000, 40000 ] }
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
    name: "rounds"
    scalar { data_type: DATA_TYPE_I32 value: "ROUNDS" }
  }
  arguments {
    name: "one"
    scalar { data_type: DATA_TYPE_F32 value: "1.0" }
  }
  launches {
    kernel {
      entry: "work"
      grid: "4096"
      block: "256"
      arguments: [ "x", "y", "rounds", "one" ]
    }
  }
  reference {
    steps {
      kernel {
        entry: "copied"
        grid: "4096"
        block: "256"
        arguments: [ "x", "y" ]
      }
    }
  }
  tolerance { atol: 0 rtol: 0 }
)pb";

constexpr const char* kWorkSource = R"cu(
extern "C" __global__ void copied(const float* x, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i];
}
extern "C" __global__ void work(const float* x, float* y, int rounds, float one) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float value = x[i];
  for (int round = 0; round < rounds; ++round) value *= one;
  y[i] = value;
}
)cu";

class EnergyOfLaunches : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (TheGpu(&why) == nullptr) GTEST_SKIP() << why;
    bench_ = std::make_unique<KernelBench>(kWork, Sources{{"work.cu", kWorkSource}});
    ASSERT_TRUE(bench_->ok()) << bench_->prepared().message();
    bench_->input.policy.set_measure_energy(true);
  }

  // False where the device has no counter.
  bool Measure(const std::string& config, bool warm_cache, v1::Measurement* measurement) {
    bench_->input.policy.set_warm_cache(warm_cache);
    const Result result = bench_->Run(config);
    EXPECT_EQ(v1::Outcome_Name(result.outcome()), "OUTCOME_OK") << result.message();
    *measurement = result.measurement();
    const v1::Energy& energy = measurement->energy();
    std::printf("%s%s: %.1f us, %.4g mJ (%.4g to %.4g), %.1f W, idle %.1f W, %d batches of %.2f s, %.1f s in all %s\n",
                config.c_str(), warm_cache ? " warm" : " cold", measurement->median_ns() / 1e3, energy.millijoules(),
                energy.ci_low_millijoules(), energy.ci_high_millijoules(), energy.power_watts(),
                energy.idle_power_watts(), energy.batches(), energy.batch_seconds(), result.measure_ms() / 1e3,
                energy.missing_because().c_str());
    EXPECT_LT(result.measure_ms(), kEnergyMsMax);
    return energy.missing_because() != kNoEnergyCounter;
  }

  using Sources = std::vector<std::pair<std::string, std::string>>;
  std::unique_ptr<KernelBench> bench_;
};

TEST_F(EnergyOfLaunches, IsMeasuredOnlyWhereThePolicyAsks) {
  bench_->input.policy.set_measure_energy(false);
  EXPECT_FALSE(bench_->Run("ROUNDS=100").measurement().has_energy());
}

TEST_F(EnergyOfLaunches, GrowsWithTheWorkAndIsNotThatOfTheFlush) {
  v1::Measurement once, twice, warm;
  if (!Measure("ROUNDS=20000", false, &once)) GTEST_SKIP() << kNoEnergyCounter;
  ASSERT_TRUE(Measure("ROUNDS=40000", false, &twice));
  ASSERT_TRUE(Measure("ROUNDS=20000", true, &warm));
  for (const v1::Measurement* m : {&once, &twice, &warm}) {
    const v1::Energy& energy = m->energy();
    ASSERT_EQ(energy.missing_because(), "");
    EXPECT_EQ(energy.batches(), 3);
    EXPECT_GE(energy.batch_seconds(), 2);
    EXPECT_LT(energy.batch_seconds(), 3);
    EXPECT_GT(energy.idle_power_watts(), 0);
    EXPECT_GT(energy.power_watts(), energy.idle_power_watts());
    EXPECT_LE(energy.ci_low_millijoules(), energy.millijoules());
    EXPECT_GE(energy.ci_high_millijoules(), energy.millijoules());
    // A launch that fills the device draws more than the idle device and no more than its limit, below 1500 W.
    const double watts = energy.millijoules() / 1000 / (m->median_ns() / 1e9);
    EXPECT_GT(watts, energy.idle_power_watts());
    EXPECT_LT(watts, 1500);
  }
  const double ratio = twice.energy().millijoules() / once.energy().millijoules();
  EXPECT_GT(ratio, 1.6);
  EXPECT_LT(ratio, 2.4);
  // The launch works as long with warm caches: the flush is out of the figure.
  EXPECT_NEAR(warm.energy().millijoules() / once.energy().millijoules(), 1, 0.3);
}

TEST_F(EnergyOfLaunches, OfAShortLaunchIsFoundBehindALongFlush) {
  v1::Measurement m;
  if (!Measure("ROUNDS=100", false, &m)) GTEST_SKIP() << kNoEnergyCounter;
  EXPECT_EQ(m.method(), v1::TIMING_METHOD_CUDA_GRAPH);
  EXPECT_GT(m.energy().millijoules(), 0) << m.energy().missing_because();
  EXPECT_LT(m.energy().millijoules() / 1000 / (m.median_ns() / 1e9), 3000) << "W, where the flush was not subtracted";
}

}  // namespace
}  // namespace tunefarm
