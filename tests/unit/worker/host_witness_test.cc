// Kernels that do their work only where they believe that it is looked at: none gets a time that is not true.

#include "server/worker/host/host_witness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <thread>
#include <vector>

#include "tests/unit/worker/host_kernel.h"

namespace tunefarm {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

TEST(HostSlackTest, GrowsWithWhatAFirstLaunchPaysFor) {
  // Of a launch of a second in which so many helpers are busy all the time.
  const auto slack_ns = [](bool is_cold, size_t buffer_bytes, int busy_helpers) {
    const WitnessedTime time{.wall_ns = 1e9, .others_busy_ns = 1e9 * busy_helpers, .helpers = busy_helpers};
    return SlackOf(HostSlack(is_cold, buffer_bytes), time, 1e9);
  };
  const double least_ns = slack_ns(true, 0, 0);
  EXPECT_GT(slack_ns(true, 1 << 20, 0), least_ns);
  EXPECT_GT(slack_ns(false, 1 << 20, 0), slack_ns(true, 1 << 20, 0)) << "cold caches are as cold in samples";
  EXPECT_EQ(slack_ns(true, 1 << 30, 0), slack_ns(true, size_t{1} << 40, 0)) << "of large buffers it is bounded";
  for (const bool is_cold : {true, false}) {
    EXPECT_GT(HostSlack(is_cold, 1 << 20).memory_overhead_max_ns, 0);
    EXPECT_EQ(HostSlack(is_cold, 1 << 30).memory_overhead_max_ns,
              HostSlack(is_cold, size_t{1} << 40).memory_overhead_max_ns);
  }
  EXPECT_GT(slack_ns(true, 0, 1), least_ns);
  EXPECT_GT(slack_ns(false, 1 << 20, 0), least_ns);
  EXPECT_GT(slack_ns(false, 1 << 20, 1) - slack_ns(true, 0, 1), slack_ns(false, 1 << 20, 0) - least_ns)
      << "another core has written the bytes";
  EXPECT_EQ(slack_ns(false, 1 << 30, 0), slack_ns(false, size_t{1} << 40, 0)) << "of large buffers it is bounded";
}

TEST(NothingProcessTest, LaunchesTakeNothingButOverhead) {
  const auto process = NothingProcess::Start({.threads = 4});
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ((*process)->options(), NothingOptions{.threads = 4});
  for (const double busy_ns : {0.0, 3e6}) {
    const auto time = (*process)->Launch(busy_ns);
    ASSERT_TRUE(time.ok()) << time.status();
    EXPECT_EQ(time->helpers, 3);
    EXPECT_FALSE(time->on_device);
    EXPECT_GT(time->wall_ns, 0);
  }
}

TEST(NothingProcessTest, ReadsCountByWhatTheyTakeInSamples) {
  const std::vector<std::byte> memory(64 << 20);
  NothingOptions options = {.processor = sched_getcpu(), .memory = {memory}};
  for (const size_t flush_bytes : {size_t{0}, size_t{1}}) {
    options.flush_bytes = flush_bytes;
    const auto process = NothingProcess::Start(options);
    ASSERT_TRUE(process.ok()) << process.status();
    EXPECT_TRUE((*process)->Read().ok());
    for (const double busy_ns : {0.0, 1e5, 50e6}) {
      const auto time = (*process)->Launch(busy_ns, 0.5);
      ASSERT_TRUE(time.ok()) << time.status();
      EXPECT_GE(time->wall_ns, 0);
      EXPECT_GE(time->busy_ns, 0);
    }
  }
}

TEST(NothingProcessTest, WhatLaunchesAreLikeIsCompared) {
  const std::vector<std::byte> memory(128);
  const NothingOptions options = {.threads = 2, .processor = 1, .memory = {memory}, .flush_bytes = 7};
  EXPECT_EQ(options, options);
  for (const auto change :
       {+[](NothingOptions& other) { other.threads = 1; }, +[](NothingOptions& other) { other.processor = 0; },
        +[](NothingOptions& other) { other.memory[0] = other.memory[0].first(64); },
        +[](NothingOptions& other) { other.memory.clear(); }, +[](NothingOptions& other) { other.flush_bytes = 0; }}) {
    NothingOptions other = options;
    change(other);
    EXPECT_FALSE(other == options);
  }
}

TEST(WitnessFailureTest, OnlyATimeThatStandsIsNone) {
  WitnessVerdict verdict;
  verdict.claimed_ns = 1e3;
  verdict.witnessed_ns = 1e6;
  verdict.launches = 27;
  EXPECT_FALSE(FailureOf(verdict, true));
  verdict.unsettled = true;
  Failure failure = FailureOf(verdict, true);
  EXPECT_EQ(failure.outcome, v1::OUTCOME_LOST) << "it says nothing about the config";
  EXPECT_THAT(failure.message, HasSubstr("27 launches"));
  verdict.unsettled = false;
  verdict.contradicted = true;
  failure = FailureOf(verdict, true);
  EXPECT_EQ(failure.outcome, v1::OUTCOME_WRONG_RESULT);
  EXPECT_THAT(failure.message, HasSubstr("27 launches"));
  EXPECT_THAT(FailureOf(verdict, false).message, HasSubstr("RESTORE_PER_SAMPLE"));
  verdict.failure = {v1::OUTCOME_RUN_CRASH, "It crashed."};
  EXPECT_EQ(FailureOf(verdict, true).message, "It crashed.");
}

// y = 2 x after some milliseconds of work. DOES comes when a config runs: every config has the same binary.
constexpr char kDefinition[] = R"(
  display_name: "lazy"
  language: LANGUAGE_HOST_CXX
  sources { path: "lazy.cc" }
  dims { name: "N" default_value { int_value: 1000 } }
  parameters { name: "DOES" range { first: 0 last: 9 } bind: BIND_RUN }
  arguments { name: "x" buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_IN } }
  arguments { name: "y" buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_OUT } }
  arguments { name: "n" scalar { data_type: DATA_TYPE_I64 value: "N" } }
  arguments { name: "does" scalar { data_type: DATA_TYPE_I32 value: "DOES" } }
  launches { kernel { entry: "run" arguments: ["x", "y", "n", "does"] } }
  reference { steps { kernel { entry: "reference" arguments: ["x", "y", "n"] } } }
)";

