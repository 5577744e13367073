// Every way in which a worker can misbehave, and the Outcome that comes of it; afterwards the evaluator works on.

#include <fmt/core.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "server/base/memory_kills.h"
#include "server/base/random.h"
#include "tests/exec/evaluator_fixture.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;

struct Fault {
  const char* behave;
  tunefarm::v1::Outcome outcome;
  const char* message;  // part of it
};

void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.behave; }

class RunFaultTest : public EvaluatorTest, public testing::WithParamInterface<Fault> {};

TEST_P(RunFaultTest, HasItsOutcomeAndTheNextTrialRuns) {
  const RunResult faulty = Run(GetParam().behave);
  EXPECT_EQ(faulty.outcome, GetParam().outcome) << faulty.message;
  EXPECT_THAT(faulty.message, HasSubstr(GetParam().message));
  const RunResult next = Run("ok");
  EXPECT_EQ(next.outcome, tunefarm::v1::OUTCOME_OK) << next.message;
  EXPECT_THAT(next.message, HasSubstr("runs=1 "));  // In a fresh process.
}

INSTANTIATE_TEST_SUITE_P(All, RunFaultTest,
                         testing::Values(Fault{"crash", tunefarm::v1::OUTCOME_RUN_CRASH,
                                               "signal 11 (Segmentation fault) during the first launch"},
                                         Fault{"crash_in_load", tunefarm::v1::OUTCOME_RUN_CRASH,
                                               "during loading the binary"},
                                         Fault{"abort", tunefarm::v1::OUTCOME_RUN_CRASH, "signal 6"},
                                         Fault{"exit_0", tunefarm::v1::OUTCOME_RUN_CRASH, "exit(0)"},
                                         Fault{"exit_3", tunefarm::v1::OUTCOME_RUN_CRASH, "exit code 3"},
                                         Fault{"out_of_memory", tunefarm::v1::OUTCOME_OUT_OF_MEMORY, "allocate"},
                                         Fault{"sigsys", tunefarm::v1::OUTCOME_SANDBOX_VIOLATION, "system call"},
                                         Fault{"flood_and_crash", tunefarm::v1::OUTCOME_RUN_CRASH, "signal 11"},
                                         Fault{"garbage", tunefarm::v1::OUTCOME_RUN_CRASH, "no frame"},
                                         Fault{"oversized", tunefarm::v1::OUTCOME_RUN_CRASH, "more than 131072 bytes"},
                                         Fault{"empty_packet", tunefarm::v1::OUTCOME_RUN_CRASH, "empty packet"},
                                         Fault{"daemon_frame", tunefarm::v1::OUTCOME_RUN_CRASH, "nobody asked"},
                                         Fault{"second_hello", tunefarm::v1::OUTCOME_RUN_CRASH, "nobody asked"},
                                         Fault{"wrong_id", tunefarm::v1::OUTCOME_RUN_CRASH, "instead of"},
                                         Fault{"bad_phase", tunefarm::v1::OUTCOME_RUN_CRASH, "unknown phase"},
                                         Fault{"fds_with_log", tunefarm::v1::OUTCOME_RUN_CRASH, "descriptors"},
                                         Fault{"bad_outcome", tunefarm::v1::OUTCOME_RUN_CRASH, "outcome 99"},
                                         Fault{"phase_storm", tunefarm::v1::OUTCOME_RUN_CRASH, "phases"},
                                         Fault{"nan_time", tunefarm::v1::OUTCOME_RUN_CRASH, "nan"},
                                         Fault{"no_time", tunefarm::v1::OUTCOME_RUN_CRASH, "without a time"}));

// What a Python interpreter may send: JSON.
class PythonFaultTest : public EvaluatorTest, public testing::WithParamInterface<Fault> {};

TEST_P(PythonFaultTest, HasItsOutcomeAndTheNextTrialIsFine) {
  options_.python_interpreter = "/usr/bin/python3";  // The fake speaks for it.
  const std::shared_ptr<const KernelPlan> python = FakePythonPlan();
  const auto run = [&](const std::string& behave) {
    RunRequest request = RunOf(behave);
    request.plan = python;
    request.problem = FakeProblem(*python, 1);
    return Run(std::move(request));
  };
  const RunResult result = run(GetParam().behave);
  EXPECT_EQ(result.outcome, GetParam().outcome) << result.message;
  EXPECT_THAT(result.message, HasSubstr(GetParam().message));
  EXPECT_EQ(run("ok").outcome, tunefarm::v1::OUTCOME_OK);
}

