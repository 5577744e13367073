// The parts that a host trial's process is made of: what is sent to it, how its samples are handed out, and that the
// template it is forked from leaves nothing of one trial to the next.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <set>

#include "server/sanitizers.h"
#include "server/worker/host/kernel_calls.h"
#include "server/worker/host/trial/sample_batches.h"
#include "server/worker/host/trial/trial_process.h"
#include "server/worker/host/unforked_bytes.h"
#include "tests/unit/worker/host_kernel.h"

namespace tunefarm {
namespace {

using ::testing::HasSubstr;

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

std::set<pid_t> Children() {
  std::set<pid_t> pids;
  std::ifstream list("/proc/thread-self/children");
  for (pid_t pid = 0; list >> pid;) pids.insert(pid);
  return pids;
}

class FrozenTrialTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::set<pid_t> before = Children();
    absl::StatusOr<std::unique_ptr<TrialProcess>> started = TrialProcess::Start(nothing_);
    ASSERT_TRUE(started.ok()) << started.status();
    process_ = *std::move(started);
    for (const pid_t pid : Children()) {
      if (before.count(pid) == 0) pid_ = pid;
    }
    ASSERT_GT(pid_, 0);
    ASSERT_EQ(process_->Await().kind, TrialReply::kDone);
    command_.kind = TrialCommand::kBusy;
    command_.count = 100'000;
  }

  const TrialProgram nothing_;
  std::unique_ptr<TrialProcess> process_;
  pid_t pid_ = -1;
  TrialCommand command_;
  WitnessedTime took_;
};

// ThreadSanitizer adds threads of its own.
testing::Matcher<int> IsThreads(int count) {
  if (TUNEFARM_THREAD_SANITIZER) return testing::Ge(count);
  return testing::Eq(count);
}

bool LinuxCountsWaits() {
  std::ifstream schedstat("/proc/self/schedstat");
  std::string counted;
  return std::getline(schedstat, counted) && !counted.starts_with("0 0 0");
}

TEST_F(FrozenTrialTest, RunsForOneCommandAtATime) {
  ASSERT_TRUE(process_->Freeze());
  EXPECT_THAT(process_->ThreadCount(), IsThreads(1));
  int ran_through = 0;
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(process_->HasStood());
    ASSERT_EQ(process_->ObeyFrozen(command_, {}, nullptr, &took_).kind, TrialReply::kDone);
    ran_through += took_.ran_through ? 1 : 0;
    EXPECT_GE(took_.wall_ns, 100e3);
    EXPECT_GE(took_.busy_ns, 0);
    EXPECT_GE(took_.waited_ns, 0);
  }
  if (LinuxCountsWaits()) {
    EXPECT_GT(ran_through, 0);
  }
  EXPECT_TRUE(process_->HasStood());
  process_->Thaw();
  process_->Send(command_);
  EXPECT_EQ(process_->Await().kind, TrialReply::kDone);
}

TEST_F(FrozenTrialTest, ThreadsThatSleepAreStoppedToo) {
  command_.kind = TrialCommand::kIdle;
  command_.count = 5;
  process_->Send(command_);
  ASSERT_EQ(process_->Await().kind, TrialReply::kDone);
  ASSERT_TRUE(process_->Freeze());
  EXPECT_THAT(process_->ThreadCount(), IsThreads(6));
  command_.kind = TrialCommand::kBusy;
  command_.count = 100'000;
  EXPECT_EQ(process_->ObeyFrozen(command_, {}, nullptr, &took_).kind, TrialReply::kDone);
  EXPECT_TRUE(process_->HasStood());
}

TEST_F(FrozenTrialTest, OneThatRanMeanwhileIsFoundOut) {
  ASSERT_TRUE(process_->Freeze());
  ASSERT_EQ(kill(pid_, SIGCONT), 0);
  EXPECT_FALSE(process_->HasStood());
  // Also if it has stopped again.
  ASSERT_EQ(kill(pid_, SIGSTOP), 0);
  EXPECT_FALSE(process_->HasStood());
  EXPECT_EQ(process_->ObeyFrozen(command_, {}, nullptr, &took_).kind, TrialReply::kContinued);
}

TEST_F(FrozenTrialTest, OneThatDiedCannotBeFrozen) {
  ASSERT_TRUE(process_->Freeze());
  ASSERT_EQ(kill(pid_, SIGKILL), 0);
  EXPECT_EQ(process_->Await().kind, TrialReply::kDied);
  EXPECT_FALSE(process_->Freeze());
  EXPECT_FALSE(process_->HasStood());
}