constexpr char kSource[] = R"(
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <map>
#include <thread>
#include <vector>

extern "C" void reference(const float* x, float* y, long n) {
  for (long i = 0; i < n; ++i) y[i] = 2 * x[i];
}

static void Work(const float* x, float* y, long n, int times = 1) {
  for (volatile int i = 0; i < 5000000 * times; i = i + 1) {
  }
  reference(x, y, n);
}

static std::map<float, std::vector<float>> kept;
static bool is_done = false;
static bool is_ending = false;
static volatile int launches = 0;

extern "C" void run(const float* x, float* y, long n, int does) {
  launches = launches + 1;
  switch (does) {
    case 1:
      if (y[n - 1] != y[n - 1]) Work(x, y, n);
      return;
    case 2:
      if (kept.empty()) {
        Work(x, y, n);
        kept[0].assign(y, y + n);
      }
      memcpy(y, kept[0].data(), n * sizeof(float));
      return;
    case 3:
      if (!is_done) Work(x, y, n);
      is_done = true;
      return;
    case 4: {
      std::vector<float>& mine = kept[x[0]];
      if (mine.empty()) {
        Work(x, y, n);
        mine.assign(y, y + n);
      }
      memcpy(y, mine.data(), n * sizeof(float));
      return;
    }
    case 5:
      // Much later than anybody looks.
      std::thread(Work, x, y, n, 50).detach();
      return;
    case 6:
      if (launches % 2 == 1) Work(x, y, n);
      return;
    case 7:
      if (!is_ending) {
        std::thread([end = launches + 5] {
          while (launches < end) {
          }
          _exit(0);
        }).detach();
      }
      is_ending = true;
      Work(x, y, n);
      return;
    case 8:
      // As if something that is not seen worked meanwhile.
      if (y[n - 1] != y[n - 1]) poll(nullptr, 0, 3);
      reference(x, y, n);
      return;
    default:
      Work(x, y, n);
  }
}
)";

enum { kHonest, kUnlessPoisoned, kFirstResult, kOnce, kByInputs, kAsynchronous, kAlternates, kEnds, kSleeps };

// What is LOST says nothing of a kernel and is run again, as an agent does.
worker::v1::Result RunUntilJudged(CompiledHostKernel& kernel, const RunInput& input) {
  worker::v1::Result result = kernel.Run(input);
  for (int i = 1; i < 5 && result.outcome() == v1::OUTCOME_LOST; ++i) result = kernel.Run(input);
  return result;
}

class HostWitnessTest : public testing::TestWithParam<v1::HostIsolation> {
 protected:
  static void SetUpTestSuite() { kernel_ = new CompiledHostKernel(kDefinition, kSource); }
  static void TearDownTestSuite() { delete kernel_; }

