#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cerrno>
#include <filesystem>

#include "server/sanitizers.h"
#include "tests/unit/worker/host_kernel.h"

namespace tunefarm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// y = 2 x, with one thing of choice done wrong.
constexpr char kFaultyDefinition[] = R"(
  display_name: "faulty"
  language: LANGUAGE_HOST_CXX
  sources { path: "faulty.cc" }
  dims { name: "N" default_value { int_value: 1000 } }
  parameters {
    name: "DOES"
    values {
      strings: [
        "good", "wrong", "unwritten", "nan", "past", "before", "far", "input", "segfault", "null", "stack", "abort",
        "fpe", "exit", "quick_exit", "throw_text", "throw_int", "bad_alloc", "noexcept_alloc", "no_entry", "unresolved",
        "constructor", "forgetful", "late_past", "late_crash", "stray", "twice", "killed", "closes", "leftover", "slow"
      ]
    }
  }
  arguments { name: "x" buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_IN } }
  arguments { name: "y" buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_OUT } }
  arguments { name: "n" scalar { data_type: DATA_TYPE_I64 value: "N" } }
  launches { kernel { entry: "run" arguments: ["x", "y", "n"] } }
  reference { steps { kernel { entry: "reference" arguments: ["x", "y", "n"] } } }
)";

constexpr char kFaultySource[] = R"(
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <exception>

struct NoLuck : std::exception {
  const char* what() const noexcept override { return "no\nluck"; }
};

static volatile int zero = 0;
static int launches = 0;

#ifdef DOES_unresolved
void nowhere();
#endif
#ifdef DOES_constructor
__attribute__((constructor)) static void Crash() { abort(); }
#endif

[[maybe_unused]] static int Recurse(int depth) {
  volatile char frame[4096];
  frame[0] = static_cast<char>(depth);
  return Recurse(depth + 1) + frame[zero];
}
[[maybe_unused]] static void Exhaust() {
  for (;;) {
    // Volatile: the compiler may drop memory that nobody looks at.
    volatile char* block = new char[64 << 20];
    for (int i = 0; i < (64 << 20); i += 4096) block[i] = 1;
  }
}
[[maybe_unused]] static void ExhaustQuietly() noexcept { Exhaust(); }

static void Double(const float* x, float* y, long n) {
  for (long i = 0; i < n; ++i) y[i] = 2 * x[i];
}

extern "C" void reference(const float* x, float* y, long n) { Double(x, y, n); }

#ifndef DOES_no_entry
extern "C" void run(float* x, float* y, long n) {
  ++launches;
#if defined(DOES_unwritten)
  n -= 3;
#elif defined(DOES_unresolved)
  nowhere();
#elif defined(DOES_segfault)
  *reinterpret_cast<volatile int*>(0xdead0000l + zero) = 1;
#elif defined(DOES_null)
  *reinterpret_cast<volatile int*>(static_cast<long>(zero)) = 1;
#elif defined(DOES_far)
  y[n + 65536 / 4 + 1024 + zero] = 1;
#elif defined(DOES_stack)
  zero = Recurse(0);
#elif defined(DOES_abort)
  abort();
#elif defined(DOES_fpe)
  zero = 100 / zero;
#elif defined(DOES_exit)
  exit(7);
#elif defined(DOES_quick_exit)
  _exit(0);
#elif defined(DOES_throw_text)
  throw NoLuck();
#elif defined(DOES_throw_int)
  throw 1;
#elif defined(DOES_bad_alloc)
  Exhaust();
#elif defined(DOES_noexcept_alloc)
  ExhaustQuietly();
#elif defined(DOES_late_crash)
  if (launches == 3) abort();
#elif defined(DOES_stray)
  y[n] = 1;
  abort();
#elif defined(DOES_twice)
  if (launches == 1) fork();
#elif defined(DOES_killed)
  kill(getpid(), SIGKILL);
#elif defined(DOES_closes)
  for (int fd = 3; fd < 256; ++fd) close(fd);
#elif defined(DOES_leftover)
  if (launches == 1 && fork() == 0) {
    setsid();
    for (;;) pause();
  }
#elif defined(DOES_slow)
  const clock_t start = clock();
  while (clock() - start < CLOCKS_PER_SEC / 50) {
  }
#endif
  Double(x, y, n);
#if defined(DOES_wrong)
  y[n / 2] += 1;
#elif defined(DOES_nan)
  y[5] = __builtin_nanf("");
#elif defined(DOES_past)
  y[n + 2 + zero] = 0;
#elif defined(DOES_before)
  y[-1 + zero] = 0;
#elif defined(DOES_input)
  x[9] += 1;
#elif defined(DOES_forgetful)
  if (launches > 3) y[0] = 0;
#elif defined(DOES_late_past)
  if (launches == 3) y[n + zero] = 0;
#endif
}
#endif
)";

