// What a standby and a successor rest on: the health check, and what they take over from the runner before them.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/base/status.h"
#include "tests/gpu/kernel_bench.h"

namespace tunefarm {
namespace {

using tunefarm::v1::OUTCOME_OK;
using tunefarm::v1::OUTCOME_WRONG_RESULT;
using tunefarm::worker::v1::HealthReport;
using tunefarm::worker::v1::Prepared;
using tunefarm::worker::v1::Result;

// Every byte value is an output, the poison's too: the reference must be kept under both patterns.
constexpr const char* kDefinition = R"pb(
  display_name: "bytes"
  language: LANGUAGE_CUDA
  sources { path: "bytes.cu" }
  dims {
    name: "N"
    default_value { int_value: 65536 }
  }
  parameters {
    name: "MODE"
    values { strings: [ "good", "wrong", "unwritten" ] }
  }
  arguments {
    name: "y"
    buffer { data_type: DATA_TYPE_U8 length: "N" access: ACCESS_OUT }
  }
  launches {
    kernel {
      entry: "bytes"
      grid: "N // 128"
      block: "128"
      arguments: [ "y" ]
    }
  }
  reference {
    steps {
      kernel {
        entry: "reference"
        grid: "N // 128"
        block: "128"
        arguments: [ "y" ]
      }
    }
  }
)pb";

constexpr const char* kSource = R"cu(
extern "C" __global__ void bytes(unsigned char* y) {
  const int i = blockIdx.x * 128 + threadIdx.x;
#if defined(MODE_unwritten)
  if ((unsigned char)i == 0xa5) return;
#endif
  y[i] = (unsigned char)i;
#if defined(MODE_wrong)
  if (i == 4711) ++y[i];
#endif
}
extern "C" __global__ void reference(unsigned char* y) {
  const int i = blockIdx.x * 128 + threadIdx.x;
  y[i] = (unsigned char)i;
}
)cu";

class Standby : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    ASSERT_NE(TheGpu(&why), nullptr) << why;
    bench_ = std::make_unique<KernelBench>(kDefinition,
                                           std::vector<std::pair<std::string, std::string>>{{"bytes.cu", kSource}});
    ASSERT_TRUE(bench_->ok()) << bench_->prepared().message();
  }

  // A second worker on the same device, as a standby is.
  std::unique_ptr<RunBackend> Second() {
    WorkerOptions options;
    options.device_uuid = TheGpu(nullptr)->device.uuid();
    options.warm_start = TheGpu(nullptr)->run->warm_start();
    absl::StatusOr<std::unique_ptr<RunBackend>> second = MakeCudaRunBackend(options);
    EXPECT_TRUE(second.ok()) << MessageOf(second.status());
    return *std::move(second);
  }

  // What a standby is asked to prepare; its reference's binary is no binary, so that it can only take what it is given.
  std::shared_ptr<PreparedKernel> WithoutReference(std::string expected) {
    auto kernel = std::make_shared<PreparedKernel>(bench_->kernel());
    kernel->reference_artifact = "this is no binary";
    kernel->expected_outputs = std::move(expected);
    kernel->standby = true;
    return kernel;
  }

  std::unique_ptr<KernelBench> bench_;
};

// Counts the turns that a standby takes, and sees that they do not overlap.
class TurnsReporter final : public PhaseReporter {
 public:
  void Begin(tunefarm::v1::Phase) override {}
  void Log(std::string_view) override {}
  void TakeDevice() override {
    EXPECT_FALSE(holds_);
    holds_ = true;
    ++turns_;
  }
  void YieldDevice() override {
    EXPECT_TRUE(holds_);
    holds_ = false;
  }
  int turns() const { return turns_; }

 private:
  bool holds_ = false;
  int turns_ = 0;
};

TEST_F(Standby, HealthCheckFindsTheDeviceSound) {
  const HealthReport first = TheGpu(nullptr)->run->CheckHealth();
  EXPECT_TRUE(first.ok()) << first.message();
  const HealthReport second = Second()->CheckHealth();
  EXPECT_TRUE(second.ok()) << second.message();
  EXPECT_GT(first.nanoseconds(), 10e3);
  EXPECT_LT(second.nanoseconds(), 2 * first.nanoseconds());
  EXPECT_LT(first.nanoseconds(), 2 * second.nanoseconds());
  RecordProperty("health_ns", std::to_string(second.nanoseconds()));
}

TEST_F(Standby, TakesTheReferencesOutputsFromAnother) {
  const std::string expected = TheGpu(nullptr)->run->ExpectedOutputs(1 << 20);
  ASSERT_GT(expected.size(), 2u * 65536) << "under both poisons";
  EXPECT_EQ(TheGpu(nullptr)->run->ExpectedOutputs(65536), "") << "beyond the bound";
  const std::unique_ptr<RunBackend> second = Second();
  TurnsReporter turns;
  const Prepared prepared = second->Prepare(WithoutReference(expected), &turns);
  ASSERT_TRUE(prepared.ok()) << prepared.message();
  EXPECT_GE(turns.turns(), 2);
  QuietReporter reporter;
  EXPECT_EQ(bench_->Run("MODE=good").outcome(), OUTCOME_OK);
  Result result = second->Run(bench_->input, &reporter);
  EXPECT_EQ(result.outcome(), OUTCOME_OK) << result.message();
  for (const char* mode : {"MODE=wrong", "MODE=unwritten"}) {
    EXPECT_EQ(bench_->Run(mode).outcome(), OUTCOME_WRONG_RESULT) << mode;
    result = second->Run(bench_->input, &reporter);
    EXPECT_EQ(result.outcome(), OUTCOME_WRONG_RESULT) << mode << ": " << result.message();
  }
}

TEST_F(Standby, OutputsThatAreNotWholeOrOfAnotherSeedAreNotTaken) {
  std::string damaged = TheGpu(nullptr)->run->ExpectedOutputs(1 << 20);
  ASSERT_FALSE(damaged.empty());
  const std::unique_ptr<RunBackend> second = Second();
  QuietReporter reporter;
  auto other_seed = WithoutReference(damaged);
  other_seed->input_seed = 99;
  EXPECT_FALSE(second->Prepare(other_seed, &reporter).ok());
  damaged[damaged.size() / 2] ^= 1;
  EXPECT_FALSE(second->Prepare(WithoutReference(damaged), &reporter).ok());
  auto with_reference = WithoutReference(damaged);
  with_reference->reference_artifact = bench_->kernel().reference_artifact;
  const Prepared prepared = second->Prepare(with_reference, &reporter);
  EXPECT_TRUE(prepared.ok()) << prepared.message();
}

}  // namespace
}  // namespace tunefarm
