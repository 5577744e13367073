// The parts that a host trial's process is made of: what is sent to it, how its samples are handed out, and which
// memory it shares.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/worker/host/kernel_calls.h"
#include "server/worker/host/trial/sample_batches.h"
#include "server/worker/host/unforked_bytes.h"
#include "tests/unit/worker/host_kernel.h"

namespace tunefarm {
namespace {

TEST(HostSequencesTest, ArriveAsTheyWere) {
  std::array<std::byte, 16> memory = {};
  HostSequences sent;
  HostCall& kernel = sent.launches.emplace_back();
  kernel.symbol = "run";
  kernel.types = {v1::DATA_TYPE_UNSPECIFIED, v1::DATA_TYPE_I32};
  kernel.values = {{std::byte{1}}, {std::byte{2}, std::byte{3}}};
  HostCall& clear = sent.prepare.emplace_back();
  clear.kind = StepPlan::Kind::kMemset;
  clear.timed = false;
  clear.memset_target = memory;
  clear.memset_byte = 7;
  const std::string bytes = EncodeSequences(sent);
  HostSequences got;
  ASSERT_TRUE(DecodeSequences(bytes, &got));
  ASSERT_EQ(got.launches.size(), 1u);
  EXPECT_EQ(got.launches[0].symbol, "run");
  EXPECT_TRUE(got.launches[0].timed);
  EXPECT_EQ(got.launches[0].types, kernel.types);
  EXPECT_EQ(got.launches[0].values, kernel.values);
  ASSERT_EQ(got.prepare.size(), 1u);
  EXPECT_EQ(got.prepare[0].kind, StepPlan::Kind::kMemset);
  EXPECT_FALSE(got.prepare[0].timed);
  EXPECT_EQ(got.prepare[0].memset_target.data(), memory.data());
  EXPECT_EQ(got.prepare[0].memset_target.size(), memory.size());
  EXPECT_EQ(got.prepare[0].memset_byte, 7);
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(DecodeSequences(bytes.substr(0, length), &got)) << length;
  }
}

TEST(HostSequencesTest, StretchesRunApart) {
  std::array<std::byte, 4> memory = {};
  std::vector<HostCall> planned(4);
  const bool timed[] = {false, true, true, false};
  for (size_t i = 0; i < planned.size(); ++i) {
    planned[i].kind = StepPlan::Kind::kMemset;
    planned[i].timed = timed[i];
    planned[i].memset_target = std::span(memory).subspan(i, 1);
    planned[i].memset_byte = static_cast<uint8_t>(i + 1);
  }
  EXPECT_EQ(StretchesOf(planned), (std::vector<bool>{false, true, false}));
  EXPECT_TRUE(StretchesOf({}).empty());
  absl::StatusOr<KernelCalls> calls = KernelCalls::Resolve(nullptr, planned);
  ASSERT_TRUE(calls.ok());
  const auto after = [&](size_t stretch) {
    memory = {};
    calls->RunStretch(stretch);
    return std::vector<int>{static_cast<int>(memory[0]), static_cast<int>(memory[1]), static_cast<int>(memory[2]),
                            static_cast<int>(memory[3])};
  };
  EXPECT_EQ(after(0), (std::vector<int>{1, 0, 0, 0}));
  EXPECT_EQ(after(1), (std::vector<int>{0, 2, 3, 0}));
  EXPECT_EQ(after(2), (std::vector<int>{0, 0, 0, 4}));
  EXPECT_EQ(after(3), (std::vector<int>{0, 0, 0, 0}));
}

SamplingOptions ExactlySamples(int count) {
  SamplingOptions options;
  options.policy.set_min_samples(count);
  options.policy.set_max_samples(count);
  options.policy.set_time_budget_ms(60'000);
  options.policy.set_no_early_stop(true);
  options.policy.set_first_look_samples(count);
  options.keep_samples = true;
  return options;
}

TEST(SampleBatchesTest, ManyShortSamplesAreTakenAtOnceAndCountOneByOne) {
  std::vector<int> asked;
  int64_t next = 0;
  SampleBatches batches(100, false, [&](int samples) -> std::optional<std::vector<int64_t>> {
    asked.push_back(samples);
    // Sure to take longer than is claimed.
    const MonotonicTime start = Clock::Real()->Now();
    while (Clock::Real()->Now() - start < std::chrono::microseconds(100)) {
    }
    std::vector<int64_t> claimed;
    for (int i = 0; i < samples; ++i) claimed.push_back(++next);
    return claimed;
  });
  const SamplingResult result = RunSampling(ExactlySamples(10), batches.clock(),
                                            [&batches](int, int until_look) { return batches.Next(until_look); });
  EXPECT_FALSE(result.failed);
  EXPECT_FALSE(result.implausible);
  EXPECT_EQ(asked, std::vector<int>{10});
  EXPECT_THAT(result.measurement.sample_ns(), ::testing::ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
}

TEST(SampleBatchesTest, LongSamplesAndThoseWithWorkBetweenComeOneByOne) {
  for (const auto& [sample_ns, one_by_one] : {std::pair(1e9, false), std::pair(10.0, true)}) {
    std::vector<int> asked;
    SampleBatches batches(sample_ns, one_by_one, [&](int samples) -> std::optional<std::vector<int64_t>> {
      asked.push_back(samples);
      return std::vector<int64_t>{1};
    });
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(batches.Next(10).has_value());
    EXPECT_EQ(asked, (std::vector<int>{1, 1, 1}));
  }
}

TEST(SampleBatchesTest, ClaimsThatCannotBeAreSeen) {
  const std::vector<int64_t> claims[] = {
      {1, int64_t{1} << 60, 1}, {1, -5, 1}, {0, 1, 1}, {INT64_MIN, INT64_MIN, 1}, {INT64_MAX, INT64_MAX, INT64_MAX}};
  for (const std::vector<int64_t>& claim : claims) {
    SampleBatches batches(10, false, [&](int) -> std::optional<std::vector<int64_t>> { return claim; });
    const SamplingResult result = RunSampling(ExactlySamples(3), batches.clock(),
                                              [&batches](int, int until_look) { return batches.Next(until_look); });
    EXPECT_TRUE(result.implausible) << claim[0] << ", " << claim[1];
  }
}

TEST(SampleBatchesTest, AProcessThatFailsEndsIt) {
  SampleBatches batches(10, false, [](int) { return std::nullopt; });
  EXPECT_FALSE(batches.Next(3).has_value());
}

// How a fork ends that reads the last byte.
int EndOfForkReading(const UnforkedBytes& bytes) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    _exit(static_cast<int>(const_cast<const volatile std::byte&>(bytes.back())));
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

TEST(UnforkedBytesTest, ForksGetWhatIsSharedWithThem) {
  for (const size_t bytes : {size_t{1}, size_t{100}, size_t{300'000}}) {
    UnforkedBytes expected(bytes, std::byte{3});
    EXPECT_EQ(EndOfForkReading(expected), -SIGSEGV) << bytes;
    ShareWithForks(expected);
    EXPECT_EQ(EndOfForkReading(expected), 3) << bytes;
    expected.resize(2 * bytes, std::byte{5});
    EXPECT_EQ(EndOfForkReading(expected), -SIGSEGV) << bytes;
    EXPECT_EQ(expected[bytes - 1], std::byte{3});
  }
}

constexpr char kLargeDefinition[] = R"(
  display_name: "large"
  language: LANGUAGE_HOST_CXX
  sources { path: "large.cc" }
  dims { name: "N" default_value { int_value: 200000 } }
  parameters { name: "USELESS" range { first: 0 last: 9 } bind: BIND_RUN }
  arguments { name: "y" buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_INOUT restore: RESTORE_PER_SAMPLE } }
  arguments { name: "n" scalar { data_type: DATA_TYPE_I64 value: "N" } }
  launches { kernel { entry: "run" arguments: ["y", "n"] } }
  reference { steps { kernel { entry: "run" arguments: ["y", "n"] } } }
)";

constexpr char kLargeSource[] = R"(
extern "C" void run(float* y, long n) { for (long i = 0; i < n; ++i) y[i] = y[i] * 0.5f + 1; }
)";

TEST(UnforkedBytesTest, TrialsHaveTheDataThatTheyCopy) {
  HostKernel kernel(kLargeDefinition, kLargeSource);
  const worker::v1::Prepared prepared = kernel.Prepare();
  ASSERT_TRUE(prepared.ok()) << prepared.message();
  std::string artifact;
  ASSERT_EQ(kernel.Compile(kernel.DefaultConfig(), &artifact).outcome(), v1::OUTCOME_OK);
  for (int i = 0; i < 3; ++i) {
    RunInput input = HostKernel::Input();
    input.config = kernel.DefaultConfig();
    input.artifact = artifact;
    const worker::v1::Result result = kernel.Run(input);
    EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.message();
  }
}

}  // namespace
}  // namespace tunefarm