// Shared: the problem is prepared once, and each case shows that those before it left the runner whole.
class HostRunTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    kernel_ = new HostKernel(kFaultyDefinition, kFaultySource);
    const worker::v1::Prepared prepared = kernel_->Prepare();
    ASSERT_TRUE(prepared.ok()) << prepared.message();
    ASSERT_GT(prepared.footprint_bytes(), 2 * 4000);
  }
  static void TearDownTestSuite() { delete kernel_; }

  static worker::v1::Result Run(const char* what) { return kernel_->Run(kernel_->With("DOES", what)); }

  // The outcome, and that nothing of it stays.
  static void Expect(const char* what, v1::Outcome outcome, v1::Phase phase, const std::string& message) {
    const worker::v1::Result result = Run(what);
    EXPECT_EQ(result.outcome(), outcome) << what << ": " << result.message();
    EXPECT_EQ(result.phase(), phase) << what;
    EXPECT_THAT(result.message(), HasSubstr(message)) << what;
    EXPECT_FALSE(result.worker_is_damaged()) << what;
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << what;
    EXPECT_EQ(errno, ECHILD) << what;
    const worker::v1::Result good = Run("good");
    EXPECT_EQ(good.outcome(), v1::OUTCOME_OK) << "after " << what << ": " << good.message();
  }

  static HostKernel* kernel_;
};

HostKernel* HostRunTest::kernel_ = nullptr;

TEST_F(HostRunTest, GoodIsVerifiedAndMeasured) {
  const worker::v1::Result result = Run("good");
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.message();
  EXPECT_TRUE(result.message().empty());
  EXPECT_EQ(result.verification().elements(), 1000u);
  EXPECT_EQ(result.verification().mismatches(), 0u);
  EXPECT_GE(result.measurement().samples(), 5);
  EXPECT_GT(result.measurement().median_ns(), 0);
  EXPECT_EQ(result.measurement().method(), v1::TIMING_METHOD_STEADY_CLOCK);
  EXPECT_FALSE(result.measurement().cold_cache());
  EXPECT_EQ(result.measurement().sample_ns_size(), 0);
  EXPECT_GT(result.resources().binary_bytes(), 0);
  EXPECT_GT(result.load_ms(), 0);
  EXPECT_GT(result.verify_ms(), 0);
  EXPECT_GT(result.measure_ms(), 0);
}

TEST_F(HostRunTest, WhatTakesLongIsAnnounced) {
  EXPECT_EQ(Run("slow").outcome(), v1::OUTCOME_OK);
  std::vector<v1::Phase> phases = kernel_->reporter.phases;
  // Loading may be over at once.
  if (!phases.empty() && phases[0] == v1::PHASE_LOAD) phases.erase(phases.begin());
  EXPECT_THAT(phases, ElementsAre(v1::PHASE_FIRST_LAUNCH, v1::PHASE_VERIFY, v1::PHASE_MEASURE, v1::PHASE_VERIFY));
}

TEST_F(HostRunTest, WrongResults) {
  Expect("wrong", v1::OUTCOME_WRONG_RESULT, v1::PHASE_VERIFY, "y[500] is ");
  Expect("unwritten", v1::OUTCOME_WRONG_RESULT, v1::PHASE_VERIFY, "y[997] was never written");
  Expect("nan", v1::OUTCOME_WRONG_RESULT, v1::PHASE_VERIFY, "y[5] is nan");
}

TEST_F(HostRunTest, MismatchesAreListed) {
  const worker::v1::Result result = Run("unwritten");
  EXPECT_EQ(result.verification().mismatches(), 3u);
  ASSERT_EQ(result.verification().first_mismatches_size(), 3);
  EXPECT_EQ(result.verification().first_mismatches(0).buffer(), "y");
  EXPECT_FALSE(result.has_measurement());
}

TEST_F(HostRunTest, WritesOutsideOfBuffers) {
  Expect("past", v1::OUTCOME_OUT_OF_BOUNDS, v1::PHASE_VERIFY, "Buffer y was written 8 bytes past its end");
  Expect("before", v1::OUTCOME_OUT_OF_BOUNDS, v1::PHASE_VERIFY, "Buffer y was written 4 bytes before its start");
  Expect("input", v1::OUTCOME_OUT_OF_BOUNDS, v1::PHASE_VERIFY, "Input buffer x was changed at byte ");
  Expect("late_past", v1::OUTCOME_OUT_OF_BOUNDS, v1::PHASE_MEASURE, "Buffer y was written 0 bytes past its end");
}