// A process that uses the first processor of this thread until it is destroyed.
class BusyProcess {
 public:
  BusyProcess() : pid_(fork()) {
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    PinToFirst(0);
    while (true) {
    }
  }
  ~BusyProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  BusyProcess(const BusyProcess&) = delete;
  BusyProcess& operator=(const BusyProcess&) = delete;

  static bool PinToFirst(pid_t pid) {
    cpu_set_t all, first;
    if (sched_getaffinity(0, sizeof(all), &all) != 0) return false;
    CPU_ZERO(&first);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &all)) continue;
      CPU_SET(cpu, &first);
      break;
    }
    return sched_setaffinity(pid, sizeof(first), &first) == 0;
  }

 private:
  const pid_t pid_;
};

TEST_F(FrozenTrialTest, AWaitForAProcessorIsNoWork) {
  if (!LinuxCountsWaits()) GTEST_SKIP() << "Linux counts no waits here";
  ASSERT_TRUE(BusyProcess::PinToFirst(pid_));
  const BusyProcess busy[3];
  ASSERT_TRUE(process_->Freeze());
  // Longer than the time slices that the scheduler gives to one of four processes.
  command_.count = 50'000'000;
  double waited_ns = 0;
  for (int i = 0; i < 100 && waited_ns < 1e6; ++i) {
    ASSERT_EQ(process_->ObeyFrozen(command_, {}, nullptr, &took_).kind, TrialReply::kDone);
    EXPECT_GE(took_.wall_ns, 50e6);
    waited_ns = took_.waited_ns;
  }
  EXPECT_GE(waited_ns, 1e6);
  EXPECT_LT(took_.busy_ns, took_.wall_ns - 0.5e6) << "what waits does not compute";
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

// y = 2 x, and what DOES asks for. All configs share one binary, so that from the second trial on each is forked from
// the template.
constexpr char kDefinition[] = R"(
  display_name: "guest"
  language: LANGUAGE_HOST_CXX
  sources { path: "guest.cc" }
  dims { name: "N" default_value { int_value: 100 } }
  parameters { name: "DOES" range { first: 0 last: 9 } bind: BIND_RUN }
  arguments { name: "x" buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_IN } }
  arguments { name: "y" buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_OUT } }
  arguments { name: "n" scalar { data_type: DATA_TYPE_I64 value: "N" } }
  arguments { name: "does" scalar { data_type: DATA_TYPE_I32 value: "DOES" } }
  launches { kernel { entry: "run" arguments: ["x", "y", "n", "does"] } }
  reference { steps { kernel { entry: "reference" arguments: ["x", "y", "n"] } } }
)";

constexpr char kSource[] = R"(
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

static int launches = 0;
static int* const heap = new int(0);
static bool spoilt_here = false;

extern "C" void reference(const float* x, float* y, long n) {
  for (long i = 0; i < n; ++i) y[i] = 2 * x[i];
}

static void Spoil() {
  spoilt_here = true;
  *heap = 1;
  setenv("GUEST_WAS_HERE", "1", 1);
  signal(SIGTERM, SIG_IGN);
  sigset_t usr1;
  sigemptyset(&usr1);
  sigaddset(&usr1, SIGUSR1);
  sigprocmask(SIG_BLOCK, &usr1, nullptr);
  dup2(2, 100);
  umask(0);
  rlimit files = {200, 200};
  setrlimit(RLIMIT_NOFILE, &files);
  (void)!chdir("/");
  int file = open("left_behind", O_CREAT | O_RDWR, 0600);
  (void)!write(file, "x", 1);
}

static std::string Spoilt() {
  std::string what;
  if (launches != 1) what += " statics";
  if (*heap != 0) what += " heap";
  if (getenv("GUEST_WAS_HERE") != nullptr) what += " environment";
  if (signal(SIGTERM, SIG_DFL) != SIG_DFL) what += " signals";
  sigset_t blocked;
  sigprocmask(SIG_BLOCK, nullptr, &blocked);
  if (sigismember(&blocked, SIGUSR1)) what += " mask";
  if (fcntl(100, F_GETFD) >= 0) what += " descriptors";
  if (umask(022) == 0) what += " umask";
  rlimit files;
  getrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_max == 200) what += " limits";
  char path[4096];
  if (getcwd(path, sizeof(path)) != nullptr && strcmp(path, "/") == 0) what += " directory";
  return what.empty() ? " nothing" : what;
}

