// Samples beside a yardstick: each has a neighbour, and neither finds the other's results.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/gpu/kernel_bench.h"

namespace tunefarm {
namespace {

using tunefarm::worker::v1::Result;

// SKIPS: after four launches it leaves the outputs as it finds them.
constexpr const char* kScale = R"pb(
  display_name: "scale"
  language: LANGUAGE_CUDA
  sources { path: "scale.cu" }
  parameters {
    name: "BLOCK"
    values { ints: [ 256, 128 ] }
  }
  parameters {
    name: "SKIPS"
    values { ints: [ 0, 1 ] }
  }
  arguments {
    name: "x"
    buffer {
      data_type: DATA_TYPE_F32
      length: "65536"
      access: ACCESS_IN
      fill { uniform { low: 1 high: 2 } }
    }
  }
  arguments {
    name: "y"
    buffer { data_type: DATA_TYPE_F32 length: "65536" access: ACCESS_OUT }
  }
  launches {
    kernel {
      entry: "scale"
      grid: "65536 // BLOCK"
      block: "BLOCK"
      arguments: [ "x", "y" ]
    }
  }
  reference {
    steps {
      kernel {
        entry: "reference"
        grid: "256"
        block: "256"
        arguments: [ "x", "y" ]
      }
    }
  }
  tolerance { atol: 0 rtol: 0 }
)pb";

constexpr const char* kScaleSource = R"cu(
__device__ int launches = 0;
extern "C" __global__ void scale(const float* x, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
#if SKIPS
  if (launches > 3) return;
  if (i == 0) ++launches;
#endif
  y[i] = 2 * x[i];
}
extern "C" __global__ void reference(const float* x, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = 2 * x[i];
}
)cu";

class YardstickTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (TheGpu(&why) == nullptr) GTEST_SKIP() << why;
    bench_ = std::make_unique<KernelBench>(
        kScale, std::vector<std::pair<std::string, std::string>>{{"scale.cu", kScaleSource}});
    ASSERT_TRUE(bench_->ok()) << bench_->prepared().message();
    const PreparedKernel& kernel = bench_->kernel();
    bench_->input.keep_samples = true;
    bench_->input.yardstick = {kernel.plan->DefaultConfig(kernel.problem), kernel.reference_artifact,
                               kernel.reference_lowered_names};
  }

  std::unique_ptr<KernelBench> bench_;
};

// The order within a pair is drawn: the last sample's outputs are checked whichever launch comes last.
TEST_F(YardstickTest, EverySampleHasANeighbour) {
  for (int run = 0; run < 20; ++run) {
    const Result result = bench_->Run(run % 2 == 0 ? "BLOCK=128" : "");
    ASSERT_EQ(v1::Outcome_Name(result.outcome()), "OUTCOME_OK") << run << ": " << result.message();
    const v1::Measurement& measurement = result.measurement();
    ASSERT_GT(measurement.sample_ns_size(), 0);
    EXPECT_EQ(measurement.yardstick_ns_size(), measurement.sample_ns_size());
    for (const float time : measurement.yardstick_ns()) EXPECT_GT(time, 0);
    int samples = 0;
    for (const v1::MeasurementBlock& block : measurement.blocks()) samples += block.samples();
    EXPECT_EQ(samples, measurement.samples());
  }
}

TEST_F(YardstickTest, ItsResultsAreNotTakenForThoseOfTheConfig) {
  for (int run = 0; run < 10; ++run) {
    EXPECT_EQ(v1::Outcome_Name(bench_->Run("SKIPS=1").outcome()), "OUTCOME_WRONG_RESULT") << run;
  }
}

TEST_F(YardstickTest, WithWarmCachesEachIsMeasuredAlone) {
  bench_->input.policy.set_warm_cache(true);
  const Result result = bench_->Run("BLOCK=128");
  EXPECT_EQ(v1::Outcome_Name(result.outcome()), "OUTCOME_OK") << result.message();
  EXPECT_EQ(result.measurement().yardstick_ns_size(), 0);
}

}  // namespace
}  // namespace tunefarm
