// Trials of one binary, one after another, in the two ways of keeping them apart.

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>

#include "server/base/clock.h"
#include "tests/unit/worker/host_kernel.h"

namespace tunefarm {
namespace {

using ::testing::HasSubstr;

// y = 2 x. DOES and ROOM come when a config runs: every config has the same binary.
constexpr char kDefinition[] = R"(
  display_name: "one_binary"
  language: LANGUAGE_HOST_CXX
  sources { path: "one_binary.cc" }
  dims { name: "N" default_value { int_value: 1000 } }
  parameters { name: "DOES" range { first: 0 last: 10 } bind: BIND_RUN }
  parameters { name: "ROOM" values { ints: [100, 100000] } bind: BIND_RUN }
  arguments { name: "x" buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_IN } }
  arguments { name: "y" buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_OUT } }
  arguments { name: "work" buffer { data_type: DATA_TYPE_F32 length: "ROOM" access: ACCESS_SCRATCH } }
  arguments { name: "n" scalar { data_type: DATA_TYPE_I64 value: "N" } }
  arguments { name: "room" scalar { data_type: DATA_TYPE_I64 value: "ROOM" } }
  arguments { name: "does" scalar { data_type: DATA_TYPE_I32 value: "DOES" } }
  launches { kernel { entry: "run" arguments: ["x", "y", "work", "n", "room", "does"] } }
  reference { steps { kernel { entry: "reference" arguments: ["x", "y", "n"] } } }
)";

constexpr char kSource[] = R"(
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <stdexcept>
#include <string>

static void limit_runner() {
  const rlimit limit = {1, 1};
  syscall(SYS_prlimit64, getppid(), RLIMIT_NPROC, &limit, nullptr);
}

static void pin() {
  cpu_set_t cores;
  if (pthread_getaffinity_np(pthread_self(), sizeof(cores), &cores) != 0) throw std::runtime_error("get");
  if (pthread_setaffinity_np(pthread_self(), sizeof(cores), &cores) != 0) throw std::runtime_error("set");
}

static void tell_limit() {
  rlimit limit = {};
  getrlimit(RLIMIT_NPROC, &limit);
  throw std::runtime_error("processes: " + std::to_string(limit.rlim_cur));
}

static int launches = 0;

extern "C" void reference(const float* x, float* y, long n) {
  for (long i = 0; i < n; ++i) y[i] = 2 * x[i];
}

extern "C" void run(const float* x, float* y, float* work, long n, long room, int does) {
  ++launches;
  for (long i = 0; i < room; ++i) work[i] = 1;
  reference(x, y, n);
  switch (does) {
    case 1: y[n / 2] += 1; break;
    case 2: y[n + 1] = 0; break;
    case 3: *reinterpret_cast<volatile int*>(0xdead0000) = 1; break;
    case 4: abort();
    case 5: exit(7);
    case 6: throw std::runtime_error("this is launch " + std::to_string(launches));
    case 7: const_cast<float*>(x)[3] = 0; break;
    case 8: limit_runner(); break;
    case 9: pin(); break;
    case 10: tell_limit(); break;
    default: break;
  }
}
)";

enum { kGood, kWrong, kPast, kSegfault, kAbort, kExit, kTell, kInput, kLimitRunner, kPin, kTellLimit };

class HostIsolationTest : public testing::TestWithParam<v1::HostIsolation> {
 protected:
  static void SetUpTestSuite() { kernel_ = new CompiledHostKernel(kDefinition, kSource); }
  static void TearDownTestSuite() { delete kernel_; }
  // Whatever the test before has left: another binary (here, none) takes its place.
  void SetUp() override {
    RunInput input = HostKernel::Input();
    input.artifact = "not a library";
    ASSERT_EQ(kernel_->Run(input).outcome(), v1::OUTCOME_LOAD_ERROR);
  }

  static worker::v1::Result Run(int64_t does, int64_t room = 100, double race_limit_ns = 0) {
    RunInput input = kernel_->TrialInput();
    input.policy.set_host_isolation(GetParam());
    input.config.Set("DOES", Value(does));
    input.config.Set("ROOM", Value(room));
    input.race_limit_ns = race_limit_ns;
    return kernel_->Run(input);
  }
  static bool shared() { return GetParam() == v1::HOST_ISOLATION_SHARED_PROCESS; }

  static CompiledHostKernel* kernel_;
};

CompiledHostKernel* HostIsolationTest::kernel_ = nullptr;

TEST_P(HostIsolationTest, EveryTrialHasItsOwnOutcome) {
  const std::pair<int, v1::Outcome> cases[] = {
      {kWrong, v1::OUTCOME_WRONG_RESULT},  {kPast, v1::OUTCOME_OUT_OF_BOUNDS},
      {kSegfault, v1::OUTCOME_RUN_CRASH},  {kAbort, v1::OUTCOME_RUN_CRASH},
      {kExit, v1::OUTCOME_RUN_CRASH},      {kTell, v1::OUTCOME_RUN_CRASH},
      {kInput, v1::OUTCOME_OUT_OF_BOUNDS}, {kLimitRunner, v1::OUTCOME_SANDBOX_VIOLATION}};
  for (const auto& [does, outcome] : cases) {
    // The first one of a binary starts another way than those after it.
    for (int i = 0; i < 3; ++i) {
      const worker::v1::Result good = Run(kGood);
      EXPECT_EQ(good.outcome(), v1::OUTCOME_OK) << "before " << does << ": " << good.message();
      EXPECT_EQ(good.verification().elements(), 1000u);
    }
    const worker::v1::Result bad = Run(does);
    EXPECT_EQ(bad.outcome(), outcome) << does << ": " << bad.message();
    EXPECT_FALSE(bad.worker_is_damaged());
    EXPECT_EQ(Run(does).outcome(), outcome) << does << ", again";
  }
  EXPECT_EQ(Run(kGood).outcome(), v1::OUTCOME_OK);
}