  static worker::v1::Result Run(int64_t does, bool warm_cache, double race_limit_ns = 0) {
    RunInput input = kernel_->TrialInput();
    input.policy.set_host_isolation(GetParam());
    input.policy.set_warm_cache(warm_cache);
    input.config.Set("DOES", Value(does));
    input.race_limit_ns = race_limit_ns;
    return RunUntilJudged(*kernel_, input);
  }

  static CompiledHostKernel* kernel_;
};

CompiledHostKernel* HostWitnessTest::kernel_ = nullptr;

TEST_P(HostWitnessTest, HonestTimesStand) {
  for (int i = 0; i < 3; ++i) {
    for (const bool warm_cache : {false, true}) {
      const worker::v1::Result result = Run(kHonest, warm_cache);
      EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.message();
      EXPECT_GT(result.measurement().median_ns(), 0);
    }
  }
}

TEST_P(HostWitnessTest, WorkThatIsSkippedBetweenSamplesIsFound) {
  const std::pair<int, const char*> cases[] = {{kUnlessPoisoned, "timed from outside"},
                                               {kFirstResult, "On other inputs than before"},
                                               {kOnce, "right before the timing"},
                                               {kByInputs, "timed from outside"},
                                               {kSleeps, "timed from outside"}};
  for (const auto& [does, message] : cases) {
    const worker::v1::Result result = Run(does, true);
    EXPECT_EQ(result.outcome(), v1::OUTCOME_WRONG_RESULT) << does << ": " << result.message();
    EXPECT_THAT(result.message(), HasSubstr(message)) << does;
    EXPECT_FALSE(result.has_measurement()) << does;
    EXPECT_EQ(Run(kHonest, true).outcome(), v1::OUTCOME_OK) << "after " << does;
  }
}

TEST_P(HostWitnessTest, EverySampleFindsPoisonWhereCachesAreCold) {
  EXPECT_EQ(Run(kUnlessPoisoned, false).outcome(), v1::OUTCOME_OK) << "it does its work in every sample";
  EXPECT_EQ(Run(kAlternates, false).outcome(), v1::OUTCOME_WRONG_RESULT);
  EXPECT_EQ(Run(kFirstResult, false).outcome(), v1::OUTCOME_WRONG_RESULT);
  EXPECT_EQ(Run(kByInputs, false).outcome(), v1::OUTCOME_WRONG_RESULT);
}

TEST_P(HostWitnessTest, WorkLeftToAThreadIsMissing) {
  EXPECT_EQ(Run(kAsynchronous, true).outcome(), v1::OUTCOME_WRONG_RESULT);
}

TEST_P(HostWitnessTest, AProcessThatEndsIsACrash) {
  EXPECT_EQ(Run(kEnds, true).outcome(), v1::OUTCOME_RUN_CRASH);
  EXPECT_EQ(Run(kHonest, true).outcome(), v1::OUTCOME_OK);
}

TEST_P(HostWitnessTest, WhatCannotWinIsNotWitnessed) {
  const worker::v1::Result result = Run(kUnlessPoisoned, true, 1e-3);
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.message();
}

constexpr char kHonestDefinition[] = R"(
  display_name: "honest"
  language: LANGUAGE_HOST_CXX
  sources { path: "honest.cc" }
  dims { name: "N" default_value { int_value: 65536 } }
  parameters { name: "KIND" range { first: 0 last: 4 } bind: BIND_RUN }
  parameters { name: "COST" range { first: 0 last: 19 } bind: BIND_RUN }
  arguments { name: "x" buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_IN } }
  arguments { name: "y" buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_OUT } }
  arguments { name: "n" scalar { data_type: DATA_TYPE_I64 value: "N" } }
  arguments { name: "kind" scalar { data_type: DATA_TYPE_I32 value: "KIND" } }
  arguments { name: "rounds" scalar { data_type: DATA_TYPE_I64 value: "50 * 2 ** COST" } }
  launches { kernel { entry: "honest" arguments: ["x", "y", "n", "kind", "rounds"] } }
  reference { steps { kernel { entry: "reference" arguments: ["x", "y", "n"] } } }
)";

// What honest kernels do differently in a first launch: they allocate, start threads, build tables, and take longer on
// some inputs than on others.
constexpr char kHonestSource[] = R"(
#include <math.h>
#include <thread>
#include <vector>

extern "C" void reference(const float* x, float* y, long n) {
  for (long i = 0; i < n; ++i) y[i] = x[i] > 0 ? 2 * x[i] : -x[i];
}