TEST_F(HostRunTest, Crashes) {
  const v1::Phase launch = v1::PHASE_FIRST_LAUNCH;
  Expect("segfault", v1::OUTCOME_RUN_CRASH, launch, "SIGSEGV at address 0xdead0000");
  Expect("null", v1::OUTCOME_RUN_CRASH, launch, "SIGSEGV at address 0x0");
  Expect("far", v1::OUTCOME_RUN_CRASH, launch, "bytes past its end of buffer y");
  Expect("stack", v1::OUTCOME_RUN_CRASH, launch, "SIGSEGV");
  Expect("abort", v1::OUTCOME_RUN_CRASH, launch, "SIGABRT");
  Expect("fpe", v1::OUTCOME_RUN_CRASH, launch, "SIGFPE");
  Expect("stray", v1::OUTCOME_RUN_CRASH, launch, "SIGABRT. Buffer y was written 0 bytes past its end");
  Expect("late_crash", v1::OUTCOME_RUN_CRASH, v1::PHASE_MEASURE, "SIGABRT");
  Expect("constructor", v1::OUTCOME_RUN_CRASH, v1::PHASE_LOAD, "SIGABRT");
}

// Who sent it is the daemon's to find.
TEST_F(HostRunTest, ATrialThatIsKilledIsSaidToBe) {
  Expect("killed", v1::OUTCOME_RUN_CRASH, v1::PHASE_FIRST_LAUNCH, "was ended by SIGKILL");
  EXPECT_TRUE(Run("killed").is_killed());
  for (const char* const other : {"good", "abort", "exit", "closes", "wrong"}) EXPECT_FALSE(Run(other).is_killed());
}

TEST_F(HostRunTest, Exits) {
  Expect("exit", v1::OUTCOME_RUN_CRASH, v1::PHASE_FIRST_LAUNCH, "exited with code 7");
  Expect("quick_exit", v1::OUTCOME_RUN_CRASH, v1::PHASE_FIRST_LAUNCH, "exited with code 0");
}

TEST_F(HostRunTest, Exceptions) {
  Expect("throw_text", v1::OUTCOME_RUN_CRASH, v1::PHASE_FIRST_LAUNCH, "threw an exception: no?luck");
  Expect("throw_int", v1::OUTCOME_RUN_CRASH, v1::PHASE_FIRST_LAUNCH, "threw an exception: something");
}

TEST_F(HostRunTest, Memory) {
#if TUNEFARM_ADDRESS_SANITIZER || TUNEFARM_THREAD_SANITIZER
  GTEST_SKIP() << "the sanitizers' operator new ends the process by itself instead of throwing";
#endif
  Expect("bad_alloc", v1::OUTCOME_OUT_OF_MEMORY, v1::PHASE_FIRST_LAUNCH, "ran out of memory");
  Expect("noexcept_alloc", v1::OUTCOME_OUT_OF_MEMORY, v1::PHASE_FIRST_LAUNCH, "ran out of memory");
}

TEST_F(HostRunTest, BinariesThatCannotBeLoaded) {
  Expect("no_entry", v1::OUTCOME_LOAD_ERROR, v1::PHASE_LOAD, "no entry 'run'");
  Expect("unresolved", v1::OUTCOME_LOAD_ERROR, v1::PHASE_LOAD, "undefined symbol");
  RunInput input = HostKernel::Input();
  input.config = kernel_->DefaultConfig();
  input.artifact = "not a library";
  const worker::v1::Result result = kernel_->Run(input);
  EXPECT_EQ(result.outcome(), v1::OUTCOME_LOAD_ERROR) << result.message();
}

TEST_F(HostRunTest, AKernelThatIsRightOnlyAtFirstIsCaught) {
  Expect("forgetful", v1::OUTCOME_WRONG_RESULT, v1::PHASE_VERIFY, "It was right before the timing");
}

TEST_F(HostRunTest, Processes) {
  Expect("twice", v1::OUTCOME_SANDBOX_VIOLATION, v1::PHASE_FIRST_LAUNCH, "forbidden system call: clone");
  Expect("leftover", v1::OUTCOME_SANDBOX_VIOLATION, v1::PHASE_FIRST_LAUNCH, "forbidden system call: clone");
  Expect("closes", v1::OUTCOME_RUN_CRASH, v1::PHASE_FIRST_LAUNCH, "");
}

TEST_F(HostRunTest, WhatATrialLeavesIsRemovedWhateverItsMode) {
  ASSERT_EQ(Run("good").outcome(), v1::OUTCOME_OK);  // Compiled, which needs the directory.
  const std::filesystem::path scratch = kernel_->scratch();
  std::filesystem::create_directories(scratch / "a/b");
  std::filesystem::permissions(scratch / "a/b", std::filesystem::perms::none);
  std::filesystem::permissions(scratch / "a", std::filesystem::perms::none);
  std::filesystem::permissions(scratch, std::filesystem::perms::none);
  EXPECT_EQ(Run("good").outcome(), v1::OUTCOME_OK);
  EXPECT_TRUE(std::filesystem::is_empty(scratch));
}