TEST_P(HostIsolationTest, OnlyASharedProcessRemembersTheTrialBefore) {
  // Not witnessed: a process that has seen all variants of the inputs is replaced.
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Run(kGood, 100, 1e-3).outcome(), v1::OUTCOME_OK);
  const std::string told = Run(kTell).message();
  if (shared()) {
    EXPECT_THAT(told, HasSubstr("this is launch "));
    EXPECT_THAT(told, Not(HasSubstr("this is launch 1."))) << "it had a process of its own";
  } else {
    EXPECT_THAT(told, HasSubstr("this is launch 1."));
  }
  // A failure ends the process that it happened in.
  EXPECT_THAT(Run(kTell).message(), HasSubstr("this is launch 1."));
  EXPECT_EQ(Run(kGood).outcome(), v1::OUTCOME_OK);
}

TEST_P(HostIsolationTest, WorkSpaceOfAnotherSizeIsSeen) {
  for (const int64_t room : {100, 100, 100000, 100000, 100, 100000}) {
    const worker::v1::Result result = Run(kGood, room);
    EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << room << ": " << result.message();
  }
}

TEST_P(HostIsolationTest, AKernelMayPinItsThread) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Run(kPin).outcome(), v1::OUTCOME_OK);
}

// A limit of the user's counts all that the user runs: a part of it may be too little for a kernel with threads.
TEST_P(HostIsolationTest, OnlyALimitOfTheSandboxIsDividedBetweenRunnerAndTrials) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NPROC, &before), 0);
  const rlimit of_the_user = {std::min<rlim_t>(before.rlim_max, 100'000), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NPROC, &of_the_user), 0);
  for (const int64_t of_the_sandbox : {0, 90}) {
    WorkerOptions options;
    options.trial_processes_max = of_the_sandbox;
    CompiledHostKernel kernel(kDefinition, kSource, options);
    RunInput input = kernel.TrialInput();
    input.policy.set_host_isolation(GetParam());
    input.config.Set("DOES", Value(int64_t{kTellLimit}));
    const rlim_t expected = of_the_sandbox == 0 ? of_the_user.rlim_cur : static_cast<rlim_t>(of_the_sandbox);
    // The first one of a binary starts another way than those after it.
    for (int i = 0; i < 3; ++i) {
      EXPECT_THAT(kernel.Run(input).message(), HasSubstr(fmt::format("processes: {}.", expected)));
    }
  }
  EXPECT_EQ(setrlimit(RLIMIT_NPROC, &before), 0);
}

// The runner, which is this process, has another limit while it lives.
class ChangedLimit {
 public:
  ChangedLimit() {
    EXPECT_EQ(getrlimit(RLIMIT_SIGPENDING, &before_), 0);
    const rlimit changed = {before_.rlim_cur / 2, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_SIGPENDING, &changed), 0);
  }
  ~ChangedLimit() { EXPECT_EQ(setrlimit(RLIMIT_SIGPENDING, &before_), 0); }
  ChangedLimit(const ChangedLimit&) = delete;
  ChangedLimit& operator=(const ChangedLimit&) = delete;

 private:
  rlimit before_ = {};
};

TEST_P(HostIsolationTest, ARunnerThatWasChangedAsksToBeReplaced) {
  EXPECT_FALSE(Run(kGood).worker_is_damaged());
  worker::v1::Result result;
  {
    const ChangedLimit changed;
    result = Run(kGood);
    // Trials that share a process share a look at the runner, for some milliseconds.
    const MonotonicTime end = Clock::Real()->Now() + std::chrono::seconds(30);
    while (shared() && !result.worker_is_damaged() && Clock::Real()->Now() < end) result = Run(kGood);
  }
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << "its result stands";
  EXPECT_TRUE(result.worker_is_damaged());
  EXPECT_FALSE(Run(kGood).worker_is_damaged());
}

// What a trial did to the runner is found before another problem's trials come to it.
TEST_P(HostIsolationTest, AChangedRunnerTakesNoOtherProblem) {
  EXPECT_FALSE(Run(kGood).worker_is_damaged());
  {
    const ChangedLimit changed;
    EXPECT_TRUE(Run(kGood).worker_is_damaged() || !kernel_->Prepare().ok());
  }
  EXPECT_TRUE(kernel_->Prepare().ok());
}

INSTANTIATE_TEST_SUITE_P(Isolation, HostIsolationTest,
                         testing::Values(v1::HOST_ISOLATION_PROCESS_PER_TRIAL, v1::HOST_ISOLATION_SHARED_PROCESS),
                         [](const auto& param) {
                           return param.param == v1::HOST_ISOLATION_SHARED_PROCESS ? "Shared" : "Process";
                         });

}  // namespace
}  // namespace tunefarm
