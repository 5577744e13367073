// A trial's process that stands still but for one command at a time, as witnessed launches need it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "server/sanitizers.h"
#include "server/worker/host/trial/off_processor.h"
#include "server/worker/host/trial/trial_process.h"

namespace tunefarm {
namespace {

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

TEST_F(FrozenTrialTest, GoesToAProcessor) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  ASSERT_TRUE(process_->Freeze());
  for (const TrialCommand::Kind kind : {TrialCommand::kMove, TrialCommand::kStay}) {
    for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
      if (!CPU_ISSET(static_cast<unsigned>(processor), &allowed)) continue;
      command_.kind = kind;
      command_.count = static_cast<uint32_t>(processor);
      ASSERT_EQ(process_->ObeyFrozen(command_, {}, nullptr, &took_).kind, TrialReply::kDone);
      cpu_set_t now;
      ASSERT_EQ(sched_getaffinity(pid_, sizeof(now), &now), 0);
      if (kind == TrialCommand::kMove) {
        EXPECT_TRUE(CPU_EQUAL(&now, &allowed)) << "it may go where it might";
      } else {
        EXPECT_EQ(process_->Processor(), processor);
        EXPECT_TRUE(CPU_ISSET(static_cast<unsigned>(processor), &now));
        EXPECT_EQ(CPU_COUNT(&now), 1);
      }
    }
  }
  command_.count = ~0u;
  EXPECT_EQ(process_->ObeyFrozen(command_, {}, nullptr, &took_).kind, TrialReply::kDone) << "there is none: it stays";
}

TEST_F(FrozenTrialTest, ReadsMemoryAndSaysHowLongThatTook) {
  const std::vector<std::byte> memory(8 << 20);
  TrialProgram program;
  program.flush_memory = {memory, memory};
  program.flush_bytes = 1;
  absl::StatusOr<std::unique_ptr<TrialProcess>> reader = TrialProcess::Start(program);
  ASSERT_TRUE(reader.ok()) << reader.status();
  ASSERT_EQ((*reader)->Await().kind, TrialReply::kDone);
  command_.count = 0;
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{12 << 20}, ~uint64_t{0}}) {
    command_.bytes = bytes;
    (*reader)->Send(command_);
    const TrialReply reply = (*reader)->Await();
    ASSERT_EQ(reply.kind, TrialReply::kDone);
    // A load of a line takes no less than an eighth of a nanosecond.
    EXPECT_GE(reply.nanoseconds, static_cast<int64_t>(std::min(bytes, uint64_t{16 << 20}) / 64 / 8));
  }
}

TEST(OffProcessorTest, StaysOffAsLongAsItLives) {
  cpu_set_t before, now;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  const unsigned processor = static_cast<unsigned>(sched_getcpu());
  {
    const OffProcessor off(static_cast<int>(processor));
    ASSERT_EQ(sched_getaffinity(0, sizeof(now), &now), 0);
    EXPECT_EQ(CPU_ISSET(processor, &now) != 0, CPU_COUNT(&before) == 1) << "unless it is the only one";
    EXPECT_GE(CPU_COUNT(&now), 1);
  }
  ASSERT_EQ(sched_getaffinity(0, sizeof(now), &now), 0);
  EXPECT_TRUE(CPU_EQUAL(&now, &before));
  for (const int unknown : {-1, CPU_SETSIZE}) {
    const OffProcessor off(unknown);
    ASSERT_EQ(sched_getaffinity(0, sizeof(now), &now), 0);
    EXPECT_TRUE(CPU_EQUAL(&now, &before));
  }
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
  EXPECT_FALSE(took_.ran_through);
}

}  // namespace
}  // namespace tunefarm
