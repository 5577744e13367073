// Kernels on the users' own data: buffers filled from files, and outputs compared with one.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/base/status.h"
#include "tests/gpu/kernel_bench.h"

namespace tunefarm {
namespace {

using tunefarm::v1::Outcome;
using tunefarm::worker::v1::Prepared;
using tunefarm::worker::v1::Result;

// 20 MiB for each file, which is more than is copied at once.
constexpr size_t kElements = size_t{5} << 20;
constexpr int32_t kLast = static_cast<int32_t>(kElements) - 1;

std::string DigestOf(char digit) { return std::string(64, digit); }

std::string File(char digit) {
  return "file { path: \"" + std::string(1, digit) + ".npy\" digest: \"" + DigestOf(digit) +
         "\" bytes: " + std::to_string(4 * kElements) + " }";
}

std::string Definition() {
  return R"(
    display_name: "gather"
    language: LANGUAGE_CUDA
    sources { path: "gather.cu" }
    dims { name: "N" default_value { int_value: 5242880 } }
    parameters { name: "MODE" values { strings: ["good", "wrong", "unwritten", "writes_input"] } }
    arguments { name: "index" buffer { data_type: DATA_TYPE_I32 length: "N" access: ACCESS_IN index_limit: "N"
                                       fill { )" +
         File('a') + R"( } } }
    arguments { name: "x" buffer { data_type: DATA_TYPE_U32 length: "N" access: ACCESS_IN fill { )" +
         File('b') + R"( } } }
    arguments { name: "total" buffer { data_type: DATA_TYPE_I32 length: "N" access: ACCESS_INOUT
                                       restore: RESTORE_PER_SAMPLE fill { )" +
         File('a') + R"( } } }
    arguments { name: "y" buffer { data_type: DATA_TYPE_U32 length: "N" access: ACCESS_OUT } }
    launches { kernel { entry: "gather" grid: "N // 128" block: "128" arguments: ["index", "x", "total", "y"] } }
    reference { files { buffer: "y" )" +
         File('c') + R"( } files { buffer: "total" )" + File('d') + " } }";
}

constexpr const char* kSource = R"cu(
extern "C" __global__ void gather(const int* index, unsigned* x, int* total, unsigned* y) {
  const int i = blockIdx.x * 128 + threadIdx.x;
  total[i] += 1;
#if defined(MODE_unwritten)
  if (x[index[i]] == 0xA5A5A5A5u) return;
#endif
  y[i] = x[index[i]];
#if defined(MODE_wrong)
  if (i == 4711) ++y[i];
#elif defined(MODE_writes_input)
  if (i == 4711) ++x[i];
#endif
}
)cu";

template <typename T>
std::string BytesOf(const std::vector<T>& elements) {
  return std::string(reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(T));
}

testing::AssertionResult Says(const std::string& message, const std::string& part) {
  if (message.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << message << "' lacks '" << part << "'";
}

// Counts the turns that a standby takes.
class TurnCounter final : public PhaseReporter {
 public:
  void Begin(v1::Phase) override {}
  void Log(std::string_view) override {}
  void TakeDevice() override { ++turns; }
  int turns = 0;
};

class DataFiles : public testing::Test {
 protected:
  DataFiles() : index_(kElements), x_(kElements), y_(kElements), total_(kElements) {
    for (size_t i = 0; i < kElements; ++i) {
      index_[i] = kLast - static_cast<int32_t>(i);
      x_[i] = static_cast<uint32_t>(i) * 2654435761u;
    }
    // A value that equals the poison is a value.
    x_[7] = 0xA5A5A5A5u;
    for (size_t i = 0; i < kElements; ++i) {
      y_[i] = x_[static_cast<size_t>(index_[i])];
      total_[i] = index_[i] + 1;
    }
  }

  void SetUp() override {
    std::string why;
    ASSERT_NE(TheGpu(&why), nullptr) << why;
  }

  KernelBench::DataFiles Files() const {
    return {{DigestOf('a'), BytesOf(index_)},
            {DigestOf('b'), BytesOf(x_)},
            {DigestOf('c'), BytesOf(y_)},
            {DigestOf('d'), BytesOf(total_)}};
  }
  std::unique_ptr<KernelBench> Bench(const KernelBench::DataFiles& files) const {
    return std::make_unique<KernelBench>(
        Definition(), std::vector<std::pair<std::string, std::string>>{{"gather.cu", kSource}}, v1::Problem(), files);
  }

  std::vector<int32_t> index_;
  std::vector<uint32_t> x_, y_;
  std::vector<int32_t> total_;
};

TEST_F(DataFiles, AreWhatKernelsRunOnAndAreComparedWith) {
  const std::unique_ptr<KernelBench> bench = Bench(Files());
  ASSERT_TRUE(bench->ok()) << bench->prepared().message();
  const Result good = bench->Run("MODE=good");
  EXPECT_EQ(good.outcome(), v1::OUTCOME_OK) << good.message();
  EXPECT_EQ(good.verification().elements(), 2 * kElements);
  const Result wrong = bench->Run("MODE=wrong");
  EXPECT_EQ(wrong.outcome(), v1::OUTCOME_WRONG_RESULT) << wrong.message();
  EXPECT_TRUE(Says(wrong.message(), "y[4711]"));
  const Result unwritten = bench->Run("MODE=unwritten");
  EXPECT_EQ(unwritten.outcome(), v1::OUTCOME_WRONG_RESULT) << unwritten.message();
  EXPECT_TRUE(Says(unwritten.message(), "was never written"));
  const Result changed = bench->Run("MODE=writes_input");
  EXPECT_EQ(changed.outcome(), v1::OUTCOME_OUT_OF_BOUNDS) << changed.message();
  // The data are read again.
  const Result again = bench->Run("MODE=good");
  EXPECT_EQ(again.outcome(), v1::OUTCOME_OK) << again.message();
  EXPECT_EQ(TheGpu(nullptr)->run->ExpectedOutputs(int64_t{1} << 30), "") << "others read the files";
}

TEST_F(DataFiles, AStandbyYieldsTheDeviceWhileItReads) {
  const std::unique_ptr<KernelBench> bench = Bench(Files());
  ASSERT_TRUE(bench->ok()) << bench->prepared().message();
  WorkerOptions options;
  options.device_uuid = TheGpu(nullptr)->device.uuid();
  options.warm_start = TheGpu(nullptr)->run->warm_start();
  const absl::StatusOr<std::unique_ptr<RunBackend>> second = MakeCudaRunBackend(options);
  ASSERT_TRUE(second.ok()) << MessageOf(second.status());
  auto kernel = std::make_shared<PreparedKernel>(bench->kernel());
  kernel->standby = true;
  TurnCounter counter;
  const Prepared prepared = (*second)->Prepare(kernel, &counter);
  ASSERT_TRUE(prepared.ok()) << prepared.message();
  // Three inputs and two outputs of two parts each.
  EXPECT_GE(counter.turns, 10);
  QuietReporter reporter;
  EXPECT_EQ(bench->Run("MODE=good").outcome(), v1::OUTCOME_OK);
  const Result result = (*second)->Run(bench->input, &reporter);
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.message();
}

TEST_F(DataFiles, AreReadOnceForAllSeeds) {
  const std::unique_ptr<KernelBench> bench = Bench(Files());
  ASSERT_TRUE(bench->ok()) << bench->prepared().message();
  EXPECT_EQ(bench->Run("MODE=good").outcome(), v1::OUTCOME_OK);
  WorkerOptions options;
  options.device_uuid = TheGpu(nullptr)->device.uuid();
  options.warm_start = TheGpu(nullptr)->run->warm_start();
  const absl::StatusOr<std::unique_ptr<RunBackend>> second = MakeCudaRunBackend(options);
  ASSERT_TRUE(second.ok()) << MessageOf(second.status());
  auto kernel = std::make_shared<PreparedKernel>(bench->kernel());
  QuietReporter reporter;
  const Prepared prepared = (*second)->Prepare(kernel, &reporter);
  ASSERT_TRUE(prepared.ok()) << prepared.message();
  kernel->data_files.clear();  // reading would fail from here on
  RunInput input = bench->input;
  input.second_input_seed = input.input_seed + 1;
  for (int trial = 0; trial < 2; ++trial) {
    const Result result = (*second)->Run(input, &reporter);
    EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.message();
  }
}

TEST_F(DataFiles, ThatDoNotFitAreRefusedInOneSentence) {
  const auto expect = [this](const KernelBench::DataFiles& files, Outcome outcome, const std::string& message) {
    const std::unique_ptr<KernelBench> bench = Bench(files);
    EXPECT_FALSE(bench->ok());
    EXPECT_EQ(bench->prepared().outcome(), outcome);
    EXPECT_TRUE(Says(bench->prepared().message(), message));
    EXPECT_FALSE(bench->prepared().worker_is_damaged());
  };
  KernelBench::DataFiles files = Files();
  files[DigestOf('b')].resize(100);
  expect(files, v1::OUTCOME_LOST, "is damaged: its copy on this machine has 100 of 20971520 bytes");
  files.erase(DigestOf('b'));
  expect(files, v1::OUTCOME_LOST, "The file b.npy of buffer x was not handed to the worker.");
  // In the second part.
  index_[kElements - 2] = kLast + 1;
  expect(Files(), v1::OUTCOME_INFEASIBLE_LAUNCH, "index[5242878] is 5242880, but the kernel indexes memory with it");
}

}  // namespace
}  // namespace tunefarm
