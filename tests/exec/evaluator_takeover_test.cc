// What a crash costs besides its own trial: a standby goes on, the device is proven sound first, and what is not sound
// leaves service until it is.

#include <fcntl.h>

#include "server/exec/device_health.h"
#include "tests/exec/evaluator_fixture.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;
using testing::Not;
using tunefarm::v1::OUTCOME_LOST;
using tunefarm::v1::OUTCOME_OK;
using tunefarm::v1::OUTCOME_RUN_CRASH;
using tunefarm::v1::OUTCOME_RUN_TIMEOUT;

class TakeoverTest : public EvaluatorTest {
 protected:
  TakeoverTest() {
    options_.standby_runners = ForDevices::kAll;
    options_.health_checks = ForDevices::kAll;
    options_.health_rest = std::chrono::hours(24);  // Unless a test says otherwise.
    options_.on_quarantine = [this](const std::string&, const std::string& reason) {
      MutexLock lock(&mutex_);
      quarantines_.push_back(reason);
      changed_.NotifyAll();
    };
    options_.on_healthy = [this](const std::string&, double baseline_ns, int) {
      MutexLock lock(&mutex_);
      baseline_ns_ = baseline_ns;
    };
  }

  // The reasons told so far, once there are `count`.
  std::vector<std::string> Quarantines(size_t count) {
    MutexLock lock(&mutex_);
    while (quarantines_.size() < count) changed_.Wait(&mutex_);
    return quarantines_;
  }
  std::string SickFile(const std::string& how) {
    const std::string file = directory_.File("sick");
    TUNEFARM_CHECK_OK(WriteFileAtomically(file, ""));
    options_.extra_worker_arguments = {"--fake-sick-while=" + file, "--fake-health=" + how};
    return file;
  }

  Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> quarantines_ GUARDED_BY(mutex_);
  double baseline_ns_ GUARDED_BY(mutex_) = 0;
};

TEST_F(TakeoverTest, EveryCrashCostsOneRunnerAndTheStandbyGoesOn) {
  // After two trials of one problem the spare prepares for it.
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Run("ok").outcome, OUTCOME_OK);
  ASSERT_TRUE(ComesTrue([&] { return evaluator()->stats().spares_prepared >= 1; }));
  int crashes = 0;
  for (const char* behave : {"crash", "damaged", "exit_3", "crash_in_measure", "garbage", "damaged"}) {
    Run(behave);
    ++crashes;
    const RunResult next = Run("ok");
    EXPECT_EQ(next.outcome, OUTCOME_OK) << behave << ": " << next.message;
    EXPECT_THAT(next.message, HasSubstr(" runs=1 ")) << behave;
    EXPECT_EQ(evaluator()->stats().runner_crashes, crashes) << behave;
    EXPECT_EQ(evaluator()->stats().takeovers, crashes) << behave;
    // There may be no room for the next standby before what crashed last is cleared away. It must stand by when the
    // next crash comes, or that one is taken over by whoever is ready first.
    ASSERT_TRUE(ComesTrue([&] { return evaluator()->stats().spares_prepared >= crashes + 1; })) << behave;
    EXPECT_EQ(evaluator()->stats().runners_started, crashes + 2) << behave;
  }
  EXPECT_GT(evaluator()->stats().last_takeover_us, 0);
  MutexLock lock(&mutex_);
  EXPECT_EQ(baseline_ns_, 1000);
}

TEST_F(TakeoverTest, WhatIsExpectedIsMadeReadyBeforeItComes) {
  const RunRequest request = RunOf("ok", 0);
  evaluator()->Expect(request.device_uuid, *request.plan);
  // The runner and its standby, and the device is sound.
  ASSERT_TRUE(ComesTrue([&] {
    MutexLock lock(&mutex_);
    return evaluator()->stats().runners_started == 2 && baseline_ns_ > 0;
  }));
  EXPECT_EQ(Run(request).outcome, OUTCOME_OK);
  evaluator()->Expect(request.device_uuid, *request.plan);
  EXPECT_EQ(Run(RunOf("ok", 1)).outcome, OUTCOME_OK);
  EXPECT_EQ(evaluator()->stats().runners_started, 2);
}

TEST_F(TakeoverTest, WhereNoDeviceCanBeNothingIsExpected) {
  evaluator()->Expect("../etc", *RunOf("ok", 0).plan);
  EXPECT_EQ(Run(RunOf("ok", 0)).outcome, OUTCOME_OK);
}

