// Clocks that are held for runs: what the evaluator does with the process that holds them, over the fake NVML. That
// process is the worker's own code; tests/fault/clock_test.py kills it and its parent.

#include "server/exec/clocks/clock_guard.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include "tests/exec/evaluator_fixture.h"
#include "tests/fakes/fake_nvml.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using tunefarm::v1::OUTCOME_LOST;
using tunefarm::v1::OUTCOME_OK;

constexpr int kMhz = 1410;

class ClockTest : public EvaluatorTest {
 protected:
  ClockTest() {
    plan_ = FakeKernelPlan("LANGUAGE_CUDA");
    options_.clock_directory = directory_.File("clocks");
    // Only the test that is about it waits for it.
    options_.clock_idle = std::chrono::hours(24);
    options_.health_checks = ForDevices::kNone;
    options_.standby_runners = ForDevices::kNone;
  }

  // Before its NVML goes.
  ~ClockTest() override { evaluator_.reset(); }

  RunRequest HeldRun(const std::string& behave, int mhz = kMhz) {
    RunRequest request = RunOf(behave);
    request.policy.set_locked_clock_mhz(mhz);
    return request;
  }
  std::string marker() const { return options_.clock_directory + "/device-0"; }
  void LeaveMarker() {
    TUNEFARM_CHECK_OK(MakeDirectories(options_.clock_directory, 0700));
    const std::string boot = ReadFile("/proc/sys/kernel/random/boot_id", 256).value();
    TUNEFARM_CHECK_OK(WriteFileAtomically(marker(), "device-0 900 " + boot));
  }
  std::vector<pid_t> Holders() const { return ProcessesWith("--clock-marker=" + marker()); }

  FakeNvml nvml_;
};

TEST_F(ClockTest, IsHeldForTheRunsThatWantItAndFreedForOthers) {
  RunResult run = Run(HeldRun("ok"));
  EXPECT_EQ(run.outcome, OUTCOME_OK) << run.message;
  EXPECT_EQ(run.measurement.locked_clock_mhz(), kMhz);
  EXPECT_EQ(nvml_.clock(), "1410\n");
  EXPECT_EQ(access(marker().c_str(), F_OK), 0);
  // The same one is not taken again, another one is taken after this one is free.
  EXPECT_EQ(Run(HeldRun("ok")).measurement.locked_clock_mhz(), kMhz);
  EXPECT_EQ(Run(HeldRun("ok", 900)).measurement.locked_clock_mhz(), 900);
  EXPECT_EQ(nvml_.calls(), "lock 1410 1410\nreset\nlock 900 900\n");
  run = Run("ok");
  EXPECT_EQ(run.outcome, OUTCOME_OK) << run.message;
  EXPECT_EQ(run.measurement.locked_clock_mhz(), 0);
  EXPECT_EQ(nvml_.clock(), "0\n");
  EXPECT_NE(access(marker().c_str(), F_OK), 0);
}

TEST_F(ClockTest, IsFreedWhenTheEvaluatorEnds) {
  EXPECT_EQ(Run(HeldRun("ok")).measurement.locked_clock_mhz(), kMhz);
  evaluator_.reset();
  EXPECT_EQ(nvml_.clock(), "0\n");
  EXPECT_NE(access(marker().c_str(), F_OK), 0);
}

TEST_F(ClockTest, IsFreedWhenNothingRunsForAWhile) {
  options_.clock_idle = std::chrono::milliseconds(1);
  EXPECT_EQ(Run(HeldRun("ok")).outcome, OUTCOME_OK);
  EXPECT_TRUE(ComesTrue([&] { return nvml_.clock() == "0\n"; }));
  EXPECT_EQ(Run(HeldRun("ok")).measurement.locked_clock_mhz(), kMhz);
}

TEST_F(ClockTest, WithoutPermissionARunIsLostWithTheReason) {
  nvml_.Deny();
  const RunResult run = Run(HeldRun("ok"));
  EXPECT_EQ(run.outcome, OUTCOME_LOST);
  EXPECT_EQ(run.phase, tunefarm::v1::PHASE_MEASURE);
  EXPECT_EQ(run.message,
            "the clock cannot be held at 1410 MHz: NVML says no permission; run the daemon as root or leave out "
            "locked_clock_mhz");
  EXPECT_FALSE(run.out_of_service);
  // The device itself is as good as before.
  EXPECT_EQ(Run("ok").outcome, OUTCOME_OK);
  EXPECT_THAT(nvml_.calls(), IsEmpty());
  EXPECT_NE(access(marker().c_str(), F_OK), 0);
}

TEST_F(ClockTest, MoreThanTheHighestIsRefused) {
  EXPECT_THAT(Run(HeldRun("ok", 2000)).message, HasSubstr("cannot be held at 2000 MHz: the highest is 1980 MHz"));
}

TEST_F(ClockTest, ACpuHasNone) {
  plan_ = FakeKernelPlan();
  const RunResult run = Run(HeldRun("ok"));
  EXPECT_EQ(run.outcome, OUTCOME_LOST);
  EXPECT_THAT(run.message, HasSubstr("the device is no GPU"));
  EXPECT_THAT(nvml_.calls(), IsEmpty());
}