// An error of the machine, not of the next config: another runner has to replace this one.
TEST(HostRunScratchTest, ARunnerThatCannotEmptyItRunsNothingMore) {
  HostKernel kernel(kFaultyDefinition, kFaultySource);
  ASSERT_TRUE(kernel.Prepare().ok());
  RunInput input = HostKernel::Input();
  input.config = kernel.With("DOES", "good");
  ASSERT_EQ(kernel.Compile(input.config, &input.artifact).outcome(), v1::OUTCOME_OK);
  ASSERT_EQ(kernel.Run(input).outcome(), v1::OUTCOME_OK);
  const std::string away = kernel.scratch() + ".away";
  std::filesystem::rename(kernel.scratch(), away);
  std::filesystem::create_directory_symlink(away, kernel.scratch());
  // Not witnessed: another process for the same trial would begin in an empty one as well.
  input.race_limit_ns = 1e-3;
  EXPECT_EQ(kernel.Run(input).outcome(), v1::OUTCOME_OK) << "it began in an empty one";

  const worker::v1::Result result = kernel.Run(input);
  EXPECT_EQ(result.outcome(), v1::OUTCOME_LOST);
  EXPECT_THAT(result.message(), HasSubstr("The scratch directory of an earlier trial cannot be emptied"));
  EXPECT_TRUE(result.worker_is_damaged());
  const worker::v1::Prepared prepared = kernel.Prepare();
  EXPECT_FALSE(prepared.ok());
  EXPECT_EQ(prepared.outcome(), v1::OUTCOME_LOST);
  EXPECT_THAT(prepared.message(), HasSubstr("cannot be emptied"));
  EXPECT_TRUE(prepared.worker_is_damaged());

  std::filesystem::remove(kernel.scratch());
  std::filesystem::rename(away, kernel.scratch());
  EXPECT_EQ(kernel.Run(input).outcome(), v1::OUTCOME_LOST) << "it stays damaged";
  WorkerOptions options;
  options.scratch_directory = kernel.scratch();
  absl::StatusOr<std::unique_ptr<RunBackend>> next = MakeHostRunBackend(options);
  ASSERT_TRUE(next.ok()) << next.status();
  ASSERT_TRUE((*next)->Prepare(std::make_shared<PreparedKernel>(kernel.prepared()), &kernel.reporter).ok());
  EXPECT_EQ((*next)->Run(input, &kernel.reporter).outcome(), v1::OUTCOME_OK);
}

TEST_F(HostRunTest, VerifyOnlyStopsThere) {
  RunInput input = HostKernel::Input();
  input.config = kernel_->DefaultConfig();
  input.verify_only = true;
  ASSERT_EQ(kernel_->Compile(input.config, &input.artifact).outcome(), v1::OUTCOME_OK);
  const worker::v1::Result result = kernel_->Run(input);
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OK);
  EXPECT_EQ(result.phase(), v1::PHASE_VERIFY);
  EXPECT_FALSE(result.has_measurement());
}

TEST_F(HostRunTest, ColdCachesAndKeptSamples) {
  RunInput input = HostKernel::Input();
  input.config = kernel_->DefaultConfig();
  input.policy.set_warm_cache(false);
  input.keep_samples = true;
  ASSERT_EQ(kernel_->Compile(input.config, &input.artifact).outcome(), v1::OUTCOME_OK);
  const worker::v1::Result result = kernel_->Run(input);
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.message();
  EXPECT_TRUE(result.measurement().cold_cache());
  EXPECT_EQ(result.measurement().launches_per_sample(), 1);
  EXPECT_EQ(result.measurement().sample_ns_size(), result.measurement().samples());
}

TEST_F(HostRunTest, AnotherSeedIsAnotherInput) {
  RunInput input = HostKernel::Input();
  input.config = kernel_->DefaultConfig();
  input.verify_only = true;
  ASSERT_EQ(kernel_->Compile(input.config, &input.artifact).outcome(), v1::OUTCOME_OK);
  for (const uint64_t seed : {2u, 1u, 2u}) {
    input.input_seed = seed;
    EXPECT_EQ(kernel_->Run(input).outcome(), v1::OUTCOME_OK) << seed;
  }
}

TEST_F(HostRunTest, TheDefaultConfigIsTheBaseline) {
  RunInput input = HostKernel::Input();
  input.baseline = true;
  const worker::v1::Result result = kernel_->Run(input);
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.message();
  EXPECT_GT(result.measurement().samples(), 0);
}

}  // namespace
}  // namespace tunefarm