TEST_F(TakeoverTest, LaterRunnersGetWhatTheFirstHasMade) {
  const auto stands_by = [this](int64_t number) {
    return ComesTrue([this, number] { return evaluator()->stats().spares_prepared >= number; });
  };
  EXPECT_THAT(Run("ok").message, HasSubstr("warm= expected="));
  Run("ok");
  ASSERT_TRUE(stands_by(1));
  Run("crash");  // The first spare was started beside the first runner: it has nothing of it yet.
  EXPECT_THAT(Run("ok").message, testing::EndsWith(" expected=expected"));
  ASSERT_TRUE(stands_by(2));
  Run("crash");
  EXPECT_THAT(Run("ok").message, testing::EndsWith(" warm=made once expected=expected"));
  EXPECT_THAT(Run(RunOf("ok", 0, "device-0", 5)).message, testing::EndsWith(" expected=")) << "of another problem";
}

// The workers hold a lock where they think that the device is theirs alone, and die if another one has it.
TEST_F(TakeoverTest, NobodyMeasuresWhileTheStandbyPrepares) {
  options_.sandbox = false;  // All of them must see the file.
  const std::string file = directory_.File("device");
  options_.extra_worker_arguments = {"--fake-device-file=" + file};
  for (int i = 0; i < 60; ++i) {
    const RunResult run = Run(RunOf(i % 6 == 5 ? "damaged" : "ok", i));
    ASSERT_EQ(run.outcome, OUTCOME_OK) << i << ": " << run.message;
  }
  EXPECT_EQ(evaluator()->stats().runner_crashes, 10);
}

TEST_F(TakeoverTest, HolderOfTheBatonDies) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Run(RunOf("ok", i)).outcome, OUTCOME_OK);
  EXPECT_EQ(Run("crash_in_measure").outcome, OUTCOME_RUN_CRASH);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Run(RunOf("ok", i)).outcome, OUTCOME_OK);
}

TEST_F(TakeoverTest, StandbyThatDiesWithTheBatonStopsNobody) {
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Run(RunOf("ok", i, "device-0", 6)).outcome, OUTCOME_OK);
}

TEST_F(TakeoverTest, StandbyThatHangsWithTheBatonIsKilled) {
  options_.deadlines.prepare_ms = 5'000;  // also of the one at work
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Run(RunOf("ok", i, "device-0", 7)).outcome, OUTCOME_OK);
}

class SickDeviceTest : public TakeoverTest, public testing::WithParamInterface<const char*> {};

TEST_P(SickDeviceTest, LeavesServiceAndComesBackByItself) {
  const std::string file = SickFile(GetParam());
  options_.health_rest = std::chrono::milliseconds(1);
  options_.health_baselines_ns["device-0"] = 1000;
  const RunResult run = Run("ok");
  EXPECT_EQ(run.outcome, OUTCOME_LOST);
  EXPECT_TRUE(run.out_of_service) << "it says nothing about the trial";
  EXPECT_THAT(run.message, HasSubstr("out of service"));
  const std::string reason = Quarantines(1)[0];
  EXPECT_THAT(reason, HasSubstr("health"));
  EXPECT_EQ(evaluator()->stats().devices_quarantined, 1);
  ASSERT_EQ(unlink(file.c_str()), 0);
  if (std::string(GetParam()) == "slow") return;  // Its workers stay as they are.
  EXPECT_EQ(Quarantines(2)[1], "");
  EXPECT_EQ(Run("ok").outcome, OUTCOME_OK);
}

INSTANTIATE_TEST_SUITE_P(All, SickDeviceTest, testing::Values("wrong", "slow", "crash"));

TEST_F(TakeoverTest, QuarantineIsLiftedByAPerson) {
  const std::string file = SickFile("wrong");
  EXPECT_EQ(Run("ok").outcome, OUTCOME_LOST);
  Quarantines(1);
  EXPECT_EQ(Run("ok").outcome, OUTCOME_LOST);
  ASSERT_EQ(unlink(file.c_str()), 0);
  evaluator()->ReleaseDevice("device-0");
  EXPECT_EQ(Run("ok").outcome, OUTCOME_OK);
  EXPECT_EQ(Quarantines(2)[1], "");
  evaluator()->ReleaseDevice("device-0");
  evaluator()->ReleaseDevice("device-7");
}

TEST_F(TakeoverTest, SickDeviceDoesNotBlockItsNeighbours) {
  EXPECT_EQ(Run(RunOf("ok", 0, "device-1")).outcome, OUTCOME_OK);
  options_.on_quarantine = nullptr;
  const std::string file = SickFile("wrong");
  evaluator_.reset();
  evaluator_ = std::make_unique<ProcessEvaluator>(options_);
  EXPECT_EQ(Run("ok").outcome, OUTCOME_LOST);
  ASSERT_EQ(unlink(file.c_str()), 0);
  EXPECT_EQ(Run(RunOf("ok", 0, "device-1")).outcome, OUTCOME_OK);
}