static void Spend(long rounds) {
  for (volatile long i = 0; i < rounds; i = i + 1) {
  }
}

extern "C" void honest(const float* x, float* y, long n, int kind, long rounds) {
  switch (kind) {
    case 0:
      Spend(rounds);
      break;
    case 1: {
      std::vector<float> copy(x, x + n);
      Spend(rounds);
      reference(copy.data(), y, n);
      return;
    }
    case 2: {
      std::thread half([=] { reference(x, y, n / 2); Spend(rounds); });
      reference(x + n / 2, y + n / 2, n - n / 2);
      half.join();
      return;
    }
    case 3: {
      static std::vector<double> table;
      for (int i = static_cast<int>(table.size()); i < 100000; ++i) table.push_back(sqrt(i));
      Spend(rounds + (table[4] == 2));
      break;
    }
    default:
      Spend(rounds + static_cast<long>(0.2 * rounds * fabs(x[0] - floor(x[0]))));
  }
  reference(x, y, n);
}
)";

TEST(HonestTest, TwoHundredConfigsAreWitnessedAndNoneIsRefused) {
  CompiledHostKernel kernel(kHonestDefinition, kHonestSource);
  int ok = 0;
  for (const bool warm_cache : {false, true}) {
    for (int64_t kind = 0; kind < 5; ++kind) {
      for (int64_t cost = 0; cost < 20; ++cost) {
        RunInput input = kernel.TrialInput();
        input.policy.set_warm_cache(warm_cache);
        input.policy.set_time_budget_ms(50);
        input.policy.set_noisy_relative_half_width(-1);
        input.config.Set("KIND", Value(kind));
        input.config.Set("COST", Value(cost));
        const worker::v1::Result result = kernel.Run(input);
        // What a machine that is busy with something else leaves undecided.
        EXPECT_THAT(result.outcome(), AnyOf(v1::OUTCOME_OK, v1::OUTCOME_LOST))
            << "kind " << kind << ", cost " << cost << ": " << result.message();
        ok += result.outcome() == v1::OUTCOME_OK ? 1 : 0;
      }
    }
  }
  EXPECT_GE(ok, 190);
}

// Processes that compute without a pause, `for_each` for each processor of the machine.
class BusyProcesses {
 public:
  explicit BusyProcesses(unsigned for_each) {
    for (unsigned i = 0; i < for_each * std::thread::hardware_concurrency(); ++i) {
      const pid_t pid = fork();
      if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (true) {
        }
      }
      pids_.push_back(pid);
    }
  }
  ~BusyProcesses() {
    for (const pid_t pid : pids_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }
  BusyProcesses(const BusyProcesses&) = delete;
  BusyProcesses& operator=(const BusyProcesses&) = delete;

 private:
  std::vector<pid_t> pids_;
};

TEST(HonestTest, NoneIsRefusedWhereEveryLaunchWaitsForAProcessor) {
  CompiledHostKernel kernel(kHonestDefinition, kHonestSource);
  CompiledHostKernel lazy(kDefinition, kSource);
  const BusyProcesses busy(8);
  for (int64_t kind = 0; kind < 5; ++kind) {
    for (int64_t cost = 10; cost < 15; ++cost) {
      RunInput input = kernel.TrialInput();
      input.policy.set_time_budget_ms(50);
      input.policy.set_noisy_relative_half_width(-1);
      input.config.Set("KIND", Value(kind));
      input.config.Set("COST", Value(cost));
      const worker::v1::Result result = kernel.Run(input);
      EXPECT_THAT(result.outcome(), AnyOf(v1::OUTCOME_OK, v1::OUTCOME_LOST))
          << "kind " << kind << ", cost " << cost << ": " << result.message();
    }
  }
  for (const int does : {kUnlessPoisoned, kByInputs}) {
    RunInput input = lazy.TrialInput();
    input.policy.set_time_budget_ms(50);
    input.policy.set_warm_cache(true);
    input.config.Set("DOES", Value(int64_t{does}));
    EXPECT_EQ(RunUntilJudged(lazy, input).outcome(), v1::OUTCOME_WRONG_RESULT) << does;
  }
}

INSTANTIATE_TEST_SUITE_P(Isolation, HostWitnessTest,
                         testing::Values(v1::HOST_ISOLATION_PROCESS_PER_TRIAL, v1::HOST_ISOLATION_SHARED_PROCESS),
                         [](const auto& param) {
                           return param.param == v1::HOST_ISOLATION_SHARED_PROCESS ? "Shared" : "Process";
                         });

}  // namespace
}  // namespace tunefarm