INSTANTIATE_TEST_SUITE_P(All, PythonFaultTest,
                         testing::Values(Fault{"garbage", tunefarm::v1::OUTCOME_RUN_CRASH, "no frame"},
                                         Fault{"unknown_field", tunefarm::v1::OUTCOME_RUN_CRASH,
                                               "winner: Cannot find field"},
                                         Fault{"wrong_type", tunefarm::v1::OUTCOME_RUN_CRASH, "compile_ms"},
                                         Fault{"not_utf8", tunefarm::v1::OUTCOME_RUN_CRASH, "non UTF-8"},
                                         Fault{"oversized", tunefarm::v1::OUTCOME_RUN_CRASH, "more than 131072 bytes"},
                                         Fault{"empty_packet", tunefarm::v1::OUTCOME_RUN_CRASH, "empty packet"},
                                         Fault{"daemon_frame", tunefarm::v1::OUTCOME_RUN_CRASH, "nobody asked"},
                                         Fault{"wrong_id", tunefarm::v1::OUTCOME_RUN_CRASH, "instead of"},
                                         Fault{"bad_outcome", tunefarm::v1::OUTCOME_RUN_CRASH, "outcome 99"},
                                         Fault{"nan_time", tunefarm::v1::OUTCOME_RUN_CRASH, "nan"}));

class CompileFaultTest : public EvaluatorTest, public testing::WithParamInterface<Fault> {};

TEST_P(CompileFaultTest, HasItsOutcomeAndTheNextCompileWorks) {
  const CompileResult faulty = Compile(GetParam().behave);
  EXPECT_EQ(faulty.outcome, GetParam().outcome) << faulty.message;
  EXPECT_THAT(faulty.message, HasSubstr(GetParam().message));
  EXPECT_EQ(faulty.artifact, nullptr);
  EXPECT_EQ(Compile("ok").outcome, tunefarm::v1::OUTCOME_OK);
}

INSTANTIATE_TEST_SUITE_P(
    All, CompileFaultTest,
    testing::Values(Fault{"crash", tunefarm::v1::OUTCOME_COMPILE_CRASH, "signal 11"},
                    Fault{"exit_0", tunefarm::v1::OUTCOME_COMPILE_CRASH, "exit(0)"},
                    Fault{"garbage", tunefarm::v1::OUTCOME_COMPILE_CRASH, "no frame"},
                    Fault{"wrong_id", tunefarm::v1::OUTCOME_COMPILE_CRASH, "instead of"},
                    Fault{"pipe_as_artifact", tunefarm::v1::OUTCOME_COMPILE_CRASH, "not a memory file"},
                    Fault{"compile_error", tunefarm::v1::OUTCOME_COMPILE_ERROR, "the source is wrong"}));

// Once may be anybody's doing; each time is the config's. The device stays in service.
TEST_F(EvaluatorTest, AWorkerThatIsKilledIsTriedAgainABoundedNumberOfTimes) {
  const bool can_tell = CountMemoryKills().has_value();
  for (int config = 0; config < 4; ++config) {
    const RunResult run = Run(RunOf("killed", config));
    EXPECT_EQ(run.outcome, can_tell ? tunefarm::v1::OUTCOME_RUN_CRASH : tunefarm::v1::OUTCOME_OUT_OF_MEMORY);
    EXPECT_THAT(run.message, testing::AllOf(HasSubstr("killed"), HasSubstr("3 times in a row")));
    EXPECT_FALSE(run.out_of_service);
    EXPECT_EQ(evaluator()->stats().runners_started, 3 * (config + 1));
  }
  EXPECT_EQ(Run("ok").outcome, tunefarm::v1::OUTCOME_OK);
  const CompileResult compiled = Compile("killed");
  EXPECT_EQ(compiled.outcome, can_tell ? tunefarm::v1::OUTCOME_COMPILE_CRASH : tunefarm::v1::OUTCOME_OUT_OF_MEMORY);
  EXPECT_THAT(compiled.message, HasSubstr("3 times in a row"));
  EXPECT_EQ(Compile("ok").outcome, tunefarm::v1::OUTCOME_OK);
}