// Losses in a row say more of the device than of what was lost on it.
TEST_F(TakeoverTest, DeviceOnWhichAllIsLostLeavesService) {
  for (const ForDevices checks : {ForDevices::kAll, ForDevices::kNone}) {
    evaluator_.reset();
    options_.health_checks = checks;
    const size_t before = Quarantines(0).size();
    for (int i = 0; i < DeviceHealth::kLossesMax - 1; ++i) EXPECT_EQ(Run("lost").outcome, OUTCOME_LOST);
    EXPECT_EQ(Run("ok").outcome, OUTCOME_OK);
    // What is the task's own fault counts neither way.
    for (int i = 0; i < DeviceHealth::kLossesMax; ++i) EXPECT_EQ(Run("refused").outcome, OUTCOME_LOST);
    for (int i = 0; i < DeviceHealth::kLossesMax; ++i) {
      const RunResult run = Run("lost");
      EXPECT_EQ(run.outcome, OUTCOME_LOST);
      EXPECT_FALSE(run.out_of_service) << "it was tried";
    }
    EXPECT_THAT(Quarantines(before + 1).back(),
                HasSubstr("is out of service: 10 attempts at trials in a row were lost: cannot fork a trial"));
    const RunResult refused = Run("ok");
    EXPECT_EQ(refused.outcome, OUTCOME_LOST);
    EXPECT_TRUE(refused.out_of_service);
    evaluator()->ReleaseDevice("device-0");
    EXPECT_EQ(Run("ok").outcome, OUTCOME_OK);
    EXPECT_EQ(Quarantines(before + 2).back(), "");
    // The next worker is another one, and the count starts at zero.
    EXPECT_EQ(Run("lost").outcome, OUTCOME_LOST);
    EXPECT_THAT(Run("ok").message, HasSubstr(" runs=1 "));
  }
}

TEST_F(TakeoverTest, DeviceOnWhichAllWasLostComesBackByItself) {
  options_.health_rest = std::chrono::milliseconds(1);
  for (const ForDevices checks : {ForDevices::kAll, ForDevices::kNone}) {
    evaluator_.reset();
    options_.health_checks = checks;
    const size_t before = Quarantines(0).size();
    for (int i = 0; i < DeviceHealth::kLossesMax; ++i) EXPECT_EQ(Run("lost").outcome, OUTCOME_LOST);
    EXPECT_EQ(Quarantines(before + 2).back(), "");
    EXPECT_EQ(Run("ok").outcome, OUTCOME_OK);
  }
}

TEST_F(TakeoverTest, DeviceWithoutWorkersLeavesService) {
  options_.extra_worker_arguments = {"--fake-start=crash"};
  options_.standby_runners = options_.health_checks = ForDevices::kNone;
  for (int i = 0; i < DeviceHealth::kLossesMax; ++i) EXPECT_FALSE(Run("ok").out_of_service) << i;
  EXPECT_THAT(Quarantines(1)[0], HasSubstr("no run-device-0 worker can be started"));
  EXPECT_TRUE(Run("ok").out_of_service);
}

// A process that cannot be killed is not to be had; one that escapes its worker and keeps the channel open looks alike.
TEST_F(TakeoverTest, WorkerThatDoesNotEndTakesItsDeviceOutOfService) {
  const std::string fifo = directory_.File("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0666), 0);
  options_.sandbox = false;
  options_.deadlines.first_launch_ms = 500;
  options_.reap_ms = 3'000;  // also of the good one at the end
  options_.extra_worker_arguments = {"--fake-fifo=" + fifo};
  const RunResult run = Run("escape");
  EXPECT_EQ(run.outcome, OUTCOME_RUN_TIMEOUT);
  EXPECT_THAT(run.message, HasSubstr("does not end after SIGKILL"));
  EXPECT_THAT(Quarantines(1)[0], HasSubstr("does not end after SIGKILL"));
  EXPECT_EQ(Run("ok").outcome, OUTCOME_LOST);
  const UniqueFd let_go(open(fifo.c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(let_go.valid());
  EXPECT_EQ(Quarantines(2)[1], "") << "it has ended after all";
  EXPECT_TRUE(ComesTrue([&] { return Run("ok").outcome == OUTCOME_OK; })) << "as fast as its deadline demands";
}

TEST_F(TakeoverTest, ReferenceThatCrashesTwiceIsNotRunAgain) {
  for (int i = 0; i < 2; ++i) {
    const RunResult run = Run(RunOf("ok", i, "device-0", 2));
    EXPECT_EQ(run.outcome, OUTCOME_RUN_CRASH);
    EXPECT_THAT(run.message, Not(HasSubstr("not run")));
  }
  const RunResult refused = Run(RunOf("ok", 2, "device-0", 2));
  EXPECT_EQ(refused.outcome, OUTCOME_RUN_CRASH);
  EXPECT_THAT(refused.message, HasSubstr("not run: the reference or the inputs of this problem failed 2 times"));
  EXPECT_EQ(evaluator()->stats().runner_crashes, 2);
  EXPECT_EQ(Run("ok").outcome, OUTCOME_OK) << "another problem";
}

}  // namespace
}  // namespace tunefarm