TEST_F(ClockTest, WhatAnEarlierDaemonLeftHeldIsFreedBeforeTheFirstRun) {
  LeaveMarker();
  nvml_.SetClock(900);
  EXPECT_EQ(Run("ok").outcome, OUTCOME_OK);
  EXPECT_EQ(nvml_.calls(), "reset\n");
  EXPECT_EQ(nvml_.clock(), "0\n");
  EXPECT_NE(access(marker().c_str(), F_OK), 0);
}

TEST_F(ClockTest, WhatWasLeftIsFreedOnlyWhenNoOtherDaemonHasTheDevice) {
  LeaveMarker();
  nvml_.SetClock(900);
  options_.lock_directory = directory_.File("locks");
  TUNEFARM_CHECK_OK(MakeDirectories(options_.lock_directory, 0755));
  absl::StatusOr<FileLock> other = FileLock::TryLock(options_.lock_directory + "/device-device-0.lock", 0644);
  TUNEFARM_CHECK_OK(other.status());
  Notification waits;  // for the lock: it has looked at the markers before
  options_.on_wait = [&](const std::string&, const std::string& reason) {
    if (!reason.empty() && !waits.HasBeenNotified()) waits.Notify();
  };
  RunResult run;
  Notification done;
  evaluator()->Run(RunOf("ok"), [&](RunResult result) {
    run = std::move(result);
    done.Notify();
  });
  waits.WaitForNotification();
  EXPECT_THAT(Holders(), IsEmpty());
  EXPECT_THAT(nvml_.calls(), IsEmpty());
  other->Unlock();
  done.WaitForNotification();
  EXPECT_EQ(run.outcome, OUTCOME_OK) << run.message;
  EXPECT_EQ(nvml_.calls(), "reset\n");
  EXPECT_NE(access(marker().c_str(), F_OK), 0);
  evaluator_.reset();  // before what on_wait uses
}

TEST_F(ClockTest, WhatCannotBeFreedLetsNothingRun) {
  LeaveMarker();
  nvml_.Deny();
  const RunResult run = Run("ok");
  EXPECT_EQ(run.outcome, OUTCOME_LOST);
  EXPECT_THAT(run.message, HasSubstr("may still be held and cannot be freed: NVML says no permission"));
  EXPECT_EQ(access(marker().c_str(), F_OK), 0);
}

TEST_F(ClockTest, ARunThatWantsItIsAnsweredWhereNothingCanBeFreed) {
  LeaveMarker();
  nvml_.Deny();
  const RunResult run = Run(HeldRun("ok"));
  EXPECT_EQ(run.outcome, OUTCOME_LOST);
  EXPECT_THAT(run.message, HasSubstr("cannot be held at 1410 MHz: NVML says no permission"));
  EXPECT_EQ(access(marker().c_str(), F_OK), 0);
  // A refusal does not outlast its cause.
  nvml_.Permit();
  EXPECT_TRUE(ComesTrue([&] { return Run(HeldRun("ok")).measurement.locked_clock_mhz() == kMhz; }));
}

TEST_F(ClockTest, AMarkerOfAnEarlierBootIsForgotten) {
  TUNEFARM_CHECK_OK(MakeDirectories(options_.clock_directory, 0700));
  TUNEFARM_CHECK_OK(WriteFileAtomically(marker(), "device-0 900 00000000-0000-0000-0000-000000000000\n"));
  nvml_.Deny();
  EXPECT_EQ(Run("ok").outcome, OUTCOME_OK);
  EXPECT_NE(access(marker().c_str(), F_OK), 0);
}

TEST_F(ClockTest, HealthIsCheckedUnderAFreeClock) {
  options_.health_checks = ForDevices::kAll;
  EXPECT_EQ(Run(HeldRun("ok")).outcome, OUTCOME_OK);
  EXPECT_EQ(nvml_.calls(), "lock 1410 1410\n");
  Run(HeldRun("crash"));
  EXPECT_EQ(Run(HeldRun("ok")).measurement.locked_clock_mhz(), kMhz);
  EXPECT_EQ(nvml_.calls(), "lock 1410 1410\nreset\nlock 1410 1410\n");
}

TEST_F(ClockTest, ARunWhoseHolderIsKilledIsLost) {
  const std::string fifo = directory_.File("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0666), 0);
  options_.sandbox = false;  // it does not show the FIFO
  options_.extra_worker_arguments = {"--fake-fifo=" + fifo};
  RunResult run;
  Notification done;
  evaluator()->Run(HeldRun("wait_in_measure"), [&](RunResult result) {
    run = std::move(result);
    done.Notify();
  });
  // Opens when the run waits for it, which it never does where it failed.
  UniqueFd let_go;
  ASSERT_TRUE(ComesTrue([&] {
    let_go = UniqueFd(open(fifo.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK));
    return let_go.valid();
  }));
  const std::vector<pid_t> holders = Holders();
  ASSERT_EQ(holders.size(), 1u);
  ASSERT_EQ(kill(holders[0], SIGKILL), 0);
  ASSERT_TRUE(ComesTrue([&] { return nvml_.calls() == "lock 1410 1410\nlock 1410 1410\n"; }));
  let_go.Reset();
  done.WaitForNotification();
  EXPECT_EQ(run.outcome, OUTCOME_LOST);
  EXPECT_THAT(run.message, HasSubstr("ended meanwhile"));
  EXPECT_EQ(Run(HeldRun("ok")).measurement.locked_clock_mhz(), kMhz);
}

}  // namespace
}  // namespace tunefarm
