// The template that a trial's process is forked from leaves nothing of one trial to the next.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/worker/host_kernel.h"

namespace tunefarm {
namespace {

using ::testing::HasSubstr;

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