static void Threads() {
  std::mutex mutex;
  int sum = 0;
  std::thread one([&] { std::lock_guard<std::mutex> lock(mutex); ++sum; });
  std::thread two([&] { std::lock_guard<std::mutex> lock(mutex); ++sum; });
  one.join();
  two.join();
  if (sum != 2) abort();
  // What it takes to start threads depends on the processors' other work. Beside this it does not make times doubtful.
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(4);
  while (std::chrono::steady_clock::now() < end) {
  }
}

extern "C" void run(const float* x, float* y, long n, int does) {
  ++launches;
  reference(x, y, n);
  switch (does) {
    case 1: if (!spoilt_here) Spoil(); break;
    case 2: throw std::runtime_error("spoilt:" + Spoilt());
    case 3: if (fork() == 0) _exit(0); break;
    case 4: kill(getppid(), 0); break;
    case 5: Threads(); break;
    case 6: raise(SIGTERM); break;
    case 7: close(3); close(4); close(5); close(6); close(7); close(8); for (;;) pause();
    case 8: if (getpgrp() != getpid()) abort(); break;
    default: break;
  }
}
)";

enum { kGood, kSpoil, kTell, kFork, kSignalParent, kThreads, kTerm, kClose, kGroup };

class TrialTemplateTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { kernel_ = new CompiledHostKernel(kDefinition, kSource); }
  static void TearDownTestSuite() { delete kernel_; }
  // The first trial of a binary has no template yet.
  void SetUp() override {
    for (int i = 0; i < 2; ++i) ASSERT_EQ(Run(kGood).outcome(), v1::OUTCOME_OK);
  }

  static worker::v1::Result Run(int64_t does) {
    RunInput input = kernel_->TrialInput();
    input.config.Set("DOES", Value(does));
    return kernel_->Run(input);
  }

  static CompiledHostKernel* kernel_;
};

CompiledHostKernel* TrialTemplateTest::kernel_ = nullptr;

TEST_F(TrialTemplateTest, NothingOfATrialStays) {
  for (int i = 0; i < 3; ++i) {
    const worker::v1::Result spoils = Run(kSpoil);
    EXPECT_EQ(spoils.outcome(), v1::OUTCOME_OK) << spoils.message();
    EXPECT_THAT(Run(kTell).message(), HasSubstr("spoilt: nothing"));
  }
}

TEST_F(TrialTemplateTest, ItsTrialsAreBoundLikeOthers) {
  for (int i = 0; i < 2; ++i) {
    const worker::v1::Result forks = Run(kFork);
    EXPECT_EQ(forks.outcome(), v1::OUTCOME_SANDBOX_VIOLATION) << forks.message();
    EXPECT_THAT(forks.message(), testing::AnyOf(HasSubstr("clone"), HasSubstr("fork")));
    const worker::v1::Result signals = Run(kSignalParent);
    EXPECT_EQ(signals.outcome(), v1::OUTCOME_SANDBOX_VIOLATION) << signals.message();
    EXPECT_THAT(signals.message(), HasSubstr("kill"));
    const worker::v1::Result ends = Run(kTerm);
    EXPECT_EQ(ends.outcome(), v1::OUTCOME_RUN_CRASH);
    EXPECT_THAT(ends.message(), HasSubstr("SIGTERM"));
    EXPECT_EQ(Run(kGood).outcome(), v1::OUTCOME_OK);
  }
}

TEST_F(TrialTemplateTest, ItsTrialsAreWholeProcesses) {
  for (int i = 0; i < 2; ++i) {
    const worker::v1::Result threads = Run(kThreads);
    EXPECT_EQ(threads.outcome(), v1::OUTCOME_OK) << threads.message();
    const worker::v1::Result leads = Run(kGroup);
    EXPECT_EQ(leads.outcome(), v1::OUTCOME_OK) << leads.message();
  }
}

TEST_F(TrialTemplateTest, ATrialThatClosesItsDescriptorsAndStaysIsEnded) {
  const worker::v1::Result closes = Run(kClose);
  EXPECT_EQ(closes.outcome(), v1::OUTCOME_RUN_CRASH) << closes.message();
  EXPECT_EQ(Run(kGood).outcome(), v1::OUTCOME_OK);
}

}  // namespace
}  // namespace tunefarm