// What a worker saw happen to a process of its own counts like its own death; a later try that ends well is all there
// is.
TEST_F(EvaluatorTest, ATrialThatIsKilledOnceIsRunAgain) {
  const RunResult run = Run("child_killed_once");
  EXPECT_EQ(run.outcome, tunefarm::v1::OUTCOME_OK) << run.message;
  EXPECT_EQ(evaluator()->stats().runners_started, 1);
}

TEST_F(EvaluatorTest, CrashLogHasHeadAndTailOfTheOutput) {
  const RunResult run = Run("flood_and_crash");
  EXPECT_THAT(run.log, testing::StartsWith("the first line\n"));
  EXPECT_THAT(run.log, testing::EndsWith("the last line\n"));
  EXPECT_LE(run.log.size(), (64u << 10) + 100);
}

TEST_F(EvaluatorTest, FloodOfOutputHarmsNobody) {
  EXPECT_EQ(Run("flood").outcome, tunefarm::v1::OUTCOME_OK);
  EXPECT_THAT(Run("ok").message, HasSubstr("runs=2 "));
}

TEST_F(EvaluatorTest, CompileLogIsValidText) { EXPECT_EQ(Compile("compile_error").log, "error: expected ';'?"); }

// The deadline of one phase is short; a trial that hangs in it times out, and only there.
TEST_F(EvaluatorTest, FirstLaunchHasItsDeadline) {
  options_.deadlines.first_launch_ms = 50;
  const RunResult run = Run("hang");
  EXPECT_EQ(run.outcome, tunefarm::v1::OUTCOME_RUN_TIMEOUT);
  EXPECT_EQ(run.phase, tunefarm::v1::PHASE_FIRST_LAUNCH);
  EXPECT_THAT(run.message, HasSubstr("the first launch did not finish within 50.0 ms"));
}

TEST_F(EvaluatorTest, MeasurementMayTakeItsBudgetsAndFourLaunchesAndTheGrace) {
  options_.deadlines.measure_grace_ms = 40;
  options_.deadlines.first_launch_ms = 2'000;  // it must get through the first launch
  RunRequest request = RunOf("hang_in_measure");
  request.policy.set_time_budget_ms(10);
  const RunResult run = Run(std::move(request));
  EXPECT_EQ(run.outcome, tunefarm::v1::OUTCOME_RUN_TIMEOUT);
  EXPECT_EQ(run.phase, tunefarm::v1::PHASE_MEASURE);
  EXPECT_THAT(run.message, HasSubstr("8.06 s"));
}

TEST_F(EvaluatorTest, SilenceBeforeTheFirstPhaseIsLimitedToo) {
  options_.deadlines.load_ms = 50;
  EXPECT_EQ(Run("hang_silently").outcome, tunefarm::v1::OUTCOME_RUN_TIMEOUT);
}

TEST_F(EvaluatorTest, CompileHasItsDeadline) {
  options_.deadlines.compile_ms = 50;
  const CompileResult compiled = Compile("hang");
  EXPECT_EQ(compiled.outcome, tunefarm::v1::OUTCOME_COMPILE_TIMEOUT);
  EXPECT_THAT(compiled.message, HasSubstr("compiling did not finish"));
}

TEST_F(EvaluatorTest, ClosedChannelOfALivingWorkerIsACrash) {
  options_.deadlines.exit_ms = 50;
  const RunResult run = Run("close_channel");
  EXPECT_EQ(run.outcome, tunefarm::v1::OUTCOME_RUN_CRASH);
  EXPECT_THAT(run.message, HasSubstr("closed its channel"));
}

TEST_F(EvaluatorTest, CrashWhilePreparing) {
  const RunResult run = Run(RunOf("ok", 0, "device-0", 2));
  EXPECT_EQ(run.outcome, tunefarm::v1::OUTCOME_RUN_CRASH);
  EXPECT_EQ(run.phase, tunefarm::v1::PHASE_UNSPECIFIED);
  EXPECT_THAT(run.message, HasSubstr("building the inputs"));
  EXPECT_EQ(Run("ok").outcome, tunefarm::v1::OUTCOME_OK);
}

TEST_F(EvaluatorTest, HangWhilePreparing) {
  options_.deadlines.prepare_ms = 2'000;
  EXPECT_EQ(Run(RunOf("ok", 0, "device-0", 3)).outcome, tunefarm::v1::OUTCOME_RUN_TIMEOUT);
}

TEST_F(EvaluatorTest, RefusedPreparationKeepsTheWorker) {
  const RunResult refused = Run(RunOf("ok", 0, "device-0", 4));
  EXPECT_EQ(refused.outcome, tunefarm::v1::OUTCOME_OUT_OF_MEMORY);
  EXPECT_EQ(refused.message, "the inputs do not fit");
  EXPECT_EQ(Run("ok").outcome, tunefarm::v1::OUTCOME_OK);
}

TEST_F(EvaluatorTest, DamagedWorkerIsReplacedAndItsResultCounts) {
  EXPECT_EQ(Run("damaged").outcome, tunefarm::v1::OUTCOME_OK);
  EXPECT_THAT(Run("ok").message, HasSubstr("runs=1 "));
}

TEST_F(EvaluatorTest, ForkBombIsContained) {
  options_.deadlines.first_launch_ms = 3'000;  // also of the good one that follows
  EXPECT_EQ(Run("fork_bomb").outcome, tunefarm::v1::OUTCOME_RUN_TIMEOUT);
  EXPECT_EQ(Run("ok").outcome, tunefarm::v1::OUTCOME_OK);
}

// As root in most containers: nothing can be mounted, so the scratch directory stays where only root enters.
TEST_F(EvaluatorTest, RootThatMayNotMountStillRunsWorkers) {
  if (geteuid() != 0) GTEST_SKIP() << "not root";
  // Bound to a thread and what it starts: the evaluator's own thread, and so its workers.
  Thread powerless("powerless", [this] {
    ASSERT_EQ(prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN), 0);
    EXPECT_EQ(Compile("ok").outcome, tunefarm::v1::OUTCOME_OK);
    EXPECT_EQ(Run("ok").outcome, tunefarm::v1::OUTCOME_OK);
  });
}

TEST_F(EvaluatorTest, ChildLeftBehindDiesWithItsWorker) {
  EXPECT_EQ(Run("leave_child").outcome, tunefarm::v1::OUTCOME_OK);
  EXPECT_EQ(Run("crash").outcome, tunefarm::v1::OUTCOME_RUN_CRASH);
  EXPECT_EQ(Run("ok").outcome, tunefarm::v1::OUTCOME_OK);
}

TEST_F(EvaluatorTest, ManyTrialsWithRandomFaultsAllEnd) {
  constexpr const char* kBehaviours[] = {"ok",      "ok",     "ok",      "ok",           "crash",
                                         "garbage", "exit_0", "damaged", "wrong_result", "flood"};
  constexpr int kTrials = 200;
  PhiloxStream random(7);
  Mutex mutex;
  std::map<tunefarm::v1::Outcome, int> expected, got;
  int left = kTrials;
  Notification done;
  for (int i = 0; i < kTrials; ++i) {
    const std::string behave = kBehaviours[random.UniformInt(std::size(kBehaviours))];
    const bool crashes = behave == "crash" || behave == "garbage" || behave == "exit_0";
    ++expected[crashes                    ? tunefarm::v1::OUTCOME_RUN_CRASH
               : behave == "wrong_result" ? tunefarm::v1::OUTCOME_WRONG_RESULT
                                          : tunefarm::v1::OUTCOME_OK];
    evaluator()->Run(RunOf(behave, i, fmt::format("device-{}", i % 3)), [&](const RunResult& run) {
      MutexLock lock(&mutex);
      ++got[run.outcome];
      if (--left == 0) done.Notify();
    });
  }
  done.WaitForNotification();
  MutexLock lock(&mutex);
  EXPECT_EQ(got, expected);
}

}  // namespace
}  // namespace tunefarm
